"""Find which instructions store what each load from the LDS reads."""

from collections.abc import Iterator

from dse.source.amd.execute.code import Code
from dse.source.amd.execute.contents import MemoryMachine
from dse.source.amd.execute.interpret import execute
from dse.source.amd.execute.memory_names import MemoryAccess, memory_access
from dse.source.machine.feeds import STEPS, Feeds, Touch, feeds_of, written_by
from dse.source.machine.launch import Dimensions, LaunchArguments
from dse.source.machine.liveness import Purpose
from dse.source.machine.recorded import ONCE


def feeds_in(code: Code, launch: LaunchArguments) -> Feeds | None:
    """Return what loads from the LDS read; None where nothing depends on that, or it is not known."""
    accesses = _accesses(code)
    if any(access.space == "flat" or access.to_lds for access in accesses.values()):
        return None
    loads = {number for number, it in accesses.items() if it.space == "lds" and it.kind != "store"}
    if loads.isdisjoint(code.needed_for(Purpose.COUNTS).evaluated):
        return None

    def read(feeds: Feeds, block: Dimensions) -> tuple[Feeds, set[int]]:
        alone = code.needed_for(Purpose.FEEDS, feeds=feeds)
        return fed(code, execute(alone, launch, [block], step_limit=STEPS)[0]), alone.evaluated

    return feeds_of(loads, launch, read)


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
                yield Touch(at.index, at.base, at.lanes, access.bytes, loads, stores, at.offset)

    unit = min((access.bytes for access in of_lds.values() if access.kind != "load"), default=4)
    moved = {
        at.index
        for at in machine.accesses
        if at.trips != ONCE and (at.stride or isinstance(at.stride, float))
    }
    return written_by(touches(), machine.shape[0], min(unit, 4), moved)
