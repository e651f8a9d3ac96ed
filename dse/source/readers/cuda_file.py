"""Kernels in a CUDA file, in PTX, in a cubin or in a listing; the caller states the launch."""

import keyword
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from dse import kernels
from dse.core.commas import split
from dse.core.space.expression import FUNCTIONS, Expression, parse
from dse.core.space.space import Space
from dse.errors import DseError, one_of
from dse.kernels.counts import Number
from dse.kernels.description import (
    UNKNOWN_ARRAY,
    ArrayArgument,
    Build,
    Description,
    DescriptorArgument,
    Members,
    StatedArgument,
    row_major,
)
from dse.source.nvidia.compile.argument_types import HALVES, TYPES, kind_of, type_of
from dse.source.nvidia.compile.declared import Declared, kernels_in, parameters_of, parts_of, with_members
from dse.source.nvidia.compile.nvrtc import read_source
from dse.source.readers.given import Given, build_with, refuse


def load(path: Path, given: Given) -> Description:
    """Read a kernel from such a file, with one launch or several.

    Arguments not given are arrays of unknown contents and unstated numbers. Those given as numbers are sizes
    of the problem, which expressions for block and grid may use.

    **Raises:** DseError if the file cannot be read, has several kernels and none is named, or if block or
    grid are missing or an argument cannot be read.
    """
    refuse(given, ("signature",), f"{path}, expected it with a Triton kernel")
    tried = [(name, values[0]) for name, values in given.tuned]
    macros = [f"--define-macro={name}={value}" for name, value in (*given.defines, *tried)]
    source = read_source(path, given.function, given.folders, macros)
    kernels_here = kernels_in(source)
    if not given.function and len(kernels_here) > 1:
        raise DseError(f"given.function: found none for {path}, expected one of {', '.join(kernels_here)}")
    for field, sizes, what in (
        ("block", given.block, "the threads of a block: 256, or TILE,TILE/4 of what is tried"),
        ("grid", given.grid, "the blocks: 1024, or ceil(n/BLOCK) of arguments and what is tried"),
    ):
        if not sizes:
            raise DseError(f"given.{field}: found none for {path}, expected {what}{_or_instead(path)}")
    tuned = [name for name, _ in given.tuned]
    declared = parameters_of(source)
    declared = None if declared is None else with_members(declared)
    placed = _placed(given.arguments, declared, kernels_here)
    problem = _numbers(placed, declared or (), tuned)
    names = [*tuned, *problem]
    arguments = _arguments(placed, declared, problem)
    build = Build(
        kernel=given.function,
        defines=tuple((name, parse(name, "given.tuned", tuned)) for name in tuned),
        block=tuple(parse(size, "given.block", names) for size in given.block),
        grid=tuple(parse(size, "given.grid", names) for size in given.grid),
        arguments=arguments,
    )
    return Description(
        name=given.function or path.stem,
        path=path,
        source=path,
        variant_of=given.function or path.stem,
        space=Space(dict(given.tuned)),
        problem=tuple(problem.items()),
        build=build_with(build, given, names),
        assumptions=_assumptions(build, declared or ()),
    )


def _assumptions(build: Build, declared: Sequence[Declared]) -> tuple[str, ...]:
    """Name the unstated numbers: they are 0 if nothing depends on them, else an error."""
    unstated = [
        parameter.name or f"argument {index}"
        for index, (parameter, value) in enumerate(zip(declared, build.arguments, strict=False))
        if value is None
    ]
    return (f"{', '.join(unstated)}: 0, since no value is stated",) if unstated else ()


def _or_instead(path: Path) -> str:
    """Name the files beside it that state its launch."""
    beside = [kernels.FILE, *sorted(file.name for file in path.parent.glob("*T1*.json"))]
    files = [str(path.with_name(name)) for name in beside if path.with_name(name).is_file()]
    return f"; or give {' or '.join(files)} in its place" if files else ""


