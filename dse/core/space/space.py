"""A tuning space: parameters with their values, and constraints that say which combinations count."""

import functools
import keyword
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import jax.numpy as jnp
import numpy as np

from dse.core.space.expression import FUNCTIONS, Expression, parse
from dse.core.space.listed import Listed
from dse.errors import DseError, one_of

MOST_VALUES = 1_000_000  # of one parameter
MOST_CONFIGURATIONS = 10**7  # that are listed at once
_DRAWN = 2**16  # indices at a time


@dataclass(frozen=True, eq=False)
class Space:
    """The product of the parameters' values, of which the valid combinations satisfy every constraint.

    A configuration has an index from 0 to `size` - 1: a number in mixed radix, whose last digit, that
    of the last parameter, changes fastest. Equal and hashed by content and order, so a space can be
    a static argument of a jitted function; leave `values` as it is.

    **Errors:** DseError for a name that no expression could use, for values that `values_of` refuses,
    and for 2**63 configurations or more, which no index counts.
    """

    values: Mapping[str, Any]  # name → numbers, spelled in any way that `values_of` reads; kept as tuples
    constraints: Any = ()  # expressions or lists; texts are read: "block * items <= 1024"

    def __post_init__(self) -> None:
        for name in self.values:
            if not name.isidentifier() or keyword.iskeyword(name) or name in FUNCTIONS:
                raise DseError(f"parameters: found '{name}', expected a name that an expression can use")
        values = {name: values_of(spec, f"parameters.{name}") for name, spec in self.values.items()}
        object.__setattr__(self, "values", values)
        if isinstance(self.constraints, str):
            raise DseError(f"constraints: found {self.constraints!r}, expected a list of them")
        read = [
            parse(constraint, "constraints") if isinstance(constraint, str) else constraint
            for constraint in self.constraints
        ]
        object.__setattr__(self, "constraints", tuple(read))
        if self.size >= 2**63:
            raise DseError(f"parameters: found {self.size:.1e} configurations, expected fewer than 2^63")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters, in order."""
        return tuple(self.values)

    @property
    def size(self) -> int:
        """How many configurations there are, valid or not."""
        return math.prod(map(len, self.values.values()))

    def decode(self, index: Any, xp: Any = jnp) -> dict[str, Any]:
        """Return the parameters of the configurations at `index`.

        **Shapes:** each has that of `index`.
        **Types:** the default integer of `xp`, or its float where a list has a fraction in it.
        **Errors:** DseError if the type of `index` is too narrow for the space. An index outside of the
        space counts on around it.
        """
        rest = xp.asarray(index)
        if self.size - 1 > xp.iinfo(rest.dtype).max:
            raise DseError(f"index: found {rest.dtype}, expected room for {self.size} configurations")
        parameters = {}
        for name, values in tuple(self.values.items())[::-1]:
            # Dividing by one list's length at a time keeps every number within the type of the index.
            rest, digit = rest // len(values), rest % len(values)
            parameters[name] = xp.take(xp.asarray(values, type(values[0])), digit, mode="clip")
        return {name: parameters[name] for name in self.values}

    def index(self, parameters: Mapping[str, Any]) -> np.ndarray:
        """Find the indices of configurations, -1 where a value is not in its list; constraints do not matter.

        **Shapes:** parameters broadcast, as NumPy's do; other names are passed over.
        **Errors:** DseError if a parameter is missing.
        """
        index, known = np.asarray(0), np.asarray(True)
        for name, values in self.values.items():
            if name not in parameters:
                raise DseError(f"{name}: found no value, expected one of {_shortened(values)}")
            wanted, order = np.asarray(parameters[name]), np.argsort(values)
            position = np.searchsorted(np.asarray(values)[order], wanted)
            digit = order[np.minimum(position, len(values) - 1)]
            index, known = index * len(values) + digit, known & (np.asarray(values)[digit] == wanted)
        return np.asarray(np.where(known, index, -1), np.int64)

    def valid(self, parameters: Mapping[str, Any], constants: Mapping[str, Any], xp: Any = jnp) -> Any:
        """Test which configurations satisfy every constraint; `constants` are the problem's sizes.

        **Shapes:** the parameters' common shape; constants are scalars, or broadcast with them.
        """
        known = {**constants, **parameters}
        shape = np.broadcast_shapes(*(np.shape(parameters[name]) for name in self.values))
        every = (constraint.holds(known, xp) for constraint in self.constraints)
        return functools.reduce(lambda x, y: x & y, every, xp.ones(shape, bool))

    def indices(self, constants: Mapping[str, Any] | None = None, chunk: int = 2**20) -> np.ndarray:
        """Find the indices of all valid configurations, ascending; int64. `constants` are scalars.

        **Errors:** DseError if more than MOST_CONFIGURATIONS are valid.
        """
        pieces = self.pieces(0, self.size, constants, chunk)
        return np.concatenate([np.empty(0, np.int64), *self._bounded(pieces)])

    def pieces(
        self, start: int, stop: int, constants: Mapping[str, Any] | None = None, chunk: int = 2**20
    ) -> Iterator[np.ndarray]:
        """Yield the indices of the valid configurations from `start` up to `stop`, ascending; int64.

        The product is built up one parameter at a time, about `chunk` rows at once, and each constraint
        drops rows as soon as all its parameters are there: a space much larger than memory will do if
        few enough are valid. `constants` are scalars.
        """
        position = {name: i for i, name in enumerate(self.values)}
        checks: list[list[Expression | Listed]] = [
            [] for _ in range(len(position) + 1)
        ]  # [-1]: no parameter at all
        for constraint in self.constraints:
            checks[max((position[name] for name in constraint.names if name in position), default=-1)] += [
                constraint
            ]
        constants = constants or {}
        if all(constraint.holds(constants, np) for constraint in checks.pop()):
            yield from self._extend(np.zeros(1, np.int64), {}, checks, constants, chunk, (start, stop))

    def _bounded(self, pieces: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """Yield the same, and stop when they are too many to be held at once."""
        valid = 0
        for piece in pieces:
            valid += len(piece)
            if valid > MOST_CONFIGURATIONS:
                stated = f"over {MOST_CONFIGURATIONS:,} valid configurations of {self.size:,}"
                raise DseError(f"parameters: found {stated}, expected fewer, or to take some (sample)")
            yield piece

    def sample(
        self, count: int, constants: Mapping[str, Any] | None = None, seed: int = 0, tries: int = 2**24
    ) -> np.ndarray:
        """Find the indices of `count` valid configurations at random, ascending; fewer if there are no more.

        Nothing is listed where `tries` indices that are drawn hold enough of them.

        **Errors:** as `indices`, where too few are valid to be drawn and too many to be listed.
        """
        random, constants = np.random.default_rng(seed), constants or {}
        drawn_valid = np.empty(0, np.int64)
        for _ in range(tries // _DRAWN if self.size > MOST_CONFIGURATIONS >= count else 0):
            drawn = random.integers(0, self.size, _DRAWN)
            parameters = self.decode(drawn, np)
            drawn_valid = np.unique(
                np.concatenate([drawn_valid, drawn[self.valid(parameters, constants, np)]])
            )
            if len(drawn_valid) >= count:
                return np.sort(random.permutation(drawn_valid)[:count])
        drawn_valid = self.indices(constants)
        if count >= len(drawn_valid):
            return drawn_valid
        return drawn_valid[np.sort(np.random.default_rng(seed).permutation(len(drawn_valid))[:count])]

    def _extend(
        self,
        index: np.ndarray,
        columns: Mapping[str, np.ndarray],
        checks: list[list[Expression | Listed]],
        constants: Mapping[str, Any],
        chunk: int,
        ends: tuple[int, int],
    ) -> Iterator[np.ndarray]:
        """Yield the indices of the valid configurations between `ends` that begin with one of the rows.

        A row has values for the first parameters only: `checks` has an entry for each of the others.
        `columns` keeps those values that are still to be checked.
        """
        if not checks:
            yield index
            return
        name, values = list(self.values.items())[-len(checks)]
        below = math.prod(map(len, list(self.values.values())[len(self.values) - len(checks) + 1 :]))
        first, last = ends[0] // below, -(-ends[1] // below)  # of the longer rows
        later = set[str]().union(*(constraint.names for check in checks[1:] for constraint in check))
        rows = max(1, chunk // len(values))
        for start in range(0, len(index), rows):
            piece = slice(start, start + rows)
            longer = (index[piece, None] * len(values) + np.arange(len(values))).ravel()
            known = {key: np.repeat(column[piece], len(values)) for key, column in columns.items()}
            known[name] = np.tile(np.asarray(values), len(longer) // len(values))
            keep = (longer >= first) & (longer < last)
            for constraint in checks[0]:
                keep &= constraint.holds({**constants, **known}, np)
            kept = {key: column[keep] for key, column in known.items() if key in later}
            yield from self._extend(longer[keep], kept, checks[1:], constants, chunk, ends)

    def emptiness(self, name: str, constants: Mapping[str, Any] | None = None) -> DseError:
        """Return the error that says why no configuration of the kernel `name` is valid."""
        why = self.emptied_by(constants)
        return DseError(f"{name}: constraints: found no valid configuration ({why}), expected at least one")

    def emptied_by(self, constants: Mapping[str, Any] | None = None) -> str:
        """Say why no configuration is valid: the constraint that none fulfils, alone or with those before.

        Parameters that have one value only are named with it.
        """
        known = constants or {}
        alone = [(constraint,) for constraint in self.constraints]
        together = [self.constraints[:count] for count in range(2, len(self.constraints) + 1)]
        for some in (*alone, *together):
            names = set().union(*(constraint.names for constraint in some))
            space = Space({name: values for name, values in self.values.items() if name in names}, some)
            if any(piece.size for piece in space.pieces(0, space.size, known)):
                continue
            single = {name: values[0] for name, values in space.values.items() if len(values) == 1} | dict(
                known
            )
            fixed = [f"{name}={value}" for name, value in single.items() if name in some[-1].names]
            at = f" at {', '.join(fixed)}" if fixed else ""
            return f"none fulfils {some[-1].text!r}{at}{', beside the others' if len(some) > 1 else ''}"
        return "the space has none"

    def configurations(
        self, constants: Mapping[str, Any] | None = None, chunk: int = 2**20
    ) -> dict[str, np.ndarray]:
        """Return all valid configurations in ascending order of index, a column for each parameter."""
        return self.decode(self.indices(constants, chunk), np)

    def with_values(self, values: Mapping[str, Any], where: str = "values") -> "Space":
        """Return the space with other values for some of its parameters, in any way that `values_of` reads.

        They need not have been in the lists, so one can look beyond them; order and constraints stay.

        **Errors:** DseError, which begins with `where`, for an unknown parameter.
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
        return tuple(self.values.items()), self.constraints  # dicts are equal in any order, spaces are not


def holds(number: Any) -> bool:
    """Return whether a parameter can have this value: what 64 bits hold, and no NaN."""
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
    # One type for all: 1 and 1.0 are equal, so that spaces that are equal must have equal types too.
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
