"""Kernels of T1 tuning problems: read from the source they name, or another kernel with their space."""

import ast
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dse.core.files import file_below
from dse.core.space.expression import Expression, parse
from dse.core.space.space import Space
from dse.errors import DseError
from dse.kernels.description import Alias, ArrayArgument, Build, Description
from dse.source.amd.compile import options as of_hip
from dse.source.nvidia.compile import options as of_cuda
from dse.source.nvidia.compile.argument_types import type_of
from dse.source.nvidia.compile.declared import parameters_of
from dse.source.nvidia.compile.nvrtc import read_source
from dse.source.readers import t1
from dse.source.readers.given import Given, with_given
from dse.source.readers.t1 import T1Argument, T1Problem

# Options of nvcc that NVRTC lacks, or that follow from the command's GPU.
_OF_NVCC = ("-O", "-arch", "-gencode", "--gpu-architecture", "-Xcompiler", "-lineinfo", "-cubin", "-ptx")


class _OwnLanguage(ast.NodeTransformer):
    """Parses sizes and values in the file's own language: parameters, and Kernel Tuner's additions.

    `ProblemSize[0]` is the size along x; `max(parameter)` and `min(parameter)` are over its values; a scalar
    argument represents its value.
    """

    def __init__(self, problem: T1Problem, sizes: Mapping[str, int]) -> None:
        self.values: Mapping[str, tuple] = problem.space.values
        self.scalars = {
            argument.Name: argument.FillValue
            for argument in problem.arguments
            if isinstance(argument.FillValue, int | float) and argument.Name not in self.values
        }
        self.known = {*self.values, *sizes, "index", "random"}
        named = (f"problem_size_{axis}" for axis in "xyz")
        self.sizes = [
            name if name in sizes else f"({size.text})" if isinstance(size, Expression) else str(size)
            for name, size in zip(named, problem.problem_size, strict=False)
        ]

    def read(self, value: Any, where: str) -> Expression:
        """Parse a size or value as an expression. **Raises:** DseError that begins with `where`."""
        if not isinstance(value, str):
            return parse(value, where, self.known)
        try:
            tree = self.visit(ast.parse(value.strip(), mode="eval").body)
            text = ast.unparse(tree)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise DseError(f"{where}: found {value!r}, expected a number or an expression") from None
        return parse(text, where, self.known)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """Replace `ProblemSize[axis]`."""
        match node:
            case ast.Subscript(value=ast.Name(id="ProblemSize"), slice=ast.Constant(value=int(axis))):
                if 0 <= axis < len(self.sizes):
                    return ast.parse(self.sizes[axis], mode="eval").body
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Replace `max(parameter)` and `min(parameter)`."""
        match node:
            case ast.Call(func=ast.Name(id="max" | "min" as which), args=[ast.Name(id=name)], keywords=[]):
                if name in self.values:
                    return ast.Constant(max(self.values[name]) if which == "max" else min(self.values[name]))
        return self.generic_visit(node)  # type: ignore[return-value]

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace a scalar argument by its value."""
        return ast.Constant(self.scalars[node.id]) if node.id in self.scalars else node


def load(path: Path, given: Given) -> Description:
    """Read the kernel of a T1 file, see `of_problem` and `dse.source.readers.given.with_given`."""
    return with_given(of_problem(t1.load(path)), given, str(path))


