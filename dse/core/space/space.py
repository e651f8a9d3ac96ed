"""A tuning space: parameters with their values, and constraints on their combinations."""

import functools
import keyword
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import jax.numpy as jnp
import numpy as np

from dse.core.space.expression import FUNCTIONS, Expression, parse
from dse.core.space.listed import AllowedRows
from dse.errors import DseError, one_of

MOST_VALUES = 1_000_000  # of one parameter
MOST_CONFIGURATIONS = 10**7  # listed at once
_DRAWN = 2**16  # random indices drawn at a time


@dataclass(frozen=True, eq=False)
class Space:
    """The product of the parameters' values; valid combinations satisfy every constraint.

    A configuration has an index from 0 to `size` - 1: a mixed-radix number whose last digit, that of
    the last parameter, changes fastest. Spaces compare and hash by content and order, so one can be a
    static argument of a jitted function; do not modify `values`.

    **Errors:** DseError for a name that no expression could use, for values that `values_of` rejects,
    and for 2**63 configurations or more.
    """

    values: Mapping[str, Any]  # name → numbers in any form that `values_of` accepts; stored as tuples
    constraints: Any = ()  # expressions or AllowedRows; text is parsed: "block * items <= 1024"

    def __post_init__(self) -> None:
        for name in self.values:
            if not name.isidentifier() or keyword.iskeyword(name) or name in FUNCTIONS:
                raise DseError(f"parameters: found '{name}', expected a name that an expression can use")
        values = {name: values_of(spec, f"parameters.{name}") for name, spec in self.values.items()}
        object.__setattr__(self, "values", values)
        if isinstance(self.constraints, str):
            raise DseError(f"constraints: found {self.constraints!r}, expected a list of them")
        constraints = [parse(c, "constraints") if isinstance(c, str) else c for c in self.constraints]
        object.__setattr__(self, "constraints", tuple(constraints))
        if self.size >= 2**63:
            raise DseError(f"parameters: found {self.size:.1e} configurations, expected fewer than 2^63")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters, in order."""
        return tuple(self.values)

    @property
    def size(self) -> int:
        """The number of configurations, valid or not."""
        return math.prod(map(len, self.values.values()))

    def decode(self, index: Any, xp: Any = jnp) -> dict[str, Any]:
        """Return the parameters of the configurations at `index`.

        **Shapes:** that of `index`.
        **Types:** the default integer of `xp`, or its float if a parameter has fractions.
        **Errors:** DseError if the type of `index` is too narrow for the space. An index beyond the
        space wraps around.
        """
        rest = xp.asarray(index)
        if self.size - 1 > xp.iinfo(rest.dtype).max:
            raise DseError(f"index: found {rest.dtype}, expected room for {self.size} configurations")
        parameters = {}
        for name, values in tuple(self.values.items())[::-1]:
            # Dividing by one length at a time stays within the type of the index.
            rest, digit = rest // len(values), rest % len(values)
            parameters[name] = xp.take(xp.asarray(values, type(values[0])), digit, mode="clip")
        return {name: parameters[name] for name in self.values}

    def index(self, parameters: Mapping[str, Any]) -> np.ndarray:
        """Return the indices of configurations, valid or not; -1 for values outside of the space.

        **Shapes:** parameters broadcast as in NumPy; other names are ignored.
        **Errors:** DseError if a parameter is missing.
        """
        index, inside = np.asarray(0), np.asarray(True)
        for name, values in self.values.items():
            if name not in parameters:
                raise DseError(f"{name}: found no value, expected one of {_shortened(values)}")
            column, order = np.asarray(parameters[name]), np.argsort(values)
            position = np.searchsorted(np.asarray(values)[order], column)
            digit = order[np.minimum(position, len(values) - 1)]
            index, inside = index * len(values) + digit, inside & (np.asarray(values)[digit] == column)
        return np.asarray(np.where(inside, index, -1), np.int64)

    def valid(self, parameters: Mapping[str, Any], constants: Mapping[str, Any], xp: Any = jnp) -> Any:
        """Test which configurations satisfy every constraint; `constants` are the problem's sizes.

        **Shapes:** the parameters' common shape; constants are scalars, or broadcast with them.
        """
        values = {**constants, **parameters}
        shape = np.broadcast_shapes(*(np.shape(parameters[name]) for name in self.values))
        masks = (constraint.holds(values, xp) for constraint in self.constraints)
        return functools.reduce(lambda x, y: x & y, masks, xp.ones(shape, bool))

    def indices(self, constants: Mapping[str, Any] | None = None, chunk: int = 2**20) -> np.ndarray:
        """Return the indices of all valid configurations, ascending; int64. `constants` are scalars.

        **Errors:** DseError if more than MOST_CONFIGURATIONS are valid.
        """
        return np.concatenate([np.empty(0, np.int64), *self._bounded(constants, chunk)])

    def pieces(
        self, start: int, stop: int, constants: Mapping[str, Any] | None = None, chunk: int = 2**20
    ) -> Iterator[np.ndarray]:
        """Yield the indices of the valid configurations from `start` up to `stop`, ascending; int64.

        The product is built up one parameter at a time, about `chunk` rows at once, and each constraint
        drops rows as soon as all its parameters are known: the space may be much larger than memory if
        few configurations are valid. `constants` are scalars.
        """
        position = {name: i for i, name in enumerate(self.values)}
        checks: list[list[Expression | AllowedRows]] = [[] for _ in (*position, "no parameter")]
        for constraint in self.constraints:
            last = max((position[name] for name in constraint.names if name in position), default=-1)
            checks[last].append(constraint)
        constants = constants or {}
        if all(constraint.holds(constants, np) for constraint in checks.pop()):
            yield from self._extend(np.zeros(1, np.int64), {}, checks, constants, chunk, (start, stop))

    def _bounded(self, constants: Mapping[str, Any] | None, chunk: int) -> Iterator[np.ndarray]:
        """Yield all valid indices. **Errors:** DseError if there are more than MOST_CONFIGURATIONS."""
        valid = 0
        for piece in self.pieces(0, self.size, constants, chunk):
            valid += len(piece)
            if valid > MOST_CONFIGURATIONS:
                stated = f"over {MOST_CONFIGURATIONS:,} valid configurations of {self.size:,}"
                raise DseError(f"parameters: found {stated}, expected fewer, or a sample")
            yield piece

    def sample(
        self, count: int, constants: Mapping[str, Any] | None = None, seed: int = 0, tries: int = 2**24
    ) -> np.ndarray:
        """Return the indices of `count` random valid configurations, ascending; fewer if there are no more.

        A large space is not listed if `tries` random indices hold enough valid ones.

        **Errors:** as `indices`, if too few are valid to be drawn and too many to be listed.
        """
        random, constants = np.random.default_rng(seed), constants or {}
        valid = np.empty(0, np.int64)
        for _ in range(tries // _DRAWN if self.size > MOST_CONFIGURATIONS >= count else 0):
            drawn = random.integers(0, self.size, _DRAWN)
            valid = np.union1d(valid, drawn[self.valid(self.decode(drawn, np), constants, np)])
            if len(valid) >= count:
                return np.sort(random.permutation(valid)[:count])
        valid = self.indices(constants)
        if count >= len(valid):
            return valid
        return valid[np.sort(np.random.default_rng(seed).permutation(len(valid))[:count])]

    def _extend(
        self,
        index: np.ndarray,
        columns: Mapping[str, np.ndarray],
        checks: list[list[Expression | AllowedRows]],
        constants: Mapping[str, Any],
        chunk: int,
        ends: tuple[int, int],
    ) -> Iterator[np.ndarray]:
        """Yield the valid indices between `ends` whose leading parameters are one of the rows `index`.

        `checks` has an entry for each remaining parameter; `columns` holds the values that they need.
        """
        if not checks:
            yield index
            return
        name, values = list(self.values.items())[-len(checks)]
        below = math.prod(map(len, list(self.values.values())[len(self.values) - len(checks) + 1 :]))
        first, last = ends[0] // below, -(-ends[1] // below)  # of the extended rows
        later = set[str]().union(*(constraint.names for check in checks[1:] for constraint in check))
        rows = max(1, chunk // len(values))
        for start in range(0, len(index), rows):
            piece = slice(start, start + rows)
            extended = (index[piece, None] * len(values) + np.arange(len(values))).ravel()
            known = {key: np.repeat(column[piece], len(values)) for key, column in columns.items()}
            known[name] = np.tile(np.asarray(values), len(extended) // len(values))
            keep = (extended >= first) & (extended < last)
            for constraint in checks[0]:
                keep &= constraint.holds({**constants, **known}, np)
            kept = {key: column[keep] for key, column in known.items() if key in later}
            yield from self._extend(extended[keep], kept, checks[1:], constants, chunk, ends)

    def emptiness(self, name: str, constants: Mapping[str, Any] | None = None) -> DseError:
        """Return the error for a kernel `name` without a valid configuration."""
        reason = self.unsatisfiable(constants)
        return DseError(
            f"{name}: constraints: found no valid configuration ({reason}), expected at least one"
        )

    def unsatisfiable(self, constants: Mapping[str, Any] | None = None) -> str:
        """Name the constraint that no configuration satisfies, alone or with the constraints before it.

        Constants and parameters with a single value are listed with it.
        """
        alone = [(constraint,) for constraint in self.constraints]
        together = [self.constraints[:count] for count in range(2, len(self.constraints) + 1)]
        for constraints in (*alone, *together):
            names = set().union(*(constraint.names for constraint in constraints))
            space = Space(
                {name: values for name, values in self.values.items() if name in names}, constraints
            )
            if any(piece.size for piece in space.pieces(0, space.size, constants)):
                continue
            fixed = {name: values[0] for name, values in space.values.items() if len(values) == 1}
            fixed |= constants or {}
            last = constraints[-1]
            stated = [f"{name}={value}" for name, value in fixed.items() if name in last.names]
            at = f" at {', '.join(stated)}" if stated else ""
            return f"none satisfies {last.text!r}{at}{', with the others' if len(constraints) > 1 else ''}"
        return "the space is empty"

    def configurations(
        self, constants: Mapping[str, Any] | None = None, chunk: int = 2**20
    ) -> dict[str, np.ndarray]:
        """Return all valid configurations as columns, one a parameter, in ascending order of index."""
        return self.decode(self.indices(constants, chunk), np)

    def with_values(self, values: Mapping[str, Any], where: str = "values") -> "Space":
        """Return the space with other values for some parameters, in any form that `values_of` accepts.

        Values need not have been in the space before; order and constraints stay.

        **Errors:** DseError that begins with `where` for an unknown parameter.
        """
        for name in values:
            if name not in self.values:
                raise DseError(f"{where}: unknown parameter '{name}', {one_of(name, self.values)}")
        changed = {name: values_of(spec, f"{where}: {name}") for name, spec in values.items()}
        return Space({**self.values, **changed}, self.constraints)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    @property
    def _content(self) -> tuple[Any, ...]:
        return tuple(self.values.items()), self.constraints  # as tuples: order matters


def holds(number: Any) -> bool:
    """Whether a parameter can have this value: within 64 bits, not NaN."""
    return bool(-(2**63) <= number < 2**63)


def values_of(spec: Any, where: str) -> tuple[int, ...] | tuple[float, ...]:
    """Return the values of `spec`; `where` (file: field) begins every message.

    `spec` is a number, a list of numbers, `{from, to, step}` (ends included, step 1 by default) or
    `{powers_of_two: [first, last]}`. All are integers if all are whole, else all are floats.

    **Errors:** DseError for anything else, for no value, a value twice, or more than 10^6.
    """
    expected = "expected numbers, { from, to, step } or { powers_of_two = [first, last] }"
    numbers: Sequence[Any]
    match spec:
        case dict() if {"from", "to"} <= set(spec) <= {"from", "to", "step"}:
            numbers = _range(spec["from"], spec["to"], spec.get("step", 1), where)
        case dict() if set(spec) == {"powers_of_two"}:
            numbers = _powers_of_two(spec["powers_of_two"], where)
        case Real():
            numbers = [spec]
        case list() | tuple() | range():
            numbers = spec
        case _:
            raise DseError(f"{where}: found {spec!r}, {expected}")
    if len(numbers) > MOST_VALUES:
        raise DseError(f"{where}: found {len(numbers)} values, expected at most {MOST_VALUES}")
    if not numbers:
        raise DseError(f"{where}: found no value, expected at least one")
    for number in numbers:
        if not isinstance(number, Real):
            raise DseError(f"{where}: found {number!r}, expected numbers only")
        if not holds(number):
            raise DseError(f"{where}: found {number}, expected a number of 64 bits")
    whole = all(number == int(number) for number in numbers)
    # One type for all: 1 == 1.0, but equal spaces must have equal types too.
    values = tuple(int(number) if whole else float(number) for number in numbers)
    if len(set(values)) < len(values):
        seen: set[float] = set()
        twice = next(value for value in values if value in seen or seen.add(value))
        raise DseError(f"{where}: found {twice} twice, expected each value once")
    return values


def _range(first: Any, last: Any, step: Any, where: str) -> list[Any]:
    for name, number in (("from", first), ("to", last), ("step", step)):
        if not isinstance(number, Real) or not math.isfinite(number):
            raise DseError(f"{where}.{name}: found {number!r}, expected a number")
    if step <= 0:
        raise DseError(f"{where}.step: found {step}, expected a number above 0")
    if first > last:
        raise DseError(f"{where}.from: found {first}, expected at most {last}, which is 'to'")
    if all(isinstance(number, Integral) for number in (first, last, step)):
        steps = (last - first) // step
    else:
        steps = (last - first) / step + 1e-9  # three steps of 0.1 reach 0.3
        steps = math.floor(steps) if math.isfinite(steps) else steps
    if steps >= MOST_VALUES:
        raise DseError(f"{where}: found {steps + 1:.17g} values, expected at most {MOST_VALUES}")
    return [first + i * step for i in range(steps + 1)]


def _powers_of_two(ends: Any, where: str) -> list[int]:
    match ends:
        case [int(first), int(last)] if (
            0 < first <= last < 2**63 and first.bit_count() == last.bit_count() == 1
        ):
            return [2**power for power in range(first.bit_length() - 1, last.bit_length())]
    raise DseError(f"{where}.powers_of_two: found {ends!r}, expected the first power of two and the last")


def _shortened(values: tuple[Any, ...], most: int = 20) -> str:
    return ", ".join(map(str, values[:most])) + (", ..." if len(values) > most else "")
