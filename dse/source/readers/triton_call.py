"""A Triton kernel with the arguments of a launch in a program."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from dse.core.space.expression import parse
from dse.core.space.space import holds
from dse.errors import DseError
from dse.kernels.counts import Number
from dse.kernels.description import GPU_NAMES, UNKNOWN_ARRAY, Contents, Description, DescriptorArgument
from dse.source.nvidia.compile.triton import OPTIONS, canonical
from dse.source.nvidia.compile.triton_function import remember, unwrapped
from dse.source.readers.triton_kernel import (
    Argument,
    Stated,
    as_text,
    describe,
    of_decorators,
    settings,
    with_configs,
)

Configs = Sequence[Any] | Mapping[str, Sequence[Number]]

_MOST_ELEMENTS = 2**24  # of an array whose contents are read


def of_call(
    kernel: Any, arguments: Mapping[str, Any], grid: Any, configs: Configs | None = None
) -> Description:
    """Describe a kernel by the arguments of a launch, of which some may be constants.

    An argument is a number, a tensor, a tensor descriptor, or a type instead of a tensor: `"*fp16"`. The
    contents of tensors of whole numbers are used, as they may be indices. `grid` is in Triton's form, numbers
    or a function of the configuration; or expressions. `configs` are `triton.Config` objects, mappings, or
    lists of values by name; by default those of `triton.autotune`.

    **Raises:** DseError for missing arguments and names that are not the kernel's.
    """
    jitted = unwrapped(kernel)
    remember(jitted)
    names = [argument.name for argument in jitted.arguments]
    inside = {name: value for name, value in arguments.items() if name in names}
    constants = {name: value for name, value in arguments.items() if name not in names}
    numbers = {name: v for name, v in constants.items() if isinstance(v, Real) and holds(float(v))}
    sizes = {name: _number(value) for name, value in inside.items() if isinstance(value, Real)}
    known: dict[str, Argument] = {name: parse(name, "args", sizes) for name in sizes}
    types: dict[str, str] = {}
    for name, value in inside.items():
        if name not in sizes:
            types[name], known[name] = _array(name, value)
    stated = Stated(
        types=types,
        arguments=known,
        sizes=sizes,
        values={name: [_number(value)] for name, value in numbers.items()},
        constants={name: as_text(value) for name, value in constants.items() if name not in numbers},
    )
    if configs is None:
        stated = of_decorators(jitted, stated, arguments)
    elif isinstance(configs, Mapping):
        stated = replace(stated, values={**stated.values, **configs})
    else:
        rows = [config if isinstance(config, Mapping) else settings(config) for config in configs]
        stated = with_configs(jitted, stated, rows)
    allowed = {*jitted.constexprs, *OPTIONS, *sizes, *GPU_NAMES}
    return describe(jitted, replace(stated, grid=_grid(grid, allowed, arguments)))


@dataclass(frozen=True, eq=False)
class GridOf:
    """One axis of a grid that is a function of the configuration, used like an expression."""

    function: Callable[[dict[str, Any]], Sequence[int]]
    axis: int
    arguments: Mapping[str, Any]

    def __call__(self, values: Mapping[str, Any], xp: Any) -> np.ndarray:
        """Return the blocks along the axis. **Shapes:** values [L] or scalars; [L]."""
        columns = {name: np.asarray(value) for name, value in values.items()}
        count = np.broadcast_shapes((1,), *(column.shape for column in columns.values()))[0]
        rows = zip(*(np.broadcast_to(column, count).tolist() for column in columns.values()), strict=True)
        meta = ({**self.arguments} | dict(zip(columns, row, strict=True)) for row in rows)
        return np.array([grid_axis(self.function(setting), self.axis) for setting in meta])


def grid_axis(sizes: Any, axis: int) -> int:
    """Return the blocks along an axis of a grid of up to three sizes, as in Triton."""
    sizes = sizes if isinstance(sizes, tuple | list) else (sizes,)
    return int(sizes[axis]) if axis < len(sizes) else 1


def _grid(grid: Any, allowed: Collection[str], arguments: Mapping[str, Any]) -> tuple[Any, ...]:
    if grid is None:
        raise DseError("grid: found none, expected numbers, expressions or a function of the configuration")
    if callable(grid):
        function: Any = grid
        return tuple(GridOf(function, axis, arguments) for axis in range(3))
    sizes = grid if isinstance(grid, tuple | list) else (grid,)
    return tuple(parse(size if isinstance(size, str) else int(size), "grid", allowed) for size in sizes)


def _number(value: Any) -> Number:
    return (
        value if isinstance(value, int | float) else value.item() if hasattr(value, "item") else float(value)
    )


def _array(name: str, value: Any) -> tuple[str, Argument]:
    """Return the type of a tensor or descriptor, and its known properties."""
    where = f"args: {name}"
    if value is None or isinstance(value, str):
        kind = canonical(str(value))
        return kind, UNKNOWN_ARRAY if kind.startswith("*") else None
    if hasattr(value, "block_shape"):
        sizes = (value.shape, value.strides, value.block_shape)
        shape, strides, block = (tuple(parse(int(size), where) for size in extents) for extents in sizes)
        return "", DescriptorArgument(_element(value.base, where), shape, strides, block)
    kind = f"*{_element(value, where)}"
    contents = contents_of(value)
    return kind, UNKNOWN_ARRAY if contents is None else Contents(contents)


def _element(value: Any, where: str) -> str:
    if not hasattr(value, "dtype"):
        raise DseError(f"{where}: found {value!r}, expected a number, a tensor, or a type such as '*fp16'")
    return canonical(str(value.dtype))


def contents_of(value: Any) -> np.ndarray | None:
    """Return the contents of an array of whole numbers, if present and not too large."""
    if not canonical(str(value.dtype)).startswith(("i", "u")) or not hasattr(value, "shape"):
        return None
    if hasattr(value, "detach"):
        if value.numel() > _MOST_ELEMENTS or value.device.type == "meta":
            return None
        value = value.detach().cpu().numpy()
    array = np.asarray(value)
    return array.ravel() if array.size <= _MOST_ELEMENTS else None
