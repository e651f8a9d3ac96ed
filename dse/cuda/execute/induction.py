"""How much every register changes from one trip of a loop to the next, carried through the loop's
instructions.

Each rule turns the changes of an instruction's sources into that of its result (sums, multiples), or cuts
them off (shifts, compares), and says for how many trips more this holds. What has no rule, data that are
loaded for one, may change anyhow: then the loop's state is not affine, unless the loop is to be estimated. In
that case such values may be addresses, but no branch, no guard, and nothing that lives on in the next trip
may depend on them.
"""

from collections.abc import Callable, Iterable
from math import gcd, lcm

import numpy as np

from dse.cuda.machine.accesses import LINE
from dse.cuda.machine.launch import REGION_BITS
from dse.cuda.machine.state import Machine
from dse.cuda.machine.thread_set import Lanes
from dse.cuda.sass.operands import PT, RZ, UPT, URZ, Operand, P
from dse.cuda.sass.program import Step

FOR_EVER = 2**40
_BITS_32 = 2**32
_BARRIER_MOVES = ("BSSY", "BREAK", "BMOV")
Change = np.ndarray | None  # int64, of one trip; None: none


class Irregular(Exception):
    """The loop's state is not affine; says where."""


class Changes:
    """The change of every register from one trip to the next, carried along while a trip is executed."""

    def __init__(
        self, machine: Machine, header: int, lanes: Lanes, changes: dict[int, np.ndarray], estimate: bool
    ) -> None:
        self.machine, self.header, self.lanes, self.estimate = machine, header, lanes, estimate
        self.by_slot = changes  # by slot, int64; what is not there does not change
        self.trips = FOR_EVER  # for which all is known to go on like this
        self.period = 1
        self.strides: dict[int, int | None] = {}  # by memory instruction; None: not by the same everywhere
        self.erratic: dict[
            int, tuple[str, np.ndarray]
        ] = {}  # slots that change anyhow: why, in which threads
        self.estimated = ""  # why counts are not the same in every trip
        self.stores = False  # whether something is stored that is loaded again
        self.inner: list[Changes] = []  # of loops inside this one that are examined now

    # What rules use

    def limit(self, value: np.ndarray, change: Change, low: int, high: int, lanes: Lanes) -> None:
        """Only as long as low <= value + trips * change < high, in all lanes."""
        if change is None:
            return
        value = value.astype(np.int64)
        with np.errstate(all="ignore"):
            up = np.where(change > 0, (high - 1 - value) // np.maximum(change, 1), FOR_EVER)
            down = np.where(change < 0, (value - low) // np.maximum(-change, 1), FOR_EVER)
        self.at_most(np.minimum(up, down), lanes)

    def at_most(self, trips: np.ndarray, lanes: Lanes) -> None:
        least = int(np.where(lanes.mask, trips, FOR_EVER).min())
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
            raw = self.machine.r[self.machine.bound.slots["constant", (operand.bank, operand.offset)]]
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

    def lose(self, step: Step, lanes: Lanes, why: str) -> None:
        """What `step` writes may change anyhow."""
        why = f"0x{step.address:x} {why}"
        if not self.estimate:
            raise Irregular(why)
        self._lose_again(step, lanes, why)

    def _lose_again(self, step: Step, lanes: Lanes, why: str) -> None:
        for slot in step.writes:
            if slot < P:
                self.set(Operand("register", "", slot), None, lanes)
            mask = self.erratic[slot][1] | lanes.mask if slot in self.erratic else lanes.mask
            self.erratic[slot] = why, mask

    def lost(self, slots: Iterable[int], lanes: Lanes) -> str:
        """Why one of these slots may change anyhow in some of these threads; empty if none does."""
        for slot in slots:
            if slot in self.erratic:
                why, mask = self.erratic[slot]
                if mask is lanes.mask or (mask & lanes.mask).any():
                    return why
        return ""

    def both(self, *operands: Operand) -> bool:
        """Whether a loop inside this one changes one of these too."""
        slots = [slot for slot in map(self.slot, operands) if slot >= 0]
        return any(slot in each.by_slot or slot in each.erratic for each in self.inner for slot in slots)

    # Execution

    def follow(self, step: Step, lanes: Lanes) -> None:
        """Work out how what `step` writes will change. Before it is executed."""
        if step.guard in self.erratic and (why := self.lost([step.guard], lanes)):
            if step.memory or not step.needed or step.opcode in _BARRIER_MOVES:
                raise Irregular(why)
            self._lose_again(step, lanes, why)
            return
        chosen = self.machine.under_guard(step, lanes)
        if chosen is None:
            return
        if step.memory:
            self._address(step, chosen)
        if step.opcode in _BARRIER_MOVES:
            self.end(step, chosen)
        if not step.needed:
            return
        why = self.lost(step.reads, chosen)
        changing = [slot for slot in step.reads if slot in self.by_slot]
        if step.stores or step.atomic or step.kind == "copy":
            self._store(step, chosen, bool(why or changing))
        elif why:
            self._lose_again(step, chosen, why)
        elif not changing:
            self._clear(step, chosen)
        elif step.memory:
            self._load(step, chosen)
        else:
            self._through(step, chosen)

    def end(self, step: Step, lanes: Lanes) -> None:
        """A basic block ends with `step`: where threads go must not change."""
        slots = [source.slot for source in step.sources if source.slot not in (PT, UPT, RZ, URZ)]
        if why := self.lost((*slots, step.guard), lanes):
            raise Irregular(why)
        if any(slot in self.by_slot for slot in slots):
            raise Irregular(f"0x{step.address:x} goes to different places")

    def _through(self, step: Step, lanes: Lanes) -> None:
        rule = _RULES.get(step.opcode)
        if rule is None:
            self.lose(step, lanes, f"{step.opcode} of what changes")
            return
        try:
            rule(self, step, lanes)
        except (Irregular, KeyError) as reason:
            self.lose(step, lanes, f"{step.opcode}: {reason}")
            return
        for slot in step.writes:
            self._known(slot, lanes)

    def _clear(self, step: Step, lanes: Lanes) -> None:
        """What is written is the same in every trip."""
        for slot in step.writes:
            if slot < P:
                self.set(Operand("register", "", slot), None, lanes)
            self._known(slot, lanes)

    def _known(self, slot: int, lanes: Lanes) -> None:
        """Where a slot is written it forgets what it held."""
        if slot in self.erratic:
            why, mask = self.erratic[slot]
            left = mask & ~lanes.mask
            if left.any():
                self.erratic[slot] = why, left
            else:
                del self.erratic[slot]

    def _address(self, step: Step, lanes: Lanes) -> None:
        """The addresses of a memory instruction must all move on by the same."""
        grain = LINE if step.pipe == "global" else 4
        stride: int | None = 0
        why = ""
        for address in step.memory:
            moved, why = self._stride(step, address, lanes)
            if moved is None:
                stride = None
                break
            stride = moved
            self.period = lcm(self.period, grain // gcd(grain, moved))
        if stride is not None and self.strides.get(step.index, stride) != stride:
            stride, why = None, f"0x{step.address:x} moves on by different distances"
        if stride is None:
            if not self.estimate:
                raise Irregular(why)
            self.estimated = self.estimated or why
        self.strides[step.index] = stride

    def _stride(self, step: Step, address: Operand, lanes: Lanes) -> tuple[int | None, str]:
        """(bytes that an address moves on by, why it is not known)"""
        total: Change = None
        wide = step.pipe == "global" and address is step.memory[-1]
        for slot, factor, narrow in address.bases:
            pair = wide and not narrow
            for each in (slot, slot + 1) if pair else (slot,):
                if why := self.lost([each], lanes):
                    return None, why
            term = self.by_slot.get(slot)
            if pair:
                term = _plus(term, _times(self.by_slot.get(slot + 1), _BITS_32))
            total = _plus(total, _times(term, factor))
        if total is None:
            return 0, ""
        shape = np.broadcast_shapes(total.shape, lanes.mask.shape)
        chosen: np.ndarray = np.broadcast_to(total, shape)[np.broadcast_to(lanes.mask, shape)]
        stride = int(chosen.max())
        if (chosen != stride).any():
            return None, f"0x{step.address:x} moves on by different distances"
        return stride, ""

    def _load(self, step: Step, lanes: Lanes) -> None:
        """What is loaded from different places. Memory of unknown contents holds the same everywhere."""
        empty = step.pipe == "shared" and not self.machine.shared.words.any()
        if empty or (step.pipe == "global" and self._same_everywhere(step, lanes)):
            self._clear(step, lanes)
        else:
            self.lose(step, lanes, "loads from different places")

    def _same_everywhere(self, step: Step, lanes: Lanes) -> bool:
        """Whether no contents are known, or none of the arguments that this step stays inside."""
        regions = self.machine.memory.regions
        if all(contents is None for contents in regions.values()):
            return True
        stride = self.strides.get(step.index)
        if stride is None:
            return False
        address = self.machine.base(step, step.memory[-1], True) + step.memory[-1].offset
        shape = np.broadcast_shapes(address.shape, lanes.mask.shape)
        address = np.broadcast_to(address, shape)
        numbers = np.unique((address >> REGION_BITS)[np.broadcast_to(lanes.mask, shape)]).tolist()
        if any(regions.get(number) is not None for number in numbers):
            return False
        place = address & ((1 << REGION_BITS) - 1)
        self.limit(place, np.full((1, 1), stride), 0, 1 << REGION_BITS, lanes)
        return True

    def _store(self, step: Step, lanes: Lanes, changes: bool) -> None:
        """The same is stored in the same places in every trip, or nothing in memory that holds nothing."""
        shared = self.machine.shared.words
        if step.atomic or (step.pipe == "global" and step.kind != "copy"):
            raise Irregular(f"0x{step.address:x} stores what is loaded again")
        self.stores = True
        if not changes:
            return
        if step.kind == "copy" and not self.lost(step.bases, lanes):
            to = self._stride(step, step.memory[0], lanes)[0]
            if to == 0 and self._same_everywhere(step, lanes):
                return
        values = step.reads[: len(step.reads) - len(step.bases)]
        same = not self.lost(values, lanes) and not any(slot in self.by_slot for slot in values)
        zero = not any(self.machine.r[slot].any() for slot in values)
        if not (step.opcode == "STS" and same and zero and not shared.any()):
            raise Irregular(f"0x{step.address:x} stores what is loaded again")


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
    if (change_a is not None and loop.both(b)) or (change_b is not None and loop.both(a)):
        raise Irregular("the other factor changes in a loop inside")
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
        and ("constant", (operand.bank, operand.offset)) not in loop.machine.bound.slots
    ):
        slot = loop.machine.bound.slots["pair", (operand.bank, operand.offset)]
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
    if not step.has("L") and loop.both(high):
        raise Irregular("it changes in a loop inside too")
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
    if loop.both(*values):
        raise Irregular("it changes in a loop inside too")
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
    if (names != (name,) or name in ("EQ", "NE")) and loop.both(a, b):
        raise Irregular("it changes in a loop inside too")
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
        trips = np.where(meets, -apart // step - 1, FOR_EVER)
        trips = np.where((apart == 0) & (change != 0), 0, trips)
        loop.at_most(trips, lanes)
        return
    apart = apart - 1 if test in ("LE", "GT") else apart  # then it is a test for < 0
    falls = np.where(change < 0, apart // np.maximum(-change, 1), FOR_EVER)
    rises = np.where(change > 0, (-apart - 1) // np.maximum(change, 1), FOR_EVER)
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
