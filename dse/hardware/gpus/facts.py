"""The quantities of a GPU file: each has a value and unit, or a rule, and a source."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from dse.core.validate import checked, in_toml
from dse.errors import DseError, InputWarning, one_of
from dse.hardware.gpus import rules
from dse.hardware.gpus.rules import Rule

_SI = {  # unit of a field: the units accepted in files
    "Hz": {"Hz": 1, "kHz": 1e3, "MHz": 1e6, "GHz": 1e9},
    "s": {"s": 1, "ms": 1e-3, "us": 1e-6},
    "B/s": {"B/s": 1, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12},
    "B": {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "KB": 1e3, "MB": 1e6, "GB": 1e9},
}
_MAY_BE_ZERO = (
    "l1_bytes",
    "l2_bytes",
    "l1_with_shared",
    "limits.registers_by_block",
    "limits.shared_bytes_reserved",
)
_SMALLEST, _LARGEST = 1e-30, 1e30  # safely within single precision
_EQUAL = 0.01  # relative tolerance between a stated value and its rule
_ABOVE_0 = "a number above 0"


class FieldEntry(BaseModel):
    """A table of a GPU file: one quantity, given as a value or by a rule of `dse.hardware.gpus.rules`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    value: int | float | None = Field(None, description="a number")
    unit: str | None = Field(None, description="a unit")
    lanes: int | float | None = Field(None, gt=_SMALLEST, lt=_LARGEST, description=_ABOVE_0)
    bytes_per_cycle: int | float | None = Field(None, gt=_SMALLEST, lt=_LARGEST, description=_ABOVE_0)
    bandwidth_share: int | float | None = Field(None, gt=_SMALLEST, le=1, description="a share, at most 1")
    per_cycle: int | float | None = Field(None, gt=_SMALLEST, lt=_LARGEST, description=_ABOVE_0)
    like: str | None = Field(None, min_length=1, description="the name of another field, as in cpi.fp32")
    times: int | float = Field(1, gt=_SMALLEST, lt=_LARGEST, description=_ABOVE_0)
    source: str = Field(min_length=1, description="a text that says where the value is from")
    provenance: Literal["stated", "measured", "measured here", "fitted", "derived"] = Field(
        description="stated, measured, measured here, fitted or derived"
    )
    rule: str | None = Field(None, pattern=r"^[^\n]+$", description="one line on how it was derived")
    spread: float | None = Field(None, ge=0, description="of what it comes from, relative, 0 or more")

    @staticmethod
    def of(table: Any, path: Path, field: str) -> "FieldEntry":
        """Validate the table of a field. **Raises:** DseError, one line."""
        return checked(FieldEntry, table, str(path), lambda place: in_toml((field, *place)))

    def stated_rules(self) -> list[Rule]:
        """List the rules stated in the table."""
        note = self.rule or ""
        keys = [key for key in rules.ALLOWED if getattr(self, key) is not None]
        stated = [Rule(key, getattr(self, key), note=note) for key in keys]
        return stated + ([Rule("like", self.times, self.like, note)] if self.like is not None else [])


@dataclass(frozen=True)
class Fact:
    """A quantity of a GPU as in its file; names of tables are joined by dots, as in cpi.fp32.

    If it `follows` from a rule, `value`, `unit` and `rule` are computed.
    """

    field: str
    value: int | float
    unit: str
    source: str
    provenance: str
    rule: str | None
    spread: float | None = None
    follows: Rule | None = None

    @property
    def free(self) -> str | None:
        """The name of the number that may be changed: the field, or the key of its rule."""
        if self.follows is None:
            return self.field
        return f"{self.field}.{self.follows.key}" if self.follows.key in rules.ALLOWED else None

    def table(self) -> dict[str, Any]:
        """The keys and values of its table in a file, in order."""
        if (rule := self.follows) is None:
            cells: dict[str, Any] = {"value": self.value, "unit": self.unit}
        elif rule.key == "like":
            cells = {"like": rule.field, "times": rule.number}
        else:
            cells = {rule.key: rule.number}
        cells |= {"source": self.source, "provenance": self.provenance}
        cells |= {"rule": (rule.note if rule else self.rule) or None, "spread": self.spread}
        return {key: x for key, x in cells.items() if x is not None and (key, x) != ("times", 1)}


