"""Changes of registers and scratch in a trip of a loop, and the number of trips with these changes.

Results of some instructions change evenly if their operands do: by the same in all of these trips.
"""

import re
from collections.abc import Callable, Sequence
from itertools import chain, product
from typing import Any

import numpy as np

from dse.source.amd.execute.contents import MemoryMachine
from dse.source.amd.execute.opcodes import OpcodeRow, opcode
from dse.source.amd.execute.operands import KindOfOperand, OperandReaders
from dse.source.amd.execute.slots import CONSTANTS, NULL, AmdOperand, Register, Symbol, V, operand, slots_of
from dse.source.amd.text import Instruction
from dse.source.machine.trips import FOR_EVER, INT32, PAIRS, UINT32, Irregular, Moving, TripLimits, signed

I64 = np.int64
EVERYWHERE = np.ones((1, 1, 1), bool)
NON_LINEAR = "lost"  # a change that is not constant
EVEN = "even"  # a change that is constant, and not computed yet
WIDE = "wide"  # likewise, of the low word of a number of 64 bits
RANGES = {
    "u": UINT32, "i": INT32, "w": range(1 << 16), "s": range(-(1 << 15), 1 << 15), "U": range(PAIRS.stop),
    "I": PAIRS,
}  # fmt: skip

_EVEN = {*map(opcode, (
    "v_mov_b32", "v_mov_b64", "v_add_u32", "v_add_i32", "v_sub_u32", "v_sub_i32", "v_subrev_u32",
    "v_add3_u32", "v_lshl_add_u32", "v_add_lshl_u32", "v_lshlrev_b32", "v_lshlrev_b64", "v_lshl_add_u64",
    "v_mul_lo_u32", "v_mul_lo_i32", "v_cndmask_b32", "v_mad_u64_u32", "v_mad_i64_i32", "v_mul_u32_u24",
    "v_mul_i32_i24", "v_mad_u32_u24", "v_mad_i32_i24", "v_accvgpr_read_b32", "v_accvgpr_write_b32",
    "v_accvgpr_mov_b32", "v_add_u64", "v_add_co_u32", "v_sub_co_u32", "v_subrev_co_u32", "v_addc_co_u32",
    "v_subb_co_u32", "v_subbrev_co_u32", "s_add_u32", "s_addc_u32", "s_sub_u32", "s_subb_u32", "s_add_i32",
    "s_sub_i32", "s_addk_i32", "s_mulk_i32", "s_mul_i32", "s_lshl_b32", "s_lshl_b64", "s_add_nc_u64",
    "s_sub_nc_u64", "s_lshl1_add_u32", "s_lshl2_add_u32", "s_lshl3_add_u32", "s_lshl4_add_u32",
    "s_movk_i32", "v_max_u32", "v_min_u32", "v_max_i32", "v_min_i32", "s_max_u32", "s_min_u32",
    "s_max_i32", "s_min_i32", "v_not_b32",
))}  # fmt: skip
_TEST = re.compile(r"[vs]_cmp[xk]?_(lt|le|gt|ge|eq|ne|lg)_")
_TESTS = {"lt": "LT", "le": "LE", "gt": "GT", "ge": "GE", "eq": "EQ", "ne": "EQ", "lg": "EQ"}
_LOGIC: dict[str, Callable[..., Any]] = {"and": np.bitwise_and, "or": np.bitwise_or}
_PRODUCTS = ("mul", "mad")
_CARRIES = ("_co_", "s_add_u32", "s_addc_u32", "s_sub_u32", "s_subb_u32", "_co_ci_")


class Choice(str):
    """The change of a minimum or maximum: a test of it is one of each of its operands."""

    kind: str  # of the operands
    parts: list[Moving]  # these, and their changes


