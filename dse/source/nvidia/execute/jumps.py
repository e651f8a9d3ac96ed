"""Branches: the threads that take one, and the targets of jumps to an address in a register."""

from collections.abc import Iterator

import numpy as np

from dse.source.machine.thread_set import Lanes
from dse.source.nvidia.machine.state import Machine, union
from dse.source.nvidia.sass.operands import PT, UPT
from dse.source.nvidia.sass.program import Step


def taking(machine: Machine, step: Step, lanes: Lanes) -> Lanes | None:
    """Return those of `lanes` that take a branch; None if empty."""
    taken = machine.under_guard(step, lanes)
    taint = machine.taint[step.guard] if step.guard >= 0 else 0
    for operand in step.sources:
        if operand.kind == "predicate" and operand.slot not in (PT, UPT):
            taint = taint | machine.taint[operand.slot]
            taken = machine.where(operand.slot, operand.negate, taken) if taken is not None else None
        elif operand.kind == "predicate" and operand.negate:
            taken = None
    machine.note_unknown(step, "branch", taint, lanes)
    if taken is not None and step.has("DIV", "CONV"):
        taken = _diverged(machine, step, taken)
    return taken


def _diverged(machine: Machine, step: Step, lanes: Lanes) -> Lanes | None:
    """BRA.DIV: taken where the active threads are not those of the mask that still run."""
    mask = step.sources[0]
    expected = ~machine.r[mask.slot] if mask.invert else machine.r[mask.slot]
    live = machine.sets.of(machine.live_mask)
    missing = (expected & live.bits) != lanes.bits
    diverged = machine.sets.of(lanes.mask & missing)
    return diverged if diverged.total else None


def targets(machine: Machine, step: Step, lanes: Lanes) -> Iterator[tuple[int, Lanes]]:
    """Yield the basic blocks that threads jump to, and the threads.

    RET jumps to an address in a register; BRX adds a number and the address of the next instruction.

    **Raises:** DseError if no basic block begins at an address.
    """
    slot = next(operand.slot for operand in step.sources if operand.kind == "register")
    offset = 0
    if step.opcode != "RET":
        offset = step.address + machine.program.spacing
        offset += sum(int(operand.text, 0) for operand in step.sources if operand.kind == "number")
    machine.note_unknown(step, "branch", machine.taint[slot], lanes)
    address = np.broadcast_to((machine.r[slot].astype(np.int64) + offset) & 0xFFFFFFFF, machine.shape)
    mask = lanes.everywhere
    for target in np.unique(address[mask]).tolist():
        if target not in machine.program.block_at or target == 0:  # of a function that the loader places
            names = machine.sources_of(union(machine.taint[slot], lanes))
            unknown = f" (it depends on {', '.join(names)})" if names else ""
            why = "expected a place in the kernel, as no pointer to a function and no virtual function has"
            raise machine.program.error(step, f"found a jump to 0x{target:x}{unknown}, {why}")
        yield machine.program.block_at[target], machine.sets.of(mask & (address == target))
