"""Options and launches of a kernel's configurations, from its description's [source]."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from dse import kernels
from dse.core.space.expression import Expression, parse
from dse.errors import DseError
from dse.kernels.description import (
    Build,
    Contents,
    Description,
    DescriptorArgument,
    Members,
    Number,
    StatedArgument,
    evaluated_names,
)
from dse.source.machine.launch import ELSEWHERE, VARIABLE, Dimensions, Pointer, address_of
from dse.types import Gpu

_AT_A_TIME = 2**16  # elements, in the L2 of a core


@dataclass(frozen=True)
class Array:
    """The contents of an array: an expression of `index`, of `random` from 0 up to 1, and of `names`."""

    size: int  # elements
    type: str
    values: str
    names: tuple[tuple[str, Number], ...]

    def contents(self, seed: int, kind: Any) -> np.ndarray:
        """Compute the stated contents as elements of NumPy type `kind`, with random numbers of `seed`."""
        expression = parse(self.values, "values")
        values, random = np.empty(self.size, kind), np.random.default_rng(seed)
        for first in range(0, self.size, _AT_A_TIME):
            index = np.arange(first, min(first + _AT_A_TIME, self.size))
            names = dict(self.names) | {"index": index, "random": random.random(len(index))}
            values[first : first + len(index)] = expression(names, np)
        return values


@dataclass(frozen=True)
class Descriptor:
    """A tensor descriptor, of an array of unknown contents."""

    type: str  # of an element, in Triton's notation: fp16
    shape: tuple[int, ...]  # elements, the contiguous axis last
    strides: tuple[int, ...]  # elements
    block: tuple[int, ...]  # elements that the kernel accesses at a time


class NotStated(DseError):
    """Counts depend on what is not stated."""


@dataclass(frozen=True)
class Assumed:
    """An array of fractions or pointers of unstated contents, which count as `assumed` says."""

    kind: str  # of its elements, in the source's notation; "": all are 0

    def pointer(self, seed: int) -> Pointer:
        """Return a pointer to the contents, others for each `seed`; fractions and pointers repeat."""
        if not self.kind:
            return Pointer(np.zeros(1 << 16, np.uint32))
        if is_pointer(self.kind):
            first = ELSEWHERE + seed * _POINTERS
            return Pointer(np.array([*map(address_of, range(first, first + _POINTERS))]), repeats=True)
        values = 2 * np.random.default_rng(seed).random(_FRACTIONS, np.float32) - 1
        if "bf" in self.kind:
            return Pointer((values.view(np.uint32) >> 16).astype(np.uint16), repeats=True)
        double, half = (
            any(word in self.kind for word in words) for words in (("double", "64"), ("half", "16"))
        )
        return Pointer(
            values.astype(np.float64 if double else np.float16 if half else np.float32), repeats=True
        )


_POINTERS = 1024
_FRACTIONS = 4099  # prime: rows of any usual length hold other numbers than their neighbours


def is_pointer(kind: str) -> bool:
    """Return whether elements of this type are pointers."""
    return kind.endswith("*")


def assumed(kind: str) -> str:
    """Return how arrays of unstated contents count: fractions of either sign, around most thresholds."""
    return "as pointers to arrays of their own" if is_pointer(kind) else "with 2 * random - 1"


def held(contents: bytes, kind: str | None, seed: int) -> Pointer:
    """Return what a variable holds: its initial contents, else those assumed of its kind; None: not known."""
    if contents:
        return Pointer(np.frombuffer(contents + bytes(-len(contents) % 4), np.uint32))
    return Pointer() if kind is None else Assumed(kind).pointer(seed)


class Unstated(Enum):
    """Numbers that the kernel's description does not state."""

    NUMBER = 0


# A tuple: the parts of a vector; None: an array of unknown contents.
Argument = Number | Array | Assumed | Contents | Descriptor | Members | Unstated | tuple[Number, ...] | None


def unstated_numbers(arguments: Sequence[Argument]) -> list[int]:
    """Return the indices of unstated numbers."""
    return [index for index, argument in enumerate(arguments) if argument is Unstated.NUMBER]


def name_of(names: Sequence[str], place: int) -> str:
    """Return the name of an argument, or its number if the source has no name."""
    return names[place] if place < len(names) and names[place] else f"argument {place}"