class LinearRules(TripLimits):
    """The changes of one trip, from the loop's first instruction on, and those of results from operands'."""

    def __init__(
        self, machine: MemoryMachine, binder: OperandReaders, moving: dict[Any, Any], lanes: np.ndarray
    ) -> None:
        self.machine, self.binder = machine, binder
        self.went_in, self.moving = moving, dict(moving)  # slot, or ("scratch", address) → change in a trip
        self.lanes = lanes  # of the loop; others do not matter
        self.waves = machine.running.mask
        self.exposed: set[Any] = set()  # slots read before they are written
        self.written: set[Any] = set()
        self.strides: list[int | None] = []  # of each access; None: they differ among lanes
        self._full: dict[int, tuple[Any, bool]] = {}

    def read(self, slot: Any, lanes: np.ndarray | None = None) -> Any:
        """Return the change of a slot, None if it does not change, in `lanes`, or else in active ones."""
        if slot not in self.written and (not isinstance(slot, int) or slot < CONSTANTS):
            self.exposed.add(slot)
        return self.moving.get(slot)

    def write(self, slot: Any, change: Any) -> None:
        """Set the change of a slot that was written."""
        if slot == NULL:
            return
        if change is NON_LINEAR and self.machine.is_unknown(slot):
            change = None
        here, everyone = self._here(slot)
        if not self._covers(here, everyone):
            self.read(slot)
            before = self.moving.get(slot)
            if change is not None or before is not None:
                change = self._merged(here, change, before)
        self._set(slot, change)

    def _set(self, slot: Any, change: Any) -> None:
        self.written.add(slot)
        if change is None:
            self.moving.pop(slot, None)
        else:
            self.moving[slot] = change

    def concerns(self, step: Instruction) -> bool:
        """Return whether an instruction has to be followed."""
        return True

    def chooses(self, step: Instruction) -> bool:
        """Return whether an instruction's result is kept as a `Choice`."""
        return False

    def inside(self, place: Any) -> bool:
        """Return whether an operand changes from trip to trip of a loop inside, too."""
        return False

    def _merged(self, here: np.ndarray, change: Any, before: Any) -> Any:
        """Return the change of a slot that is written in some lanes only."""
        lost = isinstance(change, str) or isinstance(before, str)
        return NON_LINEAR if lost else np.where(here, number(change), number(before))

    def _here(self, slot: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return (the lanes that read or write such a slot now, all that have it)."""
        here = self.machine.lanes() if of_lanes(slot) else self.machine.running.mask
        return here, self.everyone(slot)

    def everyone(self, slot: Any) -> np.ndarray:
        """Return all lanes that have such a slot: also inactive ones where single lanes are written."""
        return EVERYWHERE if slot in self.binder.spilled else self.lanes if of_lanes(slot) else self.waves

    def _covers(self, here: np.ndarray, everyone: np.ndarray) -> bool:
        """Return whether all lanes are here."""
        known = self._full.get(id(here))
        if known is None or known[0] is not here:
            known = self._full[id(here)] = (here, not (everyone & ~here).any())
        return known[1]

    def limit_trips(self, trips: np.ndarray) -> None:
        """Limit the proven trips to the minimum over lanes."""
        self.trips = min(self.trips, max(int(self._in_lanes(trips).min()), 0))

    def _in_lanes(self, trips: np.ndarray) -> np.ndarray:
        """Return numbers of trips, without those of lanes that are not active."""
        scalar = trips.shape[-1] == 1  # or equal in all lanes
        lanes = self.machine.running.mask if scalar else self.machine.lanes()
        alike = tuple(axis for axis, size in enumerate(trips.shape) if size < lanes.shape[axis] and axis)
        lanes = lanes.any(axis=alike, keepdims=True) if alike else lanes
        return np.where(lanes, trips, FOR_EVER)

    def _words(self, kind: str) -> int:
        return 2 if kind in "UIDP" or (kind in "mM" and self.machine.shape[2] == 64) else 1

    def _change(self, kind: str, place: Any) -> Any:
        """Return the change of an operand."""
        if not isinstance(place, Register):
            return None
        if kind in "mM":
            return NON_LINEAR if self.read(place.slot) is not None else None
        low = self.read(place.slot)
        if kind not in "UIDP":
            return low
        high = self.read(place.slot + 1)
        if isinstance(low, str) or isinstance(high, str):
            return NON_LINEAR
        if low is None and high is None:
            return None
        return number(high) * (1 << 32) + number(low)

    def _number_of(self, kind: str, source: AmdOperand) -> np.ndarray | None:
        """Return the value of an operand as an integer of 64 bits."""
        if isinstance(source.place, Symbol):
            return None
        value = self.binder.reader(source, kind)(self.machine)
        if value is None and kind in "UI" and isinstance(source.place, Register):
            value = self.machine.words(source.place.slot)  # the low word of the result may still be known
        if value is None:
            return None
        return value.view(I64) if value.dtype.itemsize == 8 else value.astype(I64)

    def _compared(
        self, kind: str, values: list[Any], changes: list[Any], tests: Sequence[str] = ("LT", "EQ")
    ) -> None:
        """Limit the trips to those with the same results of tests of two operands."""
        for value, change in zip(values, changes, strict=True) if kind in "UI" else ():
            self.limit(value & 0xFFFFFFFF, None if change is None else signed(change), UINT32)
        for left, right in product(*map(parts_of, values, changes)):
            for test in tests:
                self.keep_order(test, left, right, RANGES[kind])

    def _has_rule(self, step: Instruction, kind: str, change: Any) -> bool:
        """Return whether a change may be an operand's: a `Choice` is one of tests and of other choices."""
        if isinstance(change, Choice):
            return change.kind == kind and (bool(_TEST.match(step.opcode)) or self.chooses(step))
        return change is not NON_LINEAR

    def _evenly(
        self, step: Instruction, row: OpcodeRow, sources: list[KindOfOperand], changes: list[Any]
    ) -> list[Any]:
        """Return how results change: NON_LINEAR unless they are known to be linear in the trip."""
        results, name = row.form.partition("=")[0], step.opcode
        lost = [NON_LINEAR] * len(results)
        even = [EVEN, *lost[1:]]
        floats = any(kind in "fDhP" or source.negated or source.absolute for kind, source in sources)
        if floats and not name.startswith("v_mov"):
            return lost
        values: list[Any] = [self._number_of(kind, place) for kind, place in sources]
        if any(value is None for value in values):  # the result is unknown too
            return [None] * len(results)
        inside = [self.inside(source.place) for _, source in sources]
        if results in ("M", "c") and len(sources) == 2 and (test := _TEST.match(name)):
            tests = ("EQ", "LT") if any(inside) else (_TESTS[test[1]],)
            self._compared(sources[0][0], values, changes, tests)
            return [None]
        if self.chooses(step):
            choice = Choice()
            choice.kind, choice.parts = sources[0][0], [*chain(*map(parts_of, values, changes))]
            return [choice]
        if name in ("v_or_b32", "v_and_b32"):
            return [self._bits(step)]
        if name in ("v_lshrrev_b32", "s_lshr_b32", "v_ashrrev_i32", "s_ashr_i32"):
            order = slice(None, None, -1 if name.startswith("v") else 1)
            kind = "i" if "ashr" in name else "u"
            change = self._shifted_right(kind, values[order], changes[order], any(inside))
            return [None] * len(results) if change is None else [change, *lost[1:]]
        if name == "v_lshl_or_b32" and changes[1] is None:
            by = values[1] & 31
            placed, scaled = (values[0] << by) & 0xFFFFFFFF, changes[0]
            scaled = None if scaled is None else signed(scaled << by)
            change = self._of_bits(np.bitwise_or, [placed, values[2]], [scaled, changes[2]], V)
            return [NON_LINEAR if any(inside) else change]
        if name == "v_xad_u32" and changes[1] is None:  # of all bits or none
            kept = changes[0] is None or bool(np.isin(values[1], (0, 0xFFFFFFFF)).all())
            return even if kept and not any(inside) else lost
        if row not in _EVEN:
            return lost
        varies = [change is not None or other for change, other in zip(changes, inside, strict=True)]
        if any(part in name for part in _PRODUCTS) and any(varies[:2]):
            self.joins()
            if all(varies[:2]):
                return lost
        if "lshl" in name and self._shift_moves(name, varies):
            return lost
        if "24" in name:
            for value, change in zip(values[:2], changes[:2], strict=True):
                within = range(1 << 24) if "u24" in name else range(-(1 << 23), 1 << 23)
                self.limit(value, change, within)
        if "min_" in name or "max_" in name:
            self._compared(sources[0][0], values, changes)
        elif results[0] in "UI":  # while no word of the operands overflows
            for (kind, _), value, change in zip(sources, values, changes, strict=True):
                if kind in "UI":
                    self.limit(value & 0xFFFFFFFF, None if change is None else signed(change), UINT32)
                elif kind in RANGES:
                    self.limit(value, change, RANGES[kind])
            return [WIDE, *lost[1:]]
        elif any(part in name for part in _CARRIES):
            self._carry(name, values, changes)
        else:
            return even
        return [EVEN] + [None] * (len(results) - 1)

    def _bits(self, step: Instruction) -> Any:
        """Return the change of `and` or `or` of two operands."""
        sources, name = [operand(text) for text in step.operands[1:]], step.opcode.split("_")[1]
        values = [self._number_of("u", source) for source in sources]
        changes = [self._change("u", source.place) for source in sources]
        if name not in _LOGIC:
            return NON_LINEAR
        inside, (slot, *_) = any(self.inside(x.place) for x in sources), slots_of(step.operands[:1])
        return NON_LINEAR if inside else self._of_bits(_LOGIC[name], values, changes, slot)

    def _of_bits(self, function: Callable[..., Any], values: list[Any], changes: list[Any], slot: int) -> Any:
        """Return the change of logic of two words, one of which changes."""
        moving = [place for place, change in enumerate(changes) if change is not None]
        if len(moving) != 1 or isinstance(changes[moving[0]], str) or any(x is None for x in values):
            return NON_LINEAR
        word, fixed = values[moving[0]], values[1 - moving[0]]
        try:
            here, _ = self._here(slot)
            change = self.logic(word, changes[moving[0]], lambda word: function(word, fixed), here)
        except Irregular:
            return NON_LINEAR
        if slot < V and self.limits_bits:  # whether it is zero is a result, too
            zero = np.zeros((1, 1, 1), I64)
            self.keep_order("EQ", (function(word, fixed), change), (zero, None), UINT32)
        return change

    def _shift_moves(self, name: str, varies: list[bool]) -> bool:
        """Return whether the distance of a shift changes."""
        at = 0 if "lshlrev" in name else 2 if "add_lshl" in name else 1
        return not name.startswith(("s_lshl1", "s_lshl2", "s_lshl3", "s_lshl4")) and varies[at]

    def _shifted_right(self, kind: str, values: list[Any], changes: list[Any], inside: bool) -> Any:
        """Return the change of a word shifted right by another."""
        (value, by), (change, by_change) = values, changes
        if by_change is not None:
            return NON_LINEAR
        if kind == "i" and bool((by == 31).all()):  # only the sign
            self._compared(kind, [value, np.zeros((1, 1, 1), I64)], [change, None])
            return None
        if inside:
            return NON_LINEAR
        if self.limits_bits and by.size == 1:
            return self.shifted_right(value, change, int(by.flat[0]) & 31, RANGES[kind])
        if bool((change % np.left_shift(1, by & 31) != 0).any()):
            return NON_LINEAR
        self.limit(value, change, RANGES[kind])
        return EVEN

    def _carry(self, name: str, values: list[Any], changes: list[Any]) -> None:
        """Limit the trips to those with the same carry of a sum, or borrow of a difference."""
        a, b = (value & 0xFFFFFFFF for value in values[:2])
        da, db = map(number, changes[:2])
        carry = values[2] if len(values) > 2 else 0
        sign = 1 if "sub" not in name else -1
        if "rev" in name:
            a, b, da, db = b, a, db, da
        for value, change in ((a, da), (b, db), (a + sign * (b + carry) & 0xFFFFFFFF, da + sign * db)):
            self.limit(value, np.asarray(change), UINT32)


def of_lanes(slot: Any) -> bool:
    """Return whether each lane has such a slot."""
    return not isinstance(slot, int) or slot >= V


def parts_of(value: Any, change: Any) -> list[Moving]:
    """Return the operands that a test of a value tests, with their changes."""
    return change.parts if isinstance(change, Choice) else [(value, change)]


def number(change: Any) -> Any:
    """Return a change as a number: 0 for no change."""
    return 0 if change is None else change
