"""Actions: functions of the machine for the steps of a basic block that are counted or evaluated."""

from functools import reduce
from operator import or_

import numpy as np

from dse.source.machine.feeds import Touch
from dse.source.machine.launch import REGION_BITS
from dse.source.machine.liveness import Purpose, reached
from dse.source.machine.recorded import MEMORY_COUNTS
from dse.source.machine.thread_set import WARP, Lanes
from dse.source.nvidia.execute.access_counts import COUNT, MATRICES, moved_on
from dse.source.nvidia.execute.binding import Unsupported, bind
from dse.source.nvidia.execute.boxes import box_action
from dse.source.nvidia.execute.load_store import PERFORM
from dse.source.nvidia.execute.slice import decides
from dse.source.nvidia.machine.state import Action, BoundProgram, Machine, union
from dse.source.nvidia.sass.operands import RZ, Operand, P
from dse.source.nvidia.sass.products import UnknownProductError, described, needs_descriptor
from dse.source.nvidia.sass.program import BasicBlock, Step, descriptor_slot
from dse.source.nvidia.sass.usual import usual_test

_U32 = np.uint32


def actions(bound: BoundProgram, block: BasicBlock) -> list[tuple[Step, Action]]:
    """Return the actions of a block's steps, in order; most steps have none."""
    made: list[tuple[Step, Action]] = []
    counting = bound.purpose is Purpose.COUNTS
    for step in block.steps:
        if step.memory and counting:
            bound.memory_rows[step.index] = bound.rows
            bound.rows += len(MEMORY_COUNTS) * len(step.memory)
        if step.memory and (counting or step.needed or step.addressed):
            made.append((step, (box_action if step.of_box else _memory_action)(bound, step)))
        looked_at = decides(bound.purpose, step) or (not step.memory and (counting or step.needed))
        guarded = step.guard >= 0 and step.guard_known and step.pipe not in ("control", "barrier")
        if looked_at and guarded:
            for rows in (bound.guard_rows, bound.product_rows)[: 1 + (step.pipe == "tensor")]:
                rows[step.index] = bound.rows
                bound.rows += 1
                made.append((step, _guard_action(step, bound.rows - 1, rows is bound.product_rows)))
        if needs_descriptor(step.opcode):
            made.append((step, _describe_action(step)))
        if step.opcode in _BARRIER_MOVES:
            made.append((step, _BARRIER_MOVES[step.opcode](step)))
        elif step.opcode == "QSPC":
            made.append((step, _space_action(step)))
        elif step.opcode == "BPT" and step.has("TRAP"):
            made.append((step, _trap_action(step)))
        elif step.needed and step.kind == "meeting":  # `waiting` writes what threads find out together
            made.append((step, lambda machine, lanes: None))
        elif step.needed and not step.memory:
            made.append((step, _compute_action(bound, step, _usual_test(bound, block, step))))
    return made


def _usual_test(bound: BoundProgram, block: BasicBlock, step: Step) -> bool | None:
    """Return `usual_test`, but None where a loop might then never end, such as one until a number is 0."""
    usual = usual_test(step)
    if usual is None or not step.has("EQ", "NE", "NEU", "EQU"):
        return usual
    blocks = bound.program.blocks
    ways = [
        block.index in reached(after, lambda index: blocks[index].successors) for after in block.successors
    ]
    return usual if all(ways) or not any(ways) else None


def _guarded(step: Step, act: Action) -> Action:
    """Do something in the threads whose guard holds, if there are any."""

    def action(machine: Machine, lanes: Lanes) -> None:
        guarded = machine.under_guard(step, lanes)
        if guarded is not None:
            act(machine, guarded)

    return action


def _guard_action(step: Step, row: int, warps: bool) -> Action:
    """Count the threads whose guard holds, or the warps with such a thread."""

    def count(machine: Machine, guarded: Lanes) -> None:
        machine.counts[row] += guarded.warps if warps else guarded.threads

    return _guarded(step, count)