def with_names(message: str, name: Callable[[int], str | None]) -> str:
    """Replace the numbers of arguments on which something depends by their names, None for none."""
    start, depends, arguments = message.partition("depends on ")
    replaced = re.sub(r"\bargument (\d+)\b", lambda match: name(int(match[1])) or match[0], arguments)
    return start + depends + replaced


def plainly(message: str) -> str:
    """Replace mangled names of functions by their names, without namespaces."""

    def name(match: re.Match[str]) -> str:
        name, rest = match[0], match[1]
        while part := re.match(r"L?(\d+)(\w+)", rest):
            name, rest = part[2][: int(part[1])], part[2][int(part[1]) :]
        return name

    return re.sub(r"\b_ZN?(L?\d\w+)", name, message)


def unstated(kernel: str, names: Sequence[str], places: Iterable[int | None]) -> str:
    """Return the message that a launch depends on unstated numbers."""
    missing = [name_of(names, index) for index in places if index is not None] or ["a number"]
    values = " and ".join(f"{name}=VALUE" for name in missing)
    what = "on which addresses, trips or branches depend"
    return f"{kernel}: {', '.join(missing)}: found no value, {what}, expected {values} (given.arguments)"


def no_contents(kernel: str, name: str, does: str, kind: str = "int32") -> str:
    """Return the message that a launch depends on an array of unstated contents, of elements of a `kind`."""
    if name.startswith(VARIABLE):
        return f"{kernel}: {name}: found no value, which {does}, expected an initial one in the source"
    how = f"{name}=SIZE:{kind}:VALUES, an expression of index and random (given.arguments)"
    how = "pointers as arguments, or in a structure by value" if is_pointer(kind) else how
    return f"{kernel}: {name}: found no contents of the array, which {does}, expected {how}"


def too_small(kernel: str, name: str) -> str:
    """Return the message that a launch depends on what lies outside of an array of stated contents."""
    problem = "found accesses outside of the array, on which work depends"
    return f"{kernel}: {name}: {problem}, expected a SIZE that holds them (given.arguments)"


def check_shared(kernel: str, end: int, shared_bytes: float) -> None:
    """Raise DseError if a block accesses more shared memory than it has."""
    if end > shared_bytes:
        problem = f"found accesses up to byte {end:,} of {int(shared_bytes):,}"
        raise DseError(f"{kernel}: shared memory: {problem}, expected its size (given.shared_bytes)")


@dataclass(frozen=True)
class Configuration:
    """The macros and the launch of one configuration."""

    defines: tuple[tuple[str, Number], ...]
    grid: Dimensions
    block: Dimensions
    arguments: tuple[Argument, ...]
    shared_bytes: int | None = None  # of a block, added by the launch; None if not stated
    assumed: tuple[tuple[str, str], ...] = ()  # variables, and what they hold: their `Assumed.kind`
    most_steps: int = 1 << 31  # see LaunchArguments


def assuming(configuration: Configuration, kinds: Mapping[int | str, str], most_steps: int) -> Configuration:
    """Return a configuration whose arrays at these places, and variables of these names, are `assumed`.

    `kinds` are those of their elements.
    """
    variables = tuple((name, kind) for name, kind in kinds.items() if isinstance(name, str))
    arguments = [
        Assumed(kinds[place]) if place in kinds else argument
        for place, argument in enumerate(configuration.arguments)
    ]
    assumed = configuration.assumed + variables
    return replace(configuration, arguments=tuple(arguments), assumed=assumed, most_steps=most_steps)


