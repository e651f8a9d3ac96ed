"""Find which instructions store what each load from the LDS reads, by the addresses that one block accesses.

Compilers use the LDS for one thing after another: tiles of a product, then its result. Without this a load
asks for the data of all stores, also if these are others' tiles.
"""

from collections.abc import Mapping

import numpy as np

from dse.errors import DseError
from dse.source.amd.execute.code import Code
from dse.source.amd.execute.contents import MemoryMachine
from dse.source.amd.execute.interpret import execute
from dse.source.amd.execute.memory_names import MemoryAccess, memory_access
from dse.source.machine.launch import LaunchArguments
from dse.source.machine.liveness import Purpose

Feeds = Mapping[int, frozenset[int]]  # by the load's number, those of the stores
_STEPS = 20_000  # stretches
_LDS = 2**18  # bytes, more than any block has


def feeds_of(code: Code, launch: LaunchArguments) -> Feeds | None:
    """Return what loads from the LDS read in the middle of the grid; None if any store may count.

    That is so where nothing depends on these loads, or their addresses depend on data.
    """
    accesses = {step.index: memory_access(step.opcode) for step in code.listing.instructions}
    if any(access and (access.space == "flat" or access.to_lds) for access in accesses.values()):
        return None
    loads = {number for number, access in accesses.items() if access and _loads(access)}
    if loads.isdisjoint(code.needed_for(Purpose.COUNTS).evaluated):
        return None
    alone = code.needed_for(Purpose.COUNTS, feeds=dict.fromkeys(loads, frozenset[int]()))
    x, y, z = (size // 2 for size in launch.grid)
    try:
        machine, _ = execute(alone, launch, [(x, y, z)], step_limit=_STEPS)
    except DseError:
        return None
    return written_by(code, machine)


def _loads(access: MemoryAccess) -> bool:
    return access.space == "lds" and access.kind != "store"


def written_by(code: Code, machine: MemoryMachine) -> Feeds:
    """Return which stores wrote last what each load reads: any of them where none is known to have."""
    every = {step.index: memory_access(step.opcode) for step in code.listing.instructions}
    of_lds = {number: access for number, access in every.items() if access and access.space == "lds"}
    stores = frozenset(number for number, access in of_lds.items() if access.kind != "load")
    unit = min((of_lds[number].bytes for number in stores), default=4)
    last = np.full((machine.shape[0], _LDS // unit), -1)
    feeds: dict[int, frozenset[int]] = {}
    for performed in machine.accesses:
        access = of_lds.get(performed.index)
        if access is None:
            continue
        shape = np.broadcast_shapes(performed.base.shape, performed.lanes.shape, (len(last), 1, 1))
        active = np.broadcast_to(performed.lanes, shape)
        address = np.broadcast_to(performed.base + performed.offset & _LDS - 1, shape)[active]
        at = address[:, None] // unit + np.arange(max(access.bytes // unit, 1))
        block = np.nonzero(active)[0][:, None]
        if access.kind != "store":
            read = frozenset(np.unique(last[block, at % last.shape[1]]).tolist())
            feeds[performed.index] = feeds.get(performed.index, frozenset()) | (
                stores if -1 in read else read
            )
        if access.kind != "load":
            last[block, at % last.shape[1]] = performed.index
    return feeds