def _describe_action(step: Step) -> Action:
    """Find the product of an instruction whose shape is in a register."""
    operands = step.sources
    slot = descriptor_slot(step)

    def describe(machine: Machine, guarded: Lanes) -> None:
        values = np.unique(guarded.of(machine.r[slot]))
        if len(values) != 1 or union(machine.taint[slot], guarded):
            raise machine.program.error(step, "found an instruction descriptor that varies, expected one")
        if step.has("2CTA") and machine.launch.cluster == (1, 1, 1):
            stated = "that the code states its clusters (__cluster_dims__)"
            raise machine.program.error(step, f"found a product of two blocks, expected {stated}")
        try:
            step.product = described(step.opcode, step.modifiers, operands, int(values[0]))
        except UnknownProductError as problem:
            raise machine.program.error(
                step, f"found {problem}, expected a product of classes of work (sass/products.py)"
            ) from None

    return _guarded(step, describe)


def _compute_action(bound: BoundProgram, step: Step, usual: bool | None) -> Action:
    """Write the instruction's results and their taints.

    Comparisons of unknown data have the result `usual`, if stated. An instruction that is not supported is an
    error only if an address or a branch uses its result.
    """
    try:
        function = bound.functions.get(step.index) or bind(step, bound.slots.of)
    except Unsupported as reason:
        return _unsupported_action(step, str(reason))
    evaluate, slots, reads = bound.functions[step.index] = function
    reads = () if step.given else tuple(slot for slot in reads if not (step.alone and slot in step.writes))
    of_warps = step.opcode == "R2UR"

    def compute(machine: Machine, lanes: Lanes) -> None:
        guarded = lanes if step.guard < 0 else machine.under_guard(step, lanes)
        if guarded is None:
            return
        taints, taint = machine.taint, 0
        for slot in reads:
            taint = taint | taints[slot]
        if step.guard >= 0 and step.guard_shows:
            taint = taint | taints[step.guard]
        written = guarded
        if of_warps:  # one lane determines its warp's value
            taint, written = union(taint, guarded), machine.sets.whole_warps(guarded)
        values = evaluate(machine.r, guarded)
        if usual is not None and not (isinstance(taint, int) and not taint):
            tests = [_combined(machine, step, np.full((1, 1), test)) for test in (usual, not usual)]
            of_slot = dict(zip((target.slot for target in step.targets), tests, strict=False))
            values = [
                np.where(np.asarray(taint) != 0, of_slot[slot], value)
                for slot, value in zip(slots, values, strict=True)
            ]
        for slot, value in zip(slots, values, strict=True):
            machine.write(slot, value, taint, written if slot < P or not of_warps else guarded)

    return compute


def _combined(machine: Machine, step: Step, test: np.ndarray) -> np.ndarray:
    """Combine a test with a comparison's last predicate."""
    if len(step.sources) < 3:
        return test
    operand = step.sources[2]
    with_ = machine.r[operand.slot] ^ operand.negate
    return test | with_ if step.has("OR") else test ^ with_ if step.has("XOR") else test & with_


def _space_action(step: Step) -> Action:
    """Tell generic addresses of shared memory from those of arrays; none is of local memory."""
    address, target = step.sources[0], step.targets[0].slot

    def ask(machine: Machine, guarded: Lanes) -> None:
        taint = reduce(or_, (machine.taint[slot] for slot in step.bases), 0)
        shared = machine.base(step, address, True) + address.offset >> REGION_BITS == 0
        machine.write(target, shared & step.has("S"), taint, guarded)

    return _guarded(step, ask)


def _unsupported_action(step: Step, reason: str) -> Action:
    """Write zeros, on which no address or branch may depend."""

    def lose(machine: Machine, guarded: Lanes) -> None:
        taint = machine.unsupported(step, reason)
        for slot in step.writes:
            zero = np.zeros((1, 1), bool if slot >= P else _U32)
            machine.write(slot, zero, taint, guarded)

    return _guarded(step, lose)