def _placed(
    texts: Sequence[str], declared: Sequence[Declared] | None, kernels_here: Sequence[str]
) -> dict[int, str]:
    """Return the given arguments by index, placed by name or in order."""
    if declared is None:
        if named := next((text for text in texts if re.match(r"\s*[A-Za-z_]\w*\s*=(?!=)", text)), None):
            known = f"names are known of kernels that the file declares: {', '.join(kernels_here) or 'none'}"
            raise DseError(f"given.arguments: found {named!r}, expected values in order: {known}")
        return dict(enumerate(texts))
    names = [parameter.name for parameter in declared]
    own = len(names) - sum(len(parts_of(parameter)[0]) for parameter in declared)
    placed: dict[int, str] = {}
    for text in texts:
        named = re.match(r"\s*([A-Za-z_][\w.\[\]]*)\s*=(?!=)(.*)", text, re.DOTALL)
        if named is not None and named[1] not in names:
            raise DseError(
                f"given.arguments: found {named[1]!r}, {one_of(named[1], list(filter(None, names)))}"
            )
        index = next(n for n in range(len(texts) + len(names)) if n not in placed)
        if named is not None:
            index, text = names.index(named[1]), named[2]
        if index in placed:
            raise DseError(f"given.arguments: {names[index]}: found two values, expected one")
        if named is None and index >= own:
            which = f" ({', '.join(names)})" if any(names) else ""
            raise DseError(f"given.arguments: found {len(texts)} arguments, expected at most {own}{which}")
        placed[index] = text
    for index in [index for index in placed if declared[index].members]:
        parts = split(placed.pop(index))
        members = [member for member, _, _ in parts_of(declared[index])[0]]
        counts = [1 if member.pointer else (kind_of(member.kind) or ("", 1))[1] for member in members]
        if parts == ["?"]:
            continue
        if len(parts) != sum(counts):
            problem = f"{names[index]}: found {len(parts)} parts, expected {sum(counts)}"
            raise DseError(f"given.arguments: {problem} ({', '.join(member.name for member in members)})")
        for member, count in zip(members, counts, strict=True):
            if names.index(member.name) in placed:
                raise DseError(f"given.arguments: {member.name}: found two values, expected one")
            placed[names.index(member.name)] = ",".join(parts[:count])
            del parts[:count]
    return placed


def _numbers(
    placed: Mapping[int, str], declared: Sequence[Declared], tuned: Sequence[str]
) -> dict[str, Number]:
    """Return the arguments that are numbers, by names for expressions."""
    numbers: dict[str, Number] = {}
    for index, parameter in enumerate(declared):
        name, text = parameter.name or "", placed.get(index, "?")
        usable = name.isidentifier() and not keyword.iskeyword(name) and name not in (*FUNCTIONS, *tuned)
        if not usable or parameter.pointer is not False or text.strip() == "?":
            continue
        value = _given_argument(text, parameter)
        if isinstance(value, Expression):
            numbers[name] = value({}, np).item()
    return numbers


def _arguments(
    placed: Mapping[int, str], declared: Sequence[Declared] | None, problem: Mapping[str, Number]
) -> tuple[StatedArgument, ...]:
    """Parse the arguments: sizes of the problem by name; an argument without a value is unknown."""
    if declared is None:
        return tuple(_given_argument(text, None) for text in placed.values())
    return tuple(
        parse(known.name, "given.arguments", problem)
        if known.name in problem
        else _structure(known)
        if known.members
        else _given_argument(placed.get(index, "?"), known)
        for index, known in enumerate(declared)
    )


def _structure(declared: Declared) -> Members:
    members, size, _ = parts_of(declared)
    return Members(size, tuple((offset, of_member) for _, offset, of_member in members))


def _form(kind: np.dtype | str) -> tuple[int, bool]:
    """Return the bytes of a number and whether it is a float, which determine how it is parsed."""
    return np.dtype(kind).itemsize, np.dtype(kind).kind == "f"


def _as_declared(number: Expression, declared: Declared | None, where: str) -> Expression:
    value = number({}, np).item()
    if declared is not None and declared.kind in HALVES:  # as bits: no number of Python has this type
        half = np.asarray(value).astype(HALVES[declared.kind])
        if not np.isfinite(half):
            raise DseError(f"{where}: found {number.text!r}, expected what {declared.kind} holds")
        return parse(int(half.view(np.uint16)), where)
    if declared is not None and declared.floating:
        return parse(float(value), where)
    if declared is None or not declared.whole:
        return number
    if not float(value).is_integer():
        raise DseError(f"{where}: found {number.text!r}, expected a whole number")
    return parse(int(value), where)  # also of 1e6


