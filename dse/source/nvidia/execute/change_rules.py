"""Rules by opcode for the change of an instruction's result from trip to trip of a loop.

Each rule derives the change of the result from those of the sources (sums, multiples), or shows that there is
none (shifts, comparisons), and limits the trips for which this holds. It raises `Irregular` if the change is
not the same in every trip.
"""

from collections.abc import Callable
from functools import reduce

import numpy as np

from dse.source.machine.thread_set import WARP
from dse.source.machine.trips import BITS_32, INT32, PAIRS, UINT32, Change, Irregular, signed
from dse.source.nvidia.execute.register_changes import RegisterChanges, or_zero, plus, times
from dse.source.nvidia.sass.opcodes import kinds_of
from dse.source.nvidia.sass.operands import RZ, URZ, Operand, P
from dse.source.nvidia.sass.program import Step
from dse.source.nvidia.sass.semantics import ZERO, joined, logic, total

_INSIDE_TOO = "it changes in a loop inside too"
_SOON = 2**20  # a change of a low word by which it overflows after few trips of a loop


def _values(step: Step) -> list[Operand]:
    """Return the sources other than predicates."""
    return [operand for operand in step.sources if operand.kind != "predicate"]


def _condition(step: Step) -> Operand:
    """Return the first predicate among the sources."""
    return next(operand for operand in step.sources if operand.kind == "predicate")


def _carries(step: Step) -> bool:
    """Return whether a carry is written to a predicate."""
    return any(target.text[-1] != "T" for target in step.targets[1:])


def _integers(step: Step) -> range:
    """Return the range of the sources' integer type."""
    return UINT32 if step.has("U32") else INT32


def _linear(registers: RegisterChanges, step: Step) -> None:
    """Linear results: the change is the difference of those of sources that differ by their changes."""
    values = [(operand, registers.change(operand)) for operand in _values(step)]
    evaluate, written, _ = registers.machine.bound.functions[step.index]
    pair = sum(slot < P for slot in written) == 2
    here, there = list(registers.machine.r), list(registers.machine.r)
    for slot in step.reads:
        if (change := registers.by_slot.get(slot)) is not None:
            start = np.maximum(-change, 0) if pair else ZERO  # from where no register overflows
            start = np.where(change == 0, here[slot], start)  # a factor of threads where it is the same
            here[slot], there[slot] = start.astype(np.uint32), (change + start).astype(np.uint32)
    before, after = evaluate(here, registers.lanes), evaluate(there, registers.lanes)
    if not pair:
        registers.set(step.targets[0].slot, after[0].astype(np.int64) - before[0])
        return
    # No source or low word may overflow: the carry into the high word would be lost.
    _, kinds = kinds_of(step.row.form, step.modifiers)
    for index, (operand, change) in enumerate(values):
        if change is not None:
            integers = INT32 if kinds[index : index + 1] == ("i",) else UINT32
            registers.limit(registers.value(operand, integers), change, integers)
    change = (joined(*after[:2]) - joined(*before[:2])).view(np.int64)
    registers.set_pair(step.targets[0].slot, change, evaluate(registers.machine.r, registers.lanes)[0])


