"""Read tuning problems in T1 form, the JSON that Kernel Tuner, KTT and BAT share.

The grid is ceil(problem size / product of the grid divisors) in each dimension, as in Kernel Tuner, whose
`GlobalSize` does not always fit the problem's size and is not read. Without a `ProblemSize`, as in KTT,
`GlobalSize` is the grid, in blocks, or in threads if `GlobalSizeType` or the language is OpenCL.
"""

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel

from dse.core.files import read_json
from dse.core.space.expression import Expression, parse
from dse.core.space.space import MOST_VALUES, Space, values_of
from dse.core.validate import checked
from dse.errors import DseError


class T1Argument(BaseModel):
    """One argument of the kernel, with the file's own names and values; None if not stated."""

    Name: str = ""
    Type: str
    MemoryType: str | None = None  # Vector or Scalar
    AccessType: str | None = None  # ReadOnly, WriteOnly or ReadWrite
    Size: Any = None  # elements: a number, or an expression in the file's own language
    FillType: str | None = None  # Constant, Random, ...
    FillValue: Any = None  # of a constant fill; upper limit of random numbers
    MemType: str | None = None

    @property
    def constant(self) -> bool:
        """Whether it is a `__constant__` variable, not passed, by Kernel Tuner's field or KTT's."""
        return (self.MemType or "").lower() == "constant" or (self.MemoryType or "").lower() == "symbol"


@dataclass(frozen=True)
class T1Problem:
    """The contents of a T1 file; expressions are in the parameters of `space`."""

    name: str
    space: Space
    problem_size: tuple[int | Expression, ...]  # an expression if it depends on parameters
    grid_div: tuple[tuple[Expression, ...], ...]  # divisors of each problem size
    blocks: tuple[Expression, ...]  # along x, y, z, without a problem size
    shared_memory: Expression  # bytes of a block, added by the launch
    language: str
    kernel_name: str
    arguments: tuple[T1Argument, ...]
    path: Path
    kernel_file: str | None  # as written in the file
    options: tuple[str, ...]  # of the compiler
    block: tuple[Expression, ...]  # threads of a block along x, y, z


class _Parameter(BaseModel):
    Name: str
    Values: Any  # a list, or the text of one


class _Condition(BaseModel):
    Expression: str


class _ConfigurationSpace(BaseModel):
    TuningParameters: list[_Parameter]
    Conditions: list[_Condition] = []


class _Sizes(BaseModel):
    X: Any
    Y: Any = 1
    Z: Any = 1


class _KernelSpecification(BaseModel):
    Language: str
    KernelName: str
    KernelFile: str | None = None
    CompilerOptions: list[str] | None = None
    LocalSize: _Sizes
    BenchmarkName: str | None = None
    ProblemSize: Any = None
    GlobalSize: _Sizes | None = None
    GlobalSizeType: str | None = None
    GridDivX: list[Any] | None = None
    GridDivY: list[Any] | None = None
    GridDivZ: list[Any] | None = None
    SharedMemory: Any = 0
    Arguments: list[T1Argument] = []


class _General(BaseModel):
    BenchmarkName: str | None = None


class _File(BaseModel):
    General: _General = _General()
    ConfigurationSpace: _ConfigurationSpace
    KernelSpecification: _KernelSpecification


def load(path: str | Path) -> T1Problem:
    """Read a T1 file.

    **Edges:** without divisors for a dimension its problem size is divided by the block's size there,
    Kernel Tuner's default. Values are numbers: lists, `range(...)`, simple comprehensions over one
    name, and sums of these.
    **Errors:** DseError, one line that names the file and the field.
    """
    file = checked(_File, read_json(Path(path)), f"{path}")

    space = _space(file.ConfigurationSpace, f"{path}: ConfigurationSpace")
    kernel, where = file.KernelSpecification, f"{path}: KernelSpecification"

    def read(text: Any, field: str) -> Expression:
        return parse(text, f"{where}.{field}", space.names)

    block = [read(getattr(kernel.LocalSize, axis), f"LocalSize.{axis}") for axis in "XYZ"]
    if kernel.ProblemSize is None and kernel.GlobalSize is None:
        raise DseError(f"{where}: found neither ProblemSize nor GlobalSize, expected one of them")
    problem_size, grid_div, blocks = (), [], ()
    if kernel.ProblemSize is not None:
        problem_size = _problem_size(kernel.ProblemSize, f"{where}.ProblemSize", space.names)
    elif kernel.GlobalSize is not None:
        texts = [getattr(kernel.GlobalSize, axis) for axis in "XYZ"]
        if (kernel.GlobalSizeType or kernel.Language).upper() == "OPENCL":  # threads
            texts = [f"ceil(({text}) / ({own.text}))" for text, own in zip(texts, block, strict=True)]
        blocks = tuple(read(text, f"GlobalSize.{axis}") for text, axis in zip(texts, "XYZ", strict=True))
    for axis, own_size, _ in zip("XYZ", block, problem_size, strict=False):
        argument = getattr(kernel, f"GridDiv{axis}")
        divisors = (
            [own_size]
            if argument is None
            else [read(divisor, f"GridDiv{axis}[{i}]") for i, divisor in enumerate(argument)]
        )
        grid_div.append(tuple(divisors))
    return T1Problem(
        name=file.General.BenchmarkName or kernel.BenchmarkName or kernel.KernelName,
        space=space,
        problem_size=problem_size,
        grid_div=tuple(grid_div),
        blocks=blocks,
        shared_memory=read(kernel.SharedMemory or 0, "SharedMemory"),
        language=kernel.Language,
        kernel_name=kernel.KernelName,
        arguments=tuple(kernel.Arguments),
        path=Path(path),
        kernel_file=kernel.KernelFile,
        options=tuple(kernel.CompilerOptions or ()),
        block=tuple(block),
    )