def of_problem(problem: T1Problem) -> Description:
    """Describe a T1 problem's kernel: parameters are macros under their own names, sizes can be changed.

    **Raises:** DseError if it is neither CUDA nor HIP, its file is missing, or an argument cannot be read.
    """
    where = f"{problem.path}: KernelSpecification"
    if problem.language.upper() not in _OPTIONS_OF:
        raise DseError(f"{where}.Language: found {problem.language}, expected {' or '.join(_OPTIONS_OF)}")
    if problem.kernel_file is None:
        raise DseError(f"{where}.KernelFile: found nothing, expected the name of a .cu or .hip file")
    source = file_below(problem.path.parent, problem.kernel_file, f"{where}.KernelFile")

    names = problem.space.names
    sizes = {
        f"problem_size_{axis}": size
        for axis, size in zip("xyz", problem.problem_size, strict=False)
        if isinstance(size, int) and f"problem_size_{axis}" not in names
    }
    language = _OwnLanguage(problem, sizes)
    grid = []
    for axis, divisors in enumerate(problem.grid_div):
        product = " * ".join(f"({divisor.text})" for divisor in divisors) or "1"
        grid.append(f"ceil({language.sizes[axis]} / ({product}))")
    grid += [blocks.text for blocks in problem.blocks]
    known = {*names, *sizes}
    blocks = tuple(parse(text, f"{where}.ProblemSize", known) for text in grid)
    read = [
        _argument(problem.arguments[index], language, f"{where}.Arguments[{index}]")
        for index in _passed(problem, source, f"{where}.Arguments")
    ]
    return Description(
        name=problem.name,
        path=problem.path,
        source=source,
        variant_of=problem.name,
        space=problem.space,
        problem=tuple(sizes.items()),
        build=Build(
            kernel=problem.kernel_name,
            defines=_macros(problem, blocks, where),
            block=problem.block,
            grid=blocks,
            arguments=tuple(argument for argument, _ in read),
            options=_options(problem),
            shared_bytes=None if problem.shared_memory.text == "0" else problem.shared_memory,
        ),
        assumptions=tuple(assumption for _, assumption in read if assumption),
    )


def _macros(
    problem: T1Problem, blocks: tuple[Expression, ...], where: str
) -> tuple[tuple[str, Expression], ...]:
    """Define the parameters, after the macros of Kernel Tuner, whose files have a problem size.

    Sources have defaults of parameters under `#ifndef kernel_tuner`.
    """
    names = problem.space.names
    macros = {name: parse(name, where, names) for name in names}
    if problem.problem_size:
        own = {"kernel_tuner": parse(1, where)}
        for kind, sizes in (("block", problem.block), ("grid", blocks)):
            own |= {f"{kind}_size_{axis}": size for axis, size in zip("xyz", sizes, strict=False)}
        macros = own | macros
    return tuple(macros.items())


def _passed(problem: T1Problem, source: Path, where: str) -> list[int]:
    """Choose the arguments passed to the kernel: constant ones too, if they are parameters.

    **Raises:** DseError that names the missing ones, if the kernel has more parameters.
    """
    text = read_source(source, problem.kernel_name)
    declared = [parameter.name for parameter in parameters_of(text) or ()]
    places = [
        index
        for index, argument in enumerate(problem.arguments)
        if not argument.constant or argument.Name in declared
    ]
    between = re.search(rf"\b{re.escape(problem.kernel_name)}\s*\(([^)]*)", text.text)
    if len(places) < len(declared) and between is not None and "#" not in between[1]:
        named, short = {argument.Name for argument in problem.arguments}, len(declared) - len(places)
        missing = [name for name in declared if name not in named]
        raise DseError(
            f"{where}: found {len(places)}, expected one for each parameter of {problem.kernel_name}, in "
            f"this order: {', '.join(declared)}; add {', '.join(missing) if len(missing) == short else short}"
        )
    return places


def _argument(
    argument: T1Argument, language: _OwnLanguage, where: str
) -> tuple[Expression | ArrayArgument | None, str | None]:
    """Return an argument, and the assumptions made where the file states too little."""
    kind, parts = type_of(argument.Type) or (None, 1)
    memory, filled = (argument.MemoryType or "").lower(), argument.FillValue
    if memory == "scalar" or (argument.MemoryType is None and argument.Size is None):
        random = (argument.FillType or "Constant").lower() != "constant"
        if kind is None or parts > 1 or filled is None or random:
            return None, None
        value = language.read(filled, f"{where}.FillValue")
        number = f"1.0 * ({value.text})" if "float" in kind else f"floor({value.text})"
        return parse(number, f"{where}.FillValue"), None
    values = None
    only_written = (argument.AccessType or "").lower() == "writeonly"
    fill = (argument.FillType or "").lower()
    if kind is not None and argument.Size is not None and not only_written and fill in ("constant", "random"):
        if fill == "constant":
            values = language.read(0 if filled is None else filled, f"{where}.FillValue")
        else:
            highest = language.read(1 if filled is None else filled, f"{where}.FillValue")
            whole = "random * ({})" if "float" in kind else "floor(random * ({}))"
            values = parse(whole.format(highest.text), f"{where}.FillValue")
    assumption = None
    try:
        if argument.Size is None:
            raise DseError(f"{where}.Size: found nothing, expected a number of elements")
        size = language.read(argument.Size, f"{where}.Size")
    except DseError as error:
        if values is not None:  # each element is computed
            raise
        size, assumption = parse(0, where), f"{error}; so nothing is known of the array"
    if kind is None:
        return ArrayArgument(size, "uint8", None), assumption
    return ArrayArgument(parse(f"{parts} * ({size.text})", f"{where}.Size"), kind, values), assumption