def _to_uniform(registers: RegisterChanges, step: Step) -> None:
    """R2UR: the change of the lowest active lane is that of its warp."""
    change, lanes = registers.change(_values(step)[0]), registers.lanes
    *tests, target = step.targets
    if change is not None and change.shape[1] > 1:
        blocks, threads = lanes.shape
        lowest = np.broadcast_to(lanes.by_warp, (blocks, threads // WARP, WARP)).argmax(-1)[..., None]
        by_warp = np.broadcast_to(change, lanes.shape).reshape(blocks, threads // WARP, WARP)
        change = np.repeat(np.take_along_axis(by_warp, lowest, axis=-1)[..., 0], WARP, axis=1)
        if tests:
            raise Irregular("lanes differ from the lowest one in other ways")
    registers.set(target.slot, change, registers.machine.sets.whole_warps(lanes))


def _add(registers: RegisterChanges, step: Step) -> None:
    if step.has("X") or _carries(step):
        terms = [(registers.value(term, UINT32), registers.change(term)) for term in _values(step)]
        _keep_carry(registers, terms)
    _linear(registers, step)


def _keep_carry(registers: RegisterChanges, terms: list[tuple[np.ndarray, Change]]) -> None:
    """Limit the trips to those in which no term or sum overflows, which would change the carry."""
    for value, change in terms:
        registers.limit(value, change, UINT32)
    # an incoming carry may add one
    values, changes = zip(*terms, strict=True)
    registers.limit(total(*values) & 0xFFFFFFFF, reduce(plus, changes), UINT32[:-1])


def _multiply_add(registers: RegisterChanges, step: Step) -> None:
    if _carries(step):
        raise Irregular("the carry of a product changes")
    a, b, c = _values(step)[:3]
    change_a, change_b, _ = (registers.change(operand) for operand in (a, b, c))
    if change_a is not None and change_b is not None:
        raise Irregular("both factors change")
    if (change_a is not None and registers.change_inside(b)) or (
        change_b is not None and registers.change_inside(a)
    ):
        raise Irregular("the other factor changes in a loop inside")
    if step.has("HI"):
        _high_product(registers, step, a, b, c)
    else:
        _linear(registers, step)


def _high_product(registers: RegisterChanges, step: Step, a: Operand, b: Operand, c: Operand) -> None:
    """The high word of a product and a pair, one factor of which changes, until the low word overflows."""
    integers, change = _integers(step), registers.pair_change(c)
    if change is not None and registers.change_inside(c):
        raise Irregular(_INSIDE_TOO)
    registers.limit(registers.value(c, UINT32), registers.change(c), UINT32)
    left, right = registers.value(a, integers), registers.value(b, integers)
    for operand, value, other in ((a, left, right), (b, right, left)):
        registers.limit(value, registers.change(operand), integers)
        change = plus(change, times(registers.change(operand), other))
    if change is None:
        registers.set(step.targets[0].slot, None)
        return
    low_change = signed(change)
    if not registers.limits_bits and (abs(low_change) > _SOON).any():  # as of a division by a constant
        raise Irregular("the high word of a product changes soon")
    registers.limit(left * right + _pair(registers, c) & 0xFFFFFFFF, low_change, UINT32)
    registers.set(step.targets[0].slot, (change - low_change) >> 32)


def _scaled_add(registers: RegisterChanges, step: Step) -> None:
    values = _values(step)
    a, b, shift = values[0], values[1], int(values[-1].text, 0)
    if step.has("HI"):
        upper, integers = values[2] if len(values) > 3 else None, INT32 if step.has("SX32") else UINT32
        high = _shifted_high_word(registers, a, upper, shift, integers)
        if _carries(step):
            added = registers.value(b, UINT32)
            evaluate, _, _ = registers.machine.bound.functions[step.index]
            word = evaluate(registers.machine.r, registers.lanes)[0].astype(np.int64) - added & 0xFFFFFFFF
            _keep_carry(registers, [(word, high), (added, registers.change(b))])
        registers.set(step.targets[0].slot, plus(high, registers.change(b)))
        return
    if _carries(step):
        shifted = (registers.value(a, UINT32) << shift) & 0xFFFFFFFF
        scaled = shifted, times(registers.change(a), 2**shift)
        _keep_carry(registers, [scaled, (registers.value(b, UINT32), registers.change(b))])
    _linear(registers, step)


def _shift(registers: RegisterChanges, step: Step) -> None:
    low, by, high = _values(step)[:3]
    if step.has("L") and step.has("HI") and step.has("U64") and by.kind == "number":
        if registers.change_inside(low, high):
            raise Irregular(_INSIDE_TOO)
        change = _shifted_high_word(registers, low, high, int(by.text, 0), UINT32)
        registers.set(step.targets[0].slot, change)
        return
    if by.kind == "number" and step.has("U64", "S64") and not step.has("L", "HI"):
        if registers.change_inside(low, high):
            raise Irregular(_INSIDE_TOO)
        registers.set(step.targets[0].slot, _shifted_low_word(registers, low, high, int(by.text, 0)))
        return
    if registers.change(by) is not None or by.kind != "number" or step.has("U64", "S64"):
        raise Irregular("a shift of a pair, or by what changes")
    if not step.has("L") and registers.change_inside(high):
        raise Irregular(_INSIDE_TOO)
    count = int(by.text, 0)
    if step.has("L") and not step.has("HI"):
        _linear(registers, step)
        return
    if step.has("L") or not step.has("HI") or registers.change(low) is not None:
        raise Irregular("a funnel shift")
    change, integers = registers.change(high), INT32 if step.has("S32") else UINT32
    if change is not None:
        change = registers.shifted_right(registers.value(high, integers), change, count, integers)
    registers.set(step.targets[0].slot, change)


def _shifted_high_word(
    registers: RegisterChanges, low: Operand, high: Operand | None, count: int, integers: range
) -> Change:
    """Return the change of the high word of a pair shifted left, while its low word does not overflow.

    Without a high word, the low one is extended as one of `integers`.
    """
    operands = [operand for operand in (low, high) if operand is not None]
    if high is not None and registers.change(high) is not None and registers.change_inside(*operands):
        raise Irregular(_INSIDE_TOO)
    change = registers.change(low)
    registers.limit(registers.value(low, integers), change, integers)
    change = plus(change, times(registers.change(high), BITS_32)) if high is not None else change
    if change is None:
        return None
    low_change = signed(change * 2**count)
    registers.limit((registers.value(low, UINT32) << count) & 0xFFFFFFFF, low_change, UINT32)
    return (change * 2**count - low_change) >> 32


def _shifted_low_word(registers: RegisterChanges, low: Operand, high: Operand, count: int) -> Change:
    """Return the change of the low word of a pair shifted right, while its low word does not overflow."""
    change = registers.change(low)
    if change is not None:
        change = registers.shifted_right(registers.value(low, UINT32), change, count, UINT32)
    return plus(change, times(registers.change(high), 2 ** (32 - count)))


def _logic(registers: RegisterChanges, step: Step) -> None:
    *operands, lut = _values(step)
    moving = [index for index, operand in enumerate(operands) if registers.change(operand) is not None]
    if len(moving) != 1 or registers.change_inside(*operands):
        raise Irregular("more than one of the words changes")
    (index,) = moving
    change, words = or_zero(registers.change(operands[index])), [registers.value(x, UINT32) for x in operands]

    def result(word: np.ndarray) -> np.ndarray:
        a, b, c = [*words[:index], word, *words[index + 1 :]]
        return np.asarray(logic(a, b, c, int(lut.text, 0))) & 0xFFFFFFFF

    changed = registers.logic(words[index], change, result, registers.lanes.mask)
    if step.targets[0].kind == "predicate":
        nothing = np.zeros((1, 1), np.int64), None
        registers.keep_order("NE", (result(words[index]), changed), nothing, UINT32)
    for target in step.targets:
        if target.kind != "predicate":
            registers.set(target.slot, changed)


def _minimum(registers: RegisterChanges, step: Step) -> None:
    values, integers = _values(step), _integers(step)
    if step.has("RELU") or registers.change_inside(*values):
        raise Irregular("a third term" if step.has("RELU") else _INSIDE_TOO)
    *terms, other = values  # VIADDMNMX: of the sum of two and a third
    word = total(*(registers.value(term, UINT32) for term in terms)) & 0xFFFFFFFF
    left = word if integers is UINT32 else signed(word)
    left_change = reduce(plus, map(registers.change, terms))
    right, right_change = registers.value(other, integers), registers.change(other)
    for test in ("LT", "EQ"):
        registers.keep_order(test, (left, left_change), (right, right_change), integers)
    condition = _condition(step)
    smaller = registers.machine.r[condition.slot] != condition.negate
    change = np.where((left < right) == smaller, or_zero(left_change), or_zero(right_change))
    registers.set(step.targets[0].slot, change)


def _compare(registers: RegisterChanges, step: Step) -> None:
    a, b = _values(step)[:2]
    name = next(name for name in step.modifiers if name in ("LT", "LE", "GT", "GE", "EQ", "NE", "F", "T"))
    tests = ("LT", "EQ") if step.has("EX") else (name,)
    if (tests != (name,) or name in ("EQ", "NE")) and registers.change_inside(a, b):
        if not registers.limits_bits:
            raise Irregular(_INSIDE_TOO)
        registers.limit_trips(np.zeros((1, 1), int))  # each block leaves the loop inside after other trips
        return
    if step.has("U64", "S64"):
        if any(side.kind != "register" for side in (a, b)):
            raise Irregular("a compare of a pair with a constant")
        for side in (a, b):
            registers.limit(registers.value(side, UINT32), registers.change(side), UINT32)
        integers = range(PAIRS.stop) if step.has("U64") else PAIRS
        left, right = ((_pair(registers, side), registers.pair_change(side)) for side in (a, b))
        if any((abs(value) >= PAIRS.stop).any() for value, _ in (left, right)):
            raise Irregular("a compare of large pairs")
    else:
        integers = _integers(step)
        left, right = ((registers.value(side, integers), registers.change(side)) for side in (a, b))
    for test in tests:
        registers.keep_order(test, left, right, integers)


def _pair(registers: RegisterChanges, operand: Operand) -> np.ndarray:
    """Return a 64-bit source register as int64."""
    if operand.slot in (RZ, URZ):
        return np.zeros((1, 1), np.int64)
    low, high = registers.machine.r[operand.slot], registers.machine.r[operand.slot + 1]
    value = low.astype(np.int64) | high.astype(np.int64) << 32
    return -value if operand.negate else ~value if operand.invert else value


RULES: dict[str, Callable[[RegisterChanges, Step], None]] = {
    opcode: rule
    for rule, opcodes in {
        _linear: "MOV UMOV SEL USEL",
        _to_uniform: "R2UR",
        _add: "IADD3 UIADD3 IADD VIADD UVIADD",
        _multiply_add: "IMAD UIMAD",
        _scaled_add: "LEA ULEA",
        _logic: "LOP3 ULOP3",
        _shift: "SHF USHF",
        _minimum: "IMNMX UIMNMX VIMNMX UVIMNMX VIADDMNMX UVIADDMNMX",
        _compare: "ISETP UISETP",
    }.items()
    for opcode in opcodes.split()
}
