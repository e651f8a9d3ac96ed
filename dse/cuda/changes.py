"""How much every register changes from one trip of a loop to the next, carried through the loop's
instructions.

Each rule turns the changes of an instruction's sources into that of its result (sums, multiples), or cuts
them off (shifts, compares), and says for how many trips more this holds.
"""

from collections.abc import Callable
from math import gcd, lcm

import numpy as np

from dse.cuda.accesses import LINE
from dse.cuda.lanes import Lanes
from dse.cuda.machine import Machine
from dse.cuda.operands import RZ, URZ, Operand, P
from dse.cuda.program import Step

_FOR_EVER = 2**40
_BITS_32 = 2**32
Change = np.ndarray | None  # int64, of one trip; None: none


class Irregular(Exception):
    """The loop's state is not affine; says where."""


class Changes:
    """The change of every register from one trip to the next, carried along while a trip is executed."""

    def __init__(self, machine: Machine, header: int, changes: dict[int, np.ndarray]) -> None:
        self.machine, self.header = machine, header
        self.by_slot = changes  # by slot, int64; what is not there does not change
        self.trips = _FOR_EVER  # for which all is known to go on like this
        self.period = 1
        self.strides: dict[int, int] = {}

    # What rules use

    def limit(self, value: np.ndarray, change: Change, low: int, high: int, lanes: Lanes) -> None:
        """Only as long as low <= value + trips * change < high, in all lanes."""
        if change is None:
            return
        value = value.astype(np.int64)
        with np.errstate(all="ignore"):
            up = np.where(change > 0, (high - 1 - value) // np.maximum(change, 1), _FOR_EVER)
            down = np.where(change < 0, (value - low) // np.maximum(-change, 1), _FOR_EVER)
        self.at_most(np.minimum(up, down), lanes)

    def at_most(self, trips: np.ndarray, lanes: Lanes) -> None:
        least = int(np.where(lanes.mask, trips, _FOR_EVER).min())
        self.trips = min(self.trips, max(least, 0))

    def slot(self, operand: Operand) -> int:
        """-1 for numbers and constants, which do not change."""
        return operand.slot if operand.kind == "register" and operand.slot not in (RZ, URZ) else -1

    def change(self, operand: Operand) -> Change:
        """Of a 32-bit source, its sign taken in."""
        change = self.by_slot.get(self.slot(operand))
        if change is None:
            return None
        if operand.absolute or (operand.part and operand.part not in ("64", "U32", "S32")):
            raise Irregular("part of a register changes")
        return -change if operand.negate or operand.invert else change

    def wide_change(self, operand: Operand) -> Change:
        """Of a 64-bit source."""
        slot = self.slot(operand)
        if slot < 0:
            return None
        total = _plus(self.by_slot.get(slot), _times(self.by_slot.get(slot + 1), _BITS_32))
        return _times(total, -1) if operand.negate or operand.invert else total

    def value(self, operand: Operand, signed: bool = True) -> np.ndarray:
        """Of a 32-bit source, as int64."""
        if operand.kind == "number":
            raw = np.full((1, 1), int(operand.text, 0) & 0xFFFFFFFF, np.uint32)
        elif operand.kind == "constant":
            raw = self.machine.r[self.machine.compiled.slots["constant", (operand.bank, operand.offset)]]
        else:
            raw = self.machine.r[operand.slot]
        raw = np.negative(raw) if operand.negate else ~raw if operand.invert else raw
        return raw.view(np.int32).astype(np.int64) if signed else raw.astype(np.int64)

    def set(self, operand: Operand, change: Change, lanes: Lanes) -> None:
        """A 32-bit destination changes by so much."""
        slot = self.slot(operand)
        if slot < 0:
            return
        if change is not None:
            change = _signed(change)
            change = change if change.any() else None
        if lanes.total != self.machine.live:
            before = self.by_slot.get(slot)
            if before is not None or change is not None:
                change = np.where(
                    lanes.mask, 0 if change is None else change, 0 if before is None else before
                )
        if change is None:
            self.by_slot.pop(slot, None)
        else:
            self.by_slot[slot] = change

    def set_pair(self, step: Step, change: Change, low: np.ndarray, lanes: Lanes) -> None:
        """A 64-bit destination changes by so much, for as long as its low word does not overflow."""
        target = step.targets[0]
        upper = Operand("register", target.text, target.slot + 1)
        if target.slot in (RZ, URZ):
            return
        if change is None:
            self.set(target, None, lanes)
            self.set(upper, None, lanes)
            return
        low_change = _signed(change)
        self.limit(low, low_change, 0, _BITS_32, lanes)
        self.set(target, low_change, lanes)
        self.set(upper, (change - low_change) >> 32, lanes)

    # Execution

    def follow(self, step: Step, lanes: Lanes) -> None:
        """Work out how what `step` writes will change. Before it is executed."""
        chosen = self.machine.under_guard(step, lanes)
        if chosen is None:
            return
        if step.memory:
            self._address(step, chosen)
        if not step.needed or step.opcode in ("BSSY", "BREAK", "BMOV"):
            return
        changing = [slot for slot in step.reads if slot in self.by_slot]
        if not changing:
            for slot in step.writes:
                if slot < P:
                    self.set(Operand("register", "", slot), None, chosen)
            return
        if step.memory and step.pipe != "global":
            raise Irregular(f"0x{step.address:x} loads from different places")
        if step.memory:
            self._load(step, chosen)
            return
        rule = _RULES.get(step.opcode)
        if rule is None:
            raise Irregular(f"0x{step.address:x} {step.opcode} of what changes")
        try:
            rule(self, step, chosen)
        except (Irregular, KeyError) as reason:
            raise Irregular(f"0x{step.address:x} {step.opcode}: {reason}") from None

    def _address(self, step: Step, lanes: Lanes) -> None:
        """The addresses of a memory instruction must all move on by the same."""
        total: Change = None
        for slot, factor, narrow in step.memory[-1].bases:
            term = self.by_slot.get(slot)
            if step.pipe == "global" and not narrow:
                term = _plus(term, _times(self.by_slot.get(slot + 1), _BITS_32))
            total = _plus(total, _times(term, factor))
        stride = 0
        if total is not None:
            shape = np.broadcast_shapes(total.shape, lanes.mask.shape)
            chosen: np.ndarray = np.broadcast_to(total, shape)[np.broadcast_to(lanes.mask, shape)]
            stride = int(chosen.max())
            if (chosen != stride).any():
                raise Irregular(f"0x{step.address:x} moves on by different distances")
        grain = LINE if step.pipe == "global" else 4
        self.strides[step.index] = stride
        self.period = lcm(self.period, grain // gcd(grain, stride))

    def _load(self, step: Step, lanes: Lanes) -> None:
        """What is loaded from memory of unknown contents does not change."""
        machine = self.machine
        if any(contents is not None for contents in machine.memory.regions.values()):
            raise Irregular(f"0x{step.address:x} loads from different places")
        for slot in step.writes:
            if slot < P:
                self.set(Operand("register", "", slot), None, lanes)


def _plus(a: Change, b: Change) -> Change:
    return b if a is None else a if b is None else a + b


def _times(a: Change, factor: "int | np.ndarray") -> Change:
    return None if a is None else a * factor


def _signed(change: np.ndarray) -> np.ndarray:
    """The change of the low 32 bits, as a signed number."""
    return ((change + 2**31) & 0xFFFFFFFF) - 2**31


# Rules: how a change goes through an instruction


def _values(step: Step) -> list[Operand]:
    return [source for source in step.sources if source.kind != "predicate"]


def _move(loop: Changes, step: Step, lanes: Lanes) -> None:
    if step.has("64"):
        raise Irregular("a pair moves")
    loop.set(step.targets[0], loop.change(_values(step)[0]), lanes)


def _add(loop: Changes, step: Step, lanes: Lanes) -> None:
    values = _values(step)
    if step.has("64"):
        total: Change = None
        low = np.zeros((1, 1), np.int64)
        for value in values:
            total = _plus(total, loop.wide_change(value))
            low = low + loop.value(value, signed=False)
        loop.set_pair(step, total, low & 0xFFFFFFFF, lanes)
        return
    change: Change = None
    for value in values:
        change = _plus(change, loop.change(value))
    if step.has("X") or any(target.text[-1] != "T" for target in step.targets[1:]):
        _keep_carry(loop, step, [(value, loop.change(value)) for value in values], lanes)
    loop.set(step.targets[0], change, lanes)


def _keep_carry(loop: Changes, step: Step, terms: list[tuple[Operand, Change]], lanes: Lanes) -> None:
    """No term and no sum may overflow, or the carry would change."""
    total, change = np.zeros((1, 1), np.int64), None
    for operand, term in terms:
        value = loop.value(operand, signed=False)
        loop.limit(value, term, 0, _BITS_32, lanes)
        total, change = total + value, _plus(change, term)
    # an incoming carry may add one
    loop.limit(total & 0xFFFFFFFF, change, 0, _BITS_32 - 1, lanes)


def _multiply_add(loop: Changes, step: Step, lanes: Lanes) -> None:
    a, b, c = _values(step)[:3]
    if step.has("MOV"):
        loop.set(step.targets[0], loop.change(c), lanes)
        return
    if step.has("HI") or any(target.text[-1] != "T" for target in step.targets[1:]):
        raise Irregular("the high word of a product changes")
    signed = not step.has("U32")
    change_a, change_b = loop.change(a), loop.change(b)
    if change_a is not None and change_b is not None:
        raise Irregular("both factors change")
    value_a, value_b = loop.value(a, signed), loop.value(b, signed)
    product = _plus(_times(change_a, value_b), _times(change_b, value_a))
    if not step.has("WIDE"):
        loop.set(step.targets[0], _plus(product, loop.change(c)), lanes)
        return
    low, high = (-(2**31), 2**31) if signed else (0, _BITS_32)
    loop.limit(value_a, change_a, low, high, lanes)
    loop.limit(value_b, change_b, low, high, lanes)
    now = (value_a * value_b + _low_word(loop, c)) & 0xFFFFFFFF
    loop.set_pair(step, _plus(product, loop.wide_change(c)), now, lanes)


def _low_word(loop: Changes, operand: Operand) -> np.ndarray:
    if (
        operand.kind == "constant"
        and ("constant", (operand.bank, operand.offset)) not in loop.machine.compiled.slots
    ):
        slot = loop.machine.compiled.slots["pair", (operand.bank, operand.offset)]
        return loop.machine.r[slot].astype(np.int64)
    return loop.value(operand, signed=False)


def _scaled_add(loop: Changes, step: Step, lanes: Lanes) -> None:
    values = _values(step)
    shift = int(values[-1].text, 0)
    a, b = values[0], values[1]
    if not step.has("HI"):
        shifted = _times(loop.change(a), 2**shift)
        carries = any(target.text[-1] != "T" for target in step.targets[1:])
        if carries:
            value = (loop.value(a, signed=False) << shift) & 0xFFFFFFFF
            loop.limit(value, shifted, 0, _BITS_32, lanes)
            other = loop.value(b, signed=False)
            loop.limit(other, loop.change(b), 0, _BITS_32, lanes)
            loop.limit((value + other) & 0xFFFFFFFF, _plus(shifted, loop.change(b)), 0, _BITS_32, lanes)
        loop.set(step.targets[0], _plus(shifted, loop.change(b)), lanes)
        return
    upper = values[2] if len(values) > 3 else None
    if upper is not None and loop.change(upper) is not None:
        raise Irregular("the high word of a shifted pair changes")
    # the high word stays as long as the low one does not overflow
    signed = step.has("SX32")
    if signed:
        loop.limit(loop.value(a), loop.change(a), -(2**31), 2**31, lanes)
    low = (loop.value(a, signed=False) << shift) & 0xFFFFFFFF
    loop.limit(low, _times(loop.change(a), 2**shift), 0, _BITS_32, lanes)
    if step.has("X"):
        loop.limit(loop.value(b, signed=False), loop.change(b), 0, _BITS_32, lanes)
    loop.set(step.targets[0], loop.change(b), lanes)


def _shift(loop: Changes, step: Step, lanes: Lanes) -> None:
    low, by, high = _values(step)[:3]
    if loop.change(by) is not None or by.kind != "number" or step.has("U64", "S64"):
        raise Irregular("a shift of a pair, or by what changes")
    count = int(by.text, 0)
    if step.has("L") and not step.has("HI"):
        loop.set(step.targets[0], _times(loop.change(low), 2**count), lanes)
        return
    if step.has("L") or not step.has("HI") or loop.change(low) is not None:
        raise Irregular("a funnel shift")
    change = loop.change(high)
    signed = step.has("S32")
    value = loop.value(high, signed)
    loop.limit(value, change, *((-(2**31), 2**31) if signed else (0, _BITS_32)), lanes)
    if change is None or not (change % 2**count).any():
        loop.set(step.targets[0], None if change is None else change >> count, lanes)
        return
    loop.limit(value & (2**count - 1), change, 0, 2**count, lanes)
    loop.set(step.targets[0], None, lanes)


def _select(loop: Changes, step: Step, lanes: Lanes) -> None:
    a, b = _values(step)[:2]
    (condition,) = [source for source in step.sources if source.kind == "predicate"]
    holds = loop.machine.r[condition.slot] != condition.negate
    changes = [loop.change(operand) for operand in (a, b)]
    first, second = (0 if change is None else change for change in changes)
    loop.set(step.targets[0], np.where(holds, first, second).astype(np.int64), lanes)


def _minimum(loop: Changes, step: Step, lanes: Lanes) -> None:
    values = _values(step)
    signed = not step.has("U32")
    if step.opcode.endswith("VIADDMNMX"):
        value = (loop.value(values[0], False) + loop.value(values[1], False)) & 0xFFFFFFFF
        value = _signed(value) if signed else value
        left, left_change = value, _plus(loop.change(values[0]), loop.change(values[1]))
        other = values[2]
    else:
        left, left_change, other = loop.value(values[0], signed), loop.change(values[0]), values[1]
    right, right_change = loop.value(other, signed), loop.change(other)
    _keep_order(loop, "LT", left, left_change, right, right_change, signed, lanes)
    _keep_order(loop, "EQ", left, left_change, right, right_change, signed, lanes)
    (condition,) = [source for source in step.sources if source.kind == "predicate"][:1]
    smaller = loop.machine.r[condition.slot] != condition.negate
    first, second = (0 if change is None else change for change in (left_change, right_change))
    loop.set(step.targets[0], np.where((left < right) == smaller, first, second).astype(np.int64), lanes)


def _compare(loop: Changes, step: Step, lanes: Lanes) -> None:
    a, b = _values(step)[:2]
    if step.has("U64", "S64"):
        raise Irregular("a compare of pairs")
    signed = not step.has("U32")
    name = next(name for name in step.modifiers if name in ("LT", "LE", "GT", "GE", "EQ", "NE", "F", "T"))
    names = ("LT", "EQ") if step.has("EX") else (name,)
    for test in names:
        _keep_order(
            loop,
            test,
            loop.value(a, signed),
            loop.change(a),
            loop.value(b, signed),
            loop.change(b),
            signed,
            lanes,
        )


def _keep_order(
    loop: Changes,
    test: str,
    left: np.ndarray,
    left_change: Change,
    right: np.ndarray,
    right_change: Change,
    signed: bool,
    lanes: Lanes,
) -> None:
    """Only as long as a test of two values comes out the same, and none of them overflows."""
    low, high = (-(2**31), 2**31) if signed else (0, _BITS_32)
    loop.limit(left, left_change, low, high, lanes)
    loop.limit(right, right_change, low, high, lanes)
    change = _plus(left_change, _times(right_change, -1))
    if change is None:
        return
    apart = left - right
    if test in ("EQ", "NE"):
        step = np.where(change == 0, 1, change)
        meets = (change != 0) & (-apart % step == 0) & (-apart // step > 0)
        trips = np.where(meets, -apart // step - 1, _FOR_EVER)
        trips = np.where((apart == 0) & (change != 0), 0, trips)
        loop.at_most(trips, lanes)
        return
    apart = apart - 1 if test in ("LE", "GT") else apart  # then it is a test for < 0
    falls = np.where(change < 0, apart // np.maximum(-change, 1), _FOR_EVER)
    rises = np.where(change > 0, (-apart - 1) // np.maximum(change, 1), _FOR_EVER)
    loop.at_most(np.where(apart < 0, rises, falls), lanes)


_RULES: dict[str, Callable[[Changes, Step, Lanes], None]] = {
    opcode: rule
    for rule, opcodes in {
        _move: "MOV UMOV R2UR",
        _add: "IADD3 UIADD3 IADD VIADD UVIADD",
        _multiply_add: "IMAD UIMAD",
        _scaled_add: "LEA ULEA",
        _shift: "SHF USHF",
        _select: "SEL USEL",
        _minimum: "IMNMX UIMNMX VIMNMX UVIMNMX VIADDMNMX UVIADDMNMX",
        _compare: "ISETP UISETP",
    }.items()
    for opcode in opcodes.split()
}
