"""Find which instructions store what each load from the LDS reads."""

from collections.abc import Iterator

from dse.source.amd.execute.code import Code
from dse.source.amd.execute.contents import MemoryMachine
from dse.source.amd.execute.interpret import execute
from dse.source.amd.execute.memory_names import MemoryAccess, memory_access
from dse.source.machine.feeds import STEPS, Feeds, Touch, settled, written_by
from dse.source.machine.launch import LaunchArguments
from dse.source.machine.liveness import Purpose
from dse.source.machine.recorded import ONCE


def feeds_of(code: Code, launch: LaunchArguments) -> Feeds | None:
    """Return what loads from the LDS read in the middle of the grid; None if any store may count.

    That is so where nothing depends on these loads, or it is not known which memory is accessed.
    """
    accesses = _accesses(code)
    if any(access.space == "flat" or access.to_lds for access in accesses.values()):
        return None
    loads = {number for number, it in accesses.items() if it.space == "lds" and it.kind != "store"}
    if loads.isdisjoint(code.needed_for(Purpose.COUNTS).evaluated):
        return None
    x, y, z = (size // 2 for size in launch.grid)

    def read(feeds: Feeds) -> tuple[Feeds, bool]:
        alone = code.needed_for(Purpose.FEEDS, feeds=feeds)
        machine, _ = execute(alone, launch, [(x, y, z)], step_limit=STEPS)
        return fed(code, machine), not loads.isdisjoint(alone.evaluated)

    return settled(loads, read)


def _accesses(code: Code) -> dict[int, MemoryAccess]:
    accesses = {step.index: memory_access(step.opcode) for step in code.listing.instructions}
    return {number: access for number, access in accesses.items() if access}


def fed(code: Code, machine: MemoryMachine) -> Feeds:
    """Return which stores wrote last what each load from the LDS reads."""
    of_lds = {number: access for number, access in _accesses(code).items() if access.space == "lds"}

    def touches() -> Iterator[Touch]:
        for at in machine.accesses:
            if access := of_lds.get(at.index):
                loads, stores = access.kind != "store", access.kind != "load"
                yield Touch(at.index, at.base, at.offset, at.lanes, access.bytes, loads, stores)

    unit = min((access.bytes for access in of_lds.values() if access.kind != "load"), default=4)
    moved = {
        at.index
        for at in machine.accesses
        if at.trips != ONCE and (at.stride or isinstance(at.stride, float))
    }
    return written_by(touches(), machine.shape[0], min(unit, 4), moved)
