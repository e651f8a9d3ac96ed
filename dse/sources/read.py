"""Kernels that are known by their source only: descriptions that say how to compile and launch, no more.

A tuning problem in T1 form says so itself; of a CUDA file, PTX, a cubin and a listing the caller does.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dse import kernels
from dse.errors import DseError
from dse.sources import t1

if TYPE_CHECKING:
    from dse.cuda.compile.nvrtc import Declared
    from dse.kernels.description import ArrayArgument, Build, Description
    from dse.sources.t1 import Argument, T1Problem
    from dse.space.expression import Expression

SUFFIXES = (".cu", ".ptx", ".cubin", ".sass")  # of files that do not say how they are launched


@dataclass(frozen=True)
class Given:
    """What is said of a kernel besides its file, in the words of the command line."""

    function: str = ""
    block: tuple[int | str, ...] = ()  # threads along x, y, z: numbers, or expressions of what is tuned
    grid: tuple[int | str, ...] = ()  # blocks
    arguments: tuple[str, ...] = ()  # a number, or SIZE[:TYPE[:VALUES]]; NAME= may stand before
    defines: tuple[tuple[str, str], ...] = ()  # macros
    shared_bytes: int | None = None  # of a block, that the launch adds
    tuned: tuple[tuple[str, tuple[int | float, ...]], ...] = ()  # macros, and the values that are tried


def load(name: str | Path, given: Given | None = None) -> Description:
    """A kernel by the file that tells of it, by its suffix; or as `dse.kernels.read.load`.

    **Raises:** DseError, one line with the file, the field, what was found and what is allowed.
    """
    given = given or Given()
    path = Path(name).expanduser()
    if path.suffix.lower() in SUFFIXES:
        return of_file(path, given)
    if path.suffix.lower() == ".json":
        description = of_problem(t1.load(path))
    elif path.is_file() and path.suffix.lower() != ".toml":
        expected = ", ".join((*SUFFIXES, ".json (T1)", ".toml"))
        raise DseError(f"{name}: suffix: found {path.suffix!r}, expected one of {expected}")
    else:
        description = kernels.load(name)
    for field in ("block", "grid", "arguments", "tuned"):
        if getattr(given, field):
            raise DseError(
                f"given.{field}: found it with {name}, expected none: the file says how it is launched"
            )
    if given == Given():
        return description
    if description.build is None:
        raise DseError(f"{description.path}: source: found no block and grid, expected a table with them")
    clash = [name for name, _ in given.defines if name in dict(description.build.defines)]
    if clash:
        raise DseError(f"given.defines: found {clash[0]}, expected none that a parameter defines")
    return replace(description, build=_with(description.build, given))


def of_file(path: Path, given: Given) -> Description:
    """A kernel in a CUDA file, in PTX, in a cubin, or in a listing: one launch, or those that are tried.

    Arguments that are not given are arrays of which nothing is known, and numbers that are not stated.

    **Raises:** DseError if the file cannot be read, has several kernels and none is named, or if block or
    grid are missing or an argument cannot be read.
    """
    from dse.cuda.compile.nvrtc import kernels_in, parameters_of, read_source
    from dse.kernels.description import Build, Description
    from dse.space.expression import parse
    from dse.space.space import Space

    source = read_source(path, given.function)
    if not given.function and len(names := kernels_in(source)) > 1:
        raise DseError(f"given.function: found none for {path}, expected one of {', '.join(names)}")
    for field, sizes in (("block", given.block), ("grid", given.grid)):
        if not sizes:
            raise DseError(f"given.{field}: found none for {path}, expected X[,Y[,Z]]{_or_instead(path)}")
    names = [name for name, _ in given.tuned]
    build = Build(
        kernel=given.function,
        defines=tuple((name, parse(name, "given.tuned", names)) for name in names),
        block=tuple(parse(size, "given.block", names) for size in given.block),
        grid=tuple(parse(size, "given.grid", names) for size in given.grid),
        arguments=_arguments(given.arguments, parameters_of(source)),
    )
    return Description(
        name=given.function or path.stem,
        summary="",
        path=path,
        source=path,
        variant_of=given.function or path.stem,
        space=Space(dict(given.tuned)),
        problem=(),
        let=(),
        launch=(),
        warp=(),
        accesses=(),
        spaces=(),
        build=_with(build, given),
    )


def _with(build: Build, given: Given) -> Build:
    from dse.space.expression import parse

    shared = given.shared_bytes
    return replace(
        build,
        kernel=given.function or build.kernel,
        options=(*build.options, *(f"--define-macro={name}={value}" for name, value in given.defines)),
        shared_bytes=build.shared_bytes if shared is None else parse(shared, "given.shared_bytes"),
    )


def _or_instead(path: Path) -> str:
    """Files beside it that say how it is launched."""
    beside = [kernels.FILE, *sorted(each.name for each in path.parent.glob("*T1*.json"))]
    found = [str(path.with_name(name)) for name in beside if path.with_name(name).is_file()]
    return f"; or give {' or '.join(found)} in its place" if found else ""


def _arguments(
    given: Sequence[str], declared: Sequence[Declared] | None
) -> tuple[Expression | ArrayArgument | None, ...]:
    """Those given, by their place or name, and for the rest of what is declared that nothing is known."""
    from dse.space.expression import one_of

    if declared is None:
        return tuple(_given_argument(text, None) for text in given)
    names = [each.name for each in declared]
    found: dict[int, str] = {}
    for text in given:
        named = re.match(r"\s*([A-Za-z_]\w*)\s*=(?!=)(.*)", text, re.DOTALL)
        if named is not None and named[1] not in names:
            raise DseError(
                f"given.arguments: found {named[1]!r}, {one_of(named[1], list(filter(None, names)))}"
            )
        place = next(n for n in range(len(given) + len(names)) if n not in found)
        if named is not None:
            place, text = names.index(named[1]), named[2]
        if place >= len(names):
            which = f" ({', '.join(names)})" if any(names) else ""
            raise DseError(
                f"given.arguments: found {len(given)} arguments, expected at most {len(names)}{which}"
            )
        found[place] = text
    return tuple(_given_argument(found.get(place, "?"), each) for place, each in enumerate(declared))


def _given_argument(text: str, declared: Declared | None) -> Expression | ArrayArgument | None:
    """`?`, a number, or `SIZE[:TYPE[:VALUES]]`; for a pointer a number is the size of its array."""
    from dse.kernels.description import ArrayArgument
    from dse.space.expression import parse

    where = (
        f"given.arguments: {declared.name}" if declared is not None and declared.name else "given.arguments"
    )
    pointer = None if declared is None else declared.pointer
    size, *more = (part.strip() for part in text.split(":", 2))
    if text.strip() == "?" and pointer is False:
        return None
    if text.strip() == "?":
        return ArrayArgument(parse(0, where), "uint8", None)
    if more and pointer is False:
        raise DseError(f"{where}: found the array {text!r}, expected a number")
    try:
        number = parse(size, where, ())
        value = number({}, np).item()
    except DseError:
        expected = "a number" if pointer is False else "a number or SIZE[:TYPE[:VALUES]]"
        raise DseError(f"{where}: found {text!r}, expected {expected}") from None
    if not more and not pointer:
        return parse(float(value), where) if declared is not None and declared.floating else number
    kind, parts = _TYPES.get(more[0].lower().removesuffix("_t"), ("", 0)) if more else ("uint8", 1)
    if not kind:
        raise DseError(f"{where}: type: found {more[0]!r}, expected one of {', '.join(_TYPES)}")
    if not isinstance(value, int) or value < 0:
        raise DseError(f"{where}: size: found {size}, expected a number of elements")
    values = parse(more[1], f"{where}: values", ("index", "random")) if len(more) > 1 else None
    return ArrayArgument(parse(parts * value, where), kind, values)


def of_problem(problem: T1Problem) -> Description:
    """A T1 problem's kernel: parameters are macros under their own names, its problem size can be changed.

    **Raises:** DseError if it is not CUDA, its file is missing, or an argument cannot be read.
    """
    from dse.kernels.description import Build, Description
    from dse.space.expression import parse

    where = f"{problem.path}: KernelSpecification"
    if problem.language.upper() != "CUDA":
        raise DseError(f"{where}.Language: found {problem.language}, expected CUDA")
    if problem.kernel_file is None:
        raise DseError(f"{where}.KernelFile: found nothing, expected the name of a .cu file")
    source = problem.path.parent / problem.kernel_file
    if not source.is_file():
        raise DseError(f"{where}.KernelFile: found no file {source}, expected one beside it")

    names = problem.space.names
    sizes = {f"problem_size_{axis}": size for axis, size in zip("xyz", problem.problem_size, strict=False)}
    sizes = {name: size for name, size in sizes.items() if name not in names}
    words = _Words(problem, sizes)
    grid = []
    for axis, divisors in enumerate(problem.grid_div):
        product = " * ".join(f"({each.text})" for each in divisors) or "1"
        grid.append(f"ceil({words.sizes[axis]} / ({product}))")
    known = {*names, *sizes}
    read = [
        _argument(given, words, f"{where}.Arguments[{place}]")
        for place, given in enumerate(problem.arguments)
        if not given.constant
    ]
    return Description(
        name=problem.name,
        summary="",
        path=problem.path,
        source=source,
        variant_of=problem.name,
        space=problem.space,
        problem=tuple(sizes.items()),
        let=(),
        launch=(),
        warp=(),
        accesses=(),
        spaces=(),
        build=Build(
            kernel=problem.kernel_name,
            defines=tuple((name, parse(name, where, names)) for name in names),
            block=problem.block,
            grid=tuple(parse(text, f"{where}.ProblemSize", known) for text in grid),
            arguments=tuple(argument for argument, _ in read),
            options=_options(problem),
            shared_bytes=None if problem.shared_memory.text == "0" else problem.shared_memory,
        ),
        assumptions=tuple(assumption for _, assumption in read if assumption),
    )


def _argument(
    given: Argument, words: _Words, where: str
) -> tuple[Expression | ArrayArgument | None, str | None]:
    """An argument, and what is assumed of it where the file does not say it."""
    from dse.kernels.description import ArrayArgument
    from dse.space.expression import parse

    kind, parts = _TYPES.get(given.type.lower().removesuffix("_t"), (None, 1))
    if (given.memory or "").lower() == "scalar" or (given.memory is None and given.size is None):
        random = (given.fill or "Constant").lower() != "constant"
        if kind is None or parts > 1 or given.value is None or random:
            return None, None
        value = words.read(given.value, f"{where}.FillValue")
        number = f"1.0 * ({value.text})" if kind.startswith("float") else f"floor({value.text})"
        return parse(number, f"{where}.FillValue"), None
    values = None
    only_written = (given.access or "").lower() == "writeonly"
    fill = (given.fill or "").lower()
    if kind is not None and given.size is not None and not only_written and fill in ("constant", "random"):
        if fill == "constant":
            values = words.read(0 if given.value is None else given.value, f"{where}.FillValue")
        else:
            highest = words.read(1 if given.value is None else given.value, f"{where}.FillValue")
            whole = "random * ({})" if kind.startswith("float") else "floor(random * ({}))"
            values = parse(whole.format(highest.text), f"{where}.FillValue")
    assumption = None
    try:
        if given.size is None:
            raise DseError(f"{where}.Size: found nothing, expected a number of elements")
        size = words.read(given.size, f"{where}.Size")
    except DseError as error:
        if values is not None:  # each element is worked out
            raise
        size, assumption = parse(0, where), f"{error}; so nothing is known of the array"
    if kind is None:
        return ArrayArgument(size, "uint8", None), assumption
    return ArrayArgument(parse(f"{parts} * ({size.text})", f"{where}.Size"), kind, values), assumption


class _Words(ast.NodeTransformer):
    """Sizes and values in the file's own language: parameters, and what Kernel Tuner adds to them.

    `ProblemSize[0]` is the size along x; `max(parameter)` and `min(parameter)` are over its values; a scalar
    argument stands for its value.
    """

    def __init__(self, problem: T1Problem, sizes: Mapping[str, int]) -> None:
        self.values: Mapping[str, tuple] = problem.space.values
        self.scalars = {
            each.name: each.value for each in problem.arguments if isinstance(each.value, int | float)
        }
        self.scalars = {name: value for name, value in self.scalars.items() if name not in self.values}
        self.known = {*self.values, *sizes, "index", "random"}
        named = (f"problem_size_{axis}" for axis in "xyz")
        self.sizes = [
            name if name in sizes else str(size)
            for name, size in zip(named, problem.problem_size, strict=False)
        ]

    def read(self, given: Any, where: str) -> Expression:
        """**Raises:** DseError that begins with `where`."""
        from dse.space.expression import parse

        if not isinstance(given, str):
            return parse(given, where, self.known)
        try:
            tree = self.visit(ast.parse(given.strip(), mode="eval").body)
            text = ast.unparse(tree)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise DseError(f"{where}: found {given!r}, expected a number or an expression") from None
        return parse(text, where, self.known)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        match node:
            case ast.Subscript(value=ast.Name(id="ProblemSize"), slice=ast.Constant(value=int(axis))):
                if 0 <= axis < len(self.sizes):
                    return ast.parse(self.sizes[axis], mode="eval").body
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        match node:
            case ast.Call(func=ast.Name(id="max" | "min" as which), args=[ast.Name(id=name)], keywords=[]):
                if name in self.values:
                    return ast.Constant(max(self.values[name]) if which == "max" else min(self.values[name]))
        return self.generic_visit(node)  # type: ignore[return-value]

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(self.scalars[node.id]) if node.id in self.scalars else node


def _options(problem: T1Problem) -> tuple[str, ...]:
    """Those that NVRTC takes; folders are relative to the file."""
    found = []
    for option in problem.options:
        if option.startswith("-I") and len(option) > 2:
            option = f"-I{problem.path.parent / option[2:]}"
        if not option.startswith(_OF_NVCC):
            found.append(option)
    return tuple(found)


# What nvcc takes and NVRTC does not, or what is said by the GPU that a command names.
_OF_NVCC = ("-O", "-arch", "-gencode", "--gpu-architecture", "-Xcompiler", "-lineinfo", "-cubin", "-ptx")

# Types of arguments as the tuners name them: NumPy's name of one part, and how many parts it has.
_TYPES = {
    "bool": ("uint8", 1),
    "char": ("int8", 1),
    "short": ("int16", 1),
    "int": ("int32", 1),
    "long": ("int64", 1),
    "half": ("float16", 1),
    "float": ("float32", 1),
    "double": ("float64", 1),
    **{f"{sign}int{bits}": (f"{sign}int{bits}", 1) for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": (f"float{bits}", 1) for bits in (16, 32, 64)},
    "uchar": ("uint8", 1),
    "uint": ("uint32", 1),
    "unsigned": ("uint32", 1),
    "unsigned int": ("uint32", 1),
    "size": ("uint64", 1),
    **{
        f"{name}{parts}": (kind, parts)
        for name, kind in (("int", "int32"), ("uint", "uint32"), ("float", "float32"), ("double", "float64"))
        for parts in (2, 3, 4)
    },
}