def configurations(
    description: Description, parameters: Mapping[str, Any], problem: Mapping[str, Number], gpu: Gpu
) -> list[Configuration]:
    """Compute the macros and launches of a kernel's configurations from its [source] table.

    **Shapes:** parameters [L] or scalars, GPU fields scalars; L configurations.
    **Raises:** DseError if the kernel has no such table, or a block or grid has no threads or blocks.
    """
    build = build_of(description)[1]
    known = evaluated_names(description, parameters, problem, gpu)
    count = np.broadcast_shapes((1,), *(np.shape(value) for value in parameters.values()))[0]

    def column(expression: Expression) -> list[Number]:
        values = np.broadcast_to(expression(known, np), (count,))
        if not np.isfinite(values).all():
            wrong = values[~np.isfinite(values)][0]
            raise DseError(
                f"{description.path}: source: found {wrong} of {expression.text!r}, expected a number"
            )
        return values.tolist()

    def shape(name: str, expressions: Sequence[Expression]) -> list[Dimensions]:
        columns = [*map(column, expressions), *[[1] * count] * (3 - len(expressions))]
        for values in columns:
            wrong = next((value for value in values if value < 1 or value != int(value)), None)
            if wrong is not None:
                allowed = "1 or more" if wrong < 1 else "a whole number (// divides to one)"
                raise DseError(f"{description.path}: source.{name}: found {wrong}, expected {allowed}")
        sizes = [(int(x), int(y), int(z)) for x, y, z in zip(*columns, strict=True)]
        if (most := max(map(prod, sizes))) >= 2**31:
            raise DseError(f"{description.path}: source.{name}: found {most:,} in all, expected below 2^31")
        return sizes

    def whole(expressions: Sequence[Expression]) -> list[tuple[int, ...]]:
        return [tuple(map(int, row)) for row in zip(*map(column, expressions), strict=True)]

    def argument(stated: StatedArgument) -> Sequence[Argument]:
        if stated is None:
            return [Unstated.NUMBER] * count
        if isinstance(stated, Contents | Members):
            return [stated] * count
        if isinstance(stated, Expression):
            return column(stated)
        if isinstance(stated, tuple):
            return list(zip(*map(column, stated), strict=True))
        if isinstance(stated, DescriptorArgument):
            rows = zip(whole(stated.shape), whole(stated.strides), whole(stated.block), strict=True)
            return [Descriptor(stated.type, *row) for row in rows]
        if stated.values is None:
            return [None] * count
        used = sorted(stated.values.names & set(known))
        columns = [np.broadcast_to(known[name], (count,)).tolist() for name in used]
        return [
            Array(max(0, int(size)), stated.type, stated.values.text, tuple(zip(used, values, strict=True)))
            for size, *values in zip(column(stated.size), *columns, strict=True)
        ]

    macros = [(name, column(expression)) for name, expression in build.defines]
    blocks, grids = shape("block", build.block), shape("grid", build.grid)
    arguments = [argument(stated) for stated in build.arguments]
    added = [None] * count if build.shared_bytes is None else column(build.shared_bytes)
    if wrong := [size for size in added if size is not None and (size < 0 or size != int(size))]:
        raise DseError(f"{description.path}: source.shared_bytes: found {wrong[0]}, expected whole bytes")
    return [
        Configuration(
            defines=tuple((name, values[row]) for name, values in macros),
            grid=grids[row],
            block=blocks[row],
            arguments=tuple(values[row] for values in arguments),
            shared_bytes=None if shared is None else min(int(shared), 2**30),  # more than any GPU has
        )
        for row, shared in enumerate(added)
    ]


def check_blocks(name: str, wanted: Sequence[Configuration], gpu: Gpu) -> None:
    """Check that some launch has no more threads, and adds no more shared memory, than the GPU allows.

    **Raises:** DseError that says if block and grid seem to be exchanged.
    """
    shared = min(configuration.shared_bytes or 0 for configuration in wanted)
    if shared > (at_most := int(gpu.limits.shared_bytes_per_block)):
        raise DseError(f"{name}: shared: found {shared} B a block, expected at most {at_most}")
    fewest = min(wanted, key=lambda configuration: prod(configuration.block))
    threads, most = prod(fewest.block), int(gpu.limits.threads_per_block)
    if threads > most:
        hint = "; are block and grid exchanged?" if 32 <= prod(fewest.grid) <= most else ""
        raise DseError(f"{name}: block: found {threads} threads, expected at most {most}{hint}")


def build_of(description: Description) -> tuple[Path, Build]:
    """Return a kernel's source file and build. **Raises:** DseError if the description has none."""
    if description.source is None or description.build is None:
        if description.source is None and description.described:
            known = [name for name in kernels.names() if kernels.load(name).source is not None]
            problem = "found a kernel that is known by its description only, which `dse rank` takes as it is"
            expected = f"expected one with source, as {', '.join(known)}, or a file"
            raise DseError(f"{description.name}: source: {problem}; {expected}")
        stated = "none" if description.source is None else "no block and grid"
        raise DseError(
            f"{description.path}: source: found {stated}, expected a table with file, block, grid, arguments"
        )
    return description.source, description.build