def _space(declared: _ConfigurationSpace, where: str) -> Space:
    values: dict[str, Any] = {}
    for i, parameter in enumerate(declared.TuningParameters):
        field = f"{where}.TuningParameters[{i}]"
        if parameter.Name in values:
            raise DseError(f"{field}.Name: found '{parameter.Name}' twice, expected each name once")
        spec = parameter.Values
        numbers = _numbers(spec, f"{field}.Values") if isinstance(spec, str) else spec
        values[parameter.Name] = values_of(numbers, f"{field}.Values")
    try:
        space = Space(values)
    except DseError as error:
        raise DseError(f"{where}.TuningParameters: {error}") from None
    conditions = tuple(
        parse(condition.Expression, f"{where}.Conditions[{i}].Expression", values)
        for i, condition in enumerate(declared.Conditions)
    )
    return replace(space, constraints=conditions)


def _problem_size(stated: Any, where: str, names: Sequence[str]) -> tuple[int | Expression, ...]:
    sizes: list[Any] = stated if isinstance(stated, list) else [stated]
    sizes = [_size(parse(size, where, names)) if isinstance(size, str) else size for size in sizes]
    whole = all(isinstance(size, Expression) or (type(size) is int and size > 0) for size in sizes)
    if not (1 <= len(sizes) <= 3 and whole):
        raise DseError(f"{where}: found {stated!r}, expected one to three integers above 0")
    return tuple(sizes)


def _size(expression: Expression) -> int | float | Expression:
    """Return the value of an expression without names, if whole as an integer."""
    if expression.names:
        return expression
    number = np.asarray(expression({}, np)).item()
    return int(number) if number == np.floor(number) else number


def _numbers(text: str, where: str) -> list[Any]:
    """Return the list that a piece of Python represents, by walking its tree: the text is never run."""
    try:
        return _list(ast.parse(text.strip(), mode="eval").body, where)
    except (SyntaxError, ValueError) as error:
        raise DseError(f"{where}: cannot read {text!r}: {getattr(error, 'msg', error)}") from None
    except (RecursionError, MemoryError):
        raise DseError(f"{where}: found a list nested too deeply, expected a plain one") from None


def _list(node: ast.expr, where: str) -> list[Any]:
    match node:
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            items = [_number(element, where) for element in elements]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            items = _list(left, where) + _list(right, where)
        case ast.Call(func=ast.Name(id="list" | "tuple"), args=[inner], keywords=[]):
            items = _list(inner, where)
        case ast.Call(func=ast.Name(id="range"), args=[_, *_] as ends, keywords=[]) if len(ends) <= 3:
            numbers = range(*(_whole(end, where) for end in ends))
            items = list(numbers[: MOST_VALUES + 1])  # one more than allowed is enough for the error
        case ast.ListComp(
            elt=element,
            generators=[ast.comprehension(target=ast.Name(id=name), iter=source, ifs=conditions, is_async=0)],
        ):
            values = np.asarray(_list(source, where))
            for condition in conditions:
                values = values[parse(ast.unparse(condition), where, {name}).holds({name: values}, np)]
            result = parse(ast.unparse(element), where, {name})({name: values}, np)
            items = np.broadcast_to(result, values.shape).tolist()
        case _:
            raise ValueError("only lists, range(...), comprehensions over one name, and sums of these")
    if len(items) > MOST_VALUES:
        raise DseError(f"{where}: found {len(items)} values, expected at most {MOST_VALUES}")
    return items


def _number(node: ast.expr, where: str) -> int | float:
    return parse(ast.unparse(node), where, ())({}, np).item()


def _whole(node: ast.expr, where: str) -> int:
    number = _number(node, where)
    if not isinstance(number, int):
        raise DseError(f"{where}: found {number} in a range, expected an integer")
    return number