def _parts(text: str, declared: Declared | None, where: str) -> tuple[Expression, ...]:
    """Parse the parts of a vector, or of a structure that the source lacks."""
    numbers = [parse(part, where, ()) for part in text.split(",")]
    kind = None if declared is None else kind_of(declared.kind)
    if kind is not None and kind[1] != len(numbers):
        raise DseError(f"{where}: found {text!r}, expected {kind[1]} parts")
    known = declared is not None and (declared.floating or declared.whole or declared.kind in HALVES)
    if not known and len({type(number({}, np).item()) for number in numbers}) > 1:
        raise DseError(f"{where}: found {text!r}, expected a point in all of them or in none")
    return tuple(_as_declared(number, declared, where) for number in numbers)


def _tensor_map(text: str, where: str) -> DescriptorArgument:
    """Parse `ROWS,COLUMNS:TYPE:BOX_ROWS,BOX_COLUMNS`, in row-major order."""
    shape, kind, box = [*text.split(":"), "", ""][:3]
    sizes, boxes = (
        [parse(size, where, ()) for size in part.split(",")] if part else [] for part in (shape, box)
    )
    element = type_of(kind)
    if element is None or len(sizes) != len(boxes):
        raise DseError(
            f"{where}: found {text!r}, expected a tensor map, ROWS,COLUMNS:half:BOX_ROWS,BOX_COLUMNS"
        )
    return DescriptorArgument(element[0], tuple(sizes), row_major(sizes, where), tuple(boxes))


def _given_argument(text: str, declared: Declared | None) -> StatedArgument:
    """Parse `?`, a number, or `SIZE[:TYPE[:VALUES]]`; a number for a pointer is its array's size, 0 none.

    `PART,PART` has the parts of a vector, all of one size.
    """
    where = (
        f"given.arguments: {declared.name}" if declared is not None and declared.name else "given.arguments"
    )
    pointer = None if declared is None else declared.pointer
    kind = None if declared is None else declared.kind
    if text.count(":") == 2 and pointer is False and not kind:  # of PTX or a cubin
        kind = "CUtensorMap"
    if kind == "CUtensorMap" and text.strip() != "?":
        return _tensor_map(text, where)
    if "," in text and ":" not in text and not pointer:
        return _parts(text, declared, where)
    size, *more = (part.strip() for part in text.split(":", 2))
    if text.strip() == "?" and pointer is False:
        return None
    if text.strip() == "?":
        return UNKNOWN_ARRAY
    if pointer and text.strip() in ("nullptr", "NULL", "0"):
        return parse(0, where)
    if more and pointer is False:
        raise DseError(f"{where}: found the array {text!r}, expected a number")
    try:
        number = parse(size, where, ())
        value = number({}, np).item()
    except DseError:
        expected = "a number" if pointer is False else "a number, nullptr or SIZE[:TYPE[:VALUES]]"
        raise DseError(f"{where}: found {text!r}, expected {expected}") from None
    if not more and not pointer:
        return _as_declared(number, declared, where)
    element = type_of(more[0]) if more else ("uint8", 1)
    if element is None:
        raise DseError(f"{where}: type: found {more[0]!r}, expected one of {', '.join(TYPES)}")
    kind, parts = element
    if declared is not None and more:
        stated = type_of(declared.kind)
        if stated is not None and _form(stated[0]) != _form(kind):
            raise DseError(
                f"{where}: type: found {more[0]!r}, expected {declared.kind}, as the source has it"
            )
    if not isinstance(value, int) or value < 0:
        raise DseError(f"{where}: size: found {size}, expected a number of elements")
    values = parse(more[1], f"{where}: values", ("index", "random")) if len(more) > 1 else None
    return ArrayArgument(parse(parts * value, where), kind, values)