class FieldQuantities:
    """The quantities of one file, which may be derived from one another.

    A stated value takes precedence over a rule in the same table.

    **Raises:** DseError, one line, for a rule that the field does not allow, or an impossible value.
    """

    def __init__(self, entries: Mapping[str, FieldEntry], units: Mapping[str, str], path: Path) -> None:
        self.entries, self.units, self.path = entries, units, path
        self.rules = {field: rule for field in entries if (rule := self._rule(field)) is not None}
        self._numbers: dict[str, float] = {}
        self._waiting: list[str] = []

    def number(self, field: str) -> float:
        """Return the value of a field, in the unit of `dse.types`."""
        if field not in self._numbers:
            if field in self._waiting:
                ring = " like ".join([*self._waiting, field])
                raise DseError(f"{self.path}: {field}.like: found {ring}, expected no ring")
            self._waiting.append(field)
            self._numbers[field] = self._number(field)
            self._waiting.pop()
        return self._numbers[field]

    def fact(self, field: str) -> Fact:
        """Return the fact of a field."""
        if field not in self.entries:
            rule, unit = rules.DEFAULT_RULES[field], self.units[field]
            words = rules.in_words(rule, field, self.number)
            return Fact(field, self.number(field), unit, "this file", "derived", words, None, rule)
        entry = self.entries[field]
        source, provenance, spread = entry.source, entry.provenance, entry.spread
        if entry.value is None or entry.unit is None:
            rule = self.rules[field]
            words, unit = rules.in_words(rule, field, self.number), self.units[field]
            return Fact(field, self.number(field), unit, source, provenance, words, spread, rule)
        return Fact(field, entry.value, entry.unit, source, provenance, entry.rule, spread)

    def warn(self) -> None:
        """Warn of values that contradict others in the file: one line each."""
        for field, rule in self.rules.items():
            stated, computed = self.entries[field].value, rules.cycles(rule, field, self.number)
            if stated is not None and abs(self.number(field) / computed - 1) > _EQUAL:
                words = rules.in_words(rule, field, self.number)
                self._warn(f"{field}: found {stated:g}, and {words}, which is {computed:.4g}")
        share, (lowest, highest) = rules.bandwidth_share(self.number), rules.SHARES
        if not lowest <= share <= highest:
            bandwidth, cycles = self.number("dram_bandwidth") / 1e9, self.number("cpi.dram")
            reached = f"{cycles:.4g} cycles, {share * bandwidth:.4g} GB/s"
            self._warn(
                f"cpi.dram: found {reached}, beside a dram_bandwidth of {bandwidth:.4g} GB/s, expected"
                f" {lowest:g} to 1 of it"
            )

    def _warn(self, conflict: str) -> None:
        field = conflict.split(":", 1)[0]
        warnings.warn(f"{self.path}: {conflict}; the value of {field} counts", InputWarning, stacklevel=4)

    def _number(self, field: str) -> float:
        if field not in self.entries:
            return rules.cycles(rules.DEFAULT_RULES[field], field, self.number)
        entry = self.entries[field]
        if entry.value is not None:
            return _si(entry, entry.value, self.units[field], self.path, field)
        number = rules.cycles(self.rules[field], field, self.number)
        if not _SMALLEST < number < _LARGEST:
            words = rules.in_words(self.rules[field], field, self.number)
            raise DseError(f"{self.path}: {field}: found {words}, expected cycles in single precision")
        return number

    def _rule(self, field: str) -> Rule | None:
        """Return the rule of a table, if any, and check that the field allows it."""
        entry, allowed, where = self.entries[field], rules.keys_of(field), f"{self.path}: {field}"
        stated_rules = entry.stated_rules()
        for rule in stated_rules:
            if rule.key not in allowed:
                stated = " or ".join(("value", *allowed))
                raise DseError(f"{where}.{rule.key}: found {rule.number!r}, expected {stated} instead")
            known = [other for other in self.entries if "like" in rules.keys_of(other) and other != field]
            if rule.field and rule.field not in known:
                raise DseError(f"{where}.like: found {rule.field!r}, {one_of(rule.field, known)}")
        if len(stated_rules) > 1:
            first, second, *_ = stated_rules
            raise DseError(f"{where}: found {first.key} and {second.key}, expected one of them")
        if entry.value is None and not stated_rules:
            raise DseError(f"{where}.value: missing, expected a number")
        if entry.value is not None and entry.unit is None:
            raise DseError(f"{where}.unit: missing, expected a unit")
        return stated_rules[0] if stated_rules else None


def _si(entry: FieldEntry, value: int | float, unit: str, path: Path, field: str) -> float:
    """Convert a value to the unit of `dse.types`. **Raises:** DseError if the field does not allow it."""
    allowed = _SI.get(unit, {unit: 1})
    if entry.unit not in allowed:
        raise DseError(f"{path}: {field}.unit: found {entry.unit!r}, expected {' or '.join(allowed)}")
    if entry.provenance == "derived" and entry.rule is None and not entry.stated_rules():
        raise DseError(f"{path}: {field}.rule: missing, expected one line on how the value was derived")
    zero, is_count = field in _MAY_BE_ZERO, field.startswith("limits.")
    kind = "a number" if entry.unit == "1" else entry.unit
    lowest = "of 0 or more" if zero else "above 0"
    if not (_SMALLEST < value < _LARGEST or (zero and value == 0)):
        raise DseError(f"{path}: {field}: found {value!r}, expected {kind} {lowest}, in single precision")
    number = value * allowed[entry.unit]
    if is_count and not (number == int(number) and number < 2**31):
        raise DseError(f"{path}: {field}: found {value!r}, expected a whole number of {kind} below 2^31")
    return number