def _options(problem: T1Problem) -> tuple[str, ...]:
    """Choose the options for its compiler; folders are relative to the file.

    **Raises:** DseError for an option that a file may not set, or a folder that is not below it.
    """
    where, here = f"{problem.path}: KernelSpecification.CompilerOptions", problem.path.parent
    options, named = of_cuda.split(problem.options)
    folders = [(here / folder).resolve() for folder in named]
    for folder, name in zip(folders, named, strict=True):
        if not folder.is_relative_to(here.resolve()):
            raise DseError(f"{where}: found the folder {name!r}, expected one in {here} or below it")
    options = [option for option in options if not option.startswith(_OF_NVCC)]
    _OPTIONS_OF[problem.language.upper()].check(options, where)
    return (*options, *(f"-I{folder}" for folder in folders))


_OPTIONS_OF = {"CUDA": of_cuda, "HIP": of_hip}


def with_space(description: Description, problem: T1Problem) -> Description:
    """Replace a kernel's space by the parameters, values and conditions of a T1 problem.

    Names are matched like those of measured tables: by one of the kernel's `spaces`, or unchanged. Parameters
    unknown to the kernel do not affect predictions and are left out.

    **Raises:** DseError if the problem lacks a parameter of the kernel, or has a condition on an unknown one
    with several values.
    """
    own, sizes = description.space.names, dict(description.problem)

    def named(alias: Alias) -> tuple[dict[str, Any], list[str], list[str]]:
        """Return values by the kernel's names, missing names and unknown names."""
        ours = {dict(alias.rename).get(name, name): values for name, values in problem.space.values.items()}
        ours |= {name: (value,) for name, value in alias.set}
        missing = [name for name in own if name not in ours]
        return ours, missing, [name for name in ours if name not in own and name not in sizes]

    aliases = [*description.spaces, Alias(description.name)]
    alias = min(aliases, key=lambda alias: sum(map(len, named(alias)[1:])))
    values, missing, unknown = named(alias)
    renamed = dict(alias.rename)
    constants = {name: values.pop(name) for name in [*unknown, *(set(values) & set(sizes))]}
    bound = set().union(*(condition.names for condition in problem.space.constraints)) | set(sizes)
    several = [name for name, choices in constants.items() if len(choices) > 1 and name in bound]
    if missing or several:
        wrong = (
            f"no {missing[0]!r}"
            if missing
            else f"several values of {several[0]!r} in a condition or as a size"
        )
        raise DseError(f"{problem.name}: parameters: found {wrong}, expected {', '.join(own)}")

    def ours(text: str) -> str:
        """Return a condition in the kernel's names, with constants replaced by values."""
        known = renamed | {name: str(choices[0]) for name, choices in constants.items() if name not in sizes}
        return re.sub(r"[A-Za-z_]\w*", lambda word: known.get(word[0], word[0]), text)

    return replace(
        description,
        space=Space(
            {name: values[name] for name in own},
            tuple(
                parse(ours(condition.text), f"{problem.name}: Conditions", {*own, *sizes})
                for condition in problem.space.constraints
            ),
        ),
        problem=tuple((name, constants.get(name, (size,))[0]) for name, size in sizes.items()),
    )