def _bmov_action(step: Step) -> Action:
    """Move a convergence barrier's mask to or from a register; .CLEAR empties it."""
    target, mask = step.targets[0].slot, step.sources[0].slot

    def move(machine: Machine, guarded: Lanes) -> None:
        value = machine.r[mask]
        if target != RZ:
            machine.write(target, value, 0, guarded)
        if step.has("CLEAR"):
            machine.write(mask, np.zeros((1, 1), _U32), 0, guarded)

    return _guarded(step, move)


def _bssy_action(step: Step) -> Action:
    """Register the active threads at a convergence barrier."""
    slot = step.sources[0].slot

    return _guarded(step, lambda machine, guarded: machine.write(slot, guarded.bits, 0, guarded))


def _break_action(step: Step) -> Action:
    """Remove the active threads from a barrier, in the mask of all threads of their warps."""
    slot = next(operand.slot for operand in step.sources if operand.kind == "barrier")

    def leave(machine: Machine, guarded: Lanes) -> None:
        if (leaving := machine.where_all(step.sources, guarded)) is not None:
            machine.r[slot] = machine.r[slot] & ~leaving.bits

    return _guarded(step, leave)


def _trap_action(step: Step) -> Action:
    """Refuse threads that come to a trap, behind which other code may lie, but not for unstated data."""
    why = "expected none, as where an assertion fails"

    def stop(machine: Machine, guarded: Lanes) -> None:
        if step.guard < 0 or not union(machine.taint[step.guard], guarded):
            raise machine.program.error(step, f"found threads that come to a trap, {why}")

    return _guarded(step, stop)


_BARRIER_MOVES = {"BMOV": _bmov_action, "BSSY": _bssy_action, "BREAK": _break_action}


def _touch(machine: Machine, step: Step, address: Operand, lanes: Lanes) -> Touch:
    """Return what an instruction accesses in shared memory."""
    matrices, active = step.opcode in MATRICES, lanes.mask
    if matrices:  # each of the first lanes has the address of a row
        active = active & (np.arange(active.shape[1]) % WARP < 2 * step.bytes)
    base, size = machine.base(step, address, False), 16 if matrices else step.bytes
    return Touch(step.index, base, active, size, step.loads_shared, step.stores_shared, address.offset)


def _memory_action(bound: BoundProgram, step: Step) -> Action:
    """Count an access, and execute it if something depends on it."""
    row = bound.memory_rows.get(step.index, -1)
    address = step.memory[-1]
    counting = bound.purpose is Purpose.COUNTS
    count = COUNT[step.pipe]
    perform = PERFORM[step.pipe] if step.needed else None
    touched = step.shared if bound.notes_touches else None

    def access(machine: Machine, lanes: Lanes) -> None:
        taint = 0
        if step.guard >= 0:
            taint = machine.taint[step.guard]
            machine.note_unknown(step, "guard", taint, lanes)
        guarded = machine.under_guard(step, lanes)
        if guarded is None:
            return
        address_taint = 0
        for slot in step.bases:
            address_taint = address_taint | machine.taint[slot]
        machine.note_unknown(step, "address", address_taint, guarded)
        base = machine.base(step, address, step.pipe == "global")
        if touched is not None:
            machine.touches.append(_touch(machine, step, touched, guarded))
        # where the predicate of a copy does not hold, zeros are stored
        read = machine.where_all(step.sources, guarded) if step.kind == "copy" else guarded
        if read is not None and counting:
            count(machine, step, row, base, address.offset, read)
        elif read is not None and step.addressed and step.pipe == "global":
            machine.streams.append(moved_on(machine, step, read, base, address.offset))
        if step.kind == "copy" and counting:  # it also stores to shared memory
            to = step.memory[0]
            shared_row, shared_base = row + len(MEMORY_COUNTS), machine.base(step, to, False)
            COUNT["shared"](machine, step, shared_row, shared_base, to.offset, guarded)
        if perform is not None:
            perform(machine, step, base + address.offset, guarded, taint | address_taint)
        elif step.pipe == "global" and bound.loads_global and (step.stores or step.atomic):
            machine.memory.written.add(int(guarded.of(base)[0]) >> REGION_BITS)

    return access
