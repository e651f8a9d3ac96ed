"""Parse the [source] table of a description: how its source is compiled and launched."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from dse.core.space.expression import Expression, parse
from dse.errors import DseError
from dse.kernels import schema
from dse.kernels.description import ArrayArgument, Build, DescriptorArgument, row_major

TRITON = ".py"  # suffix of sources without a stated block: Triton chooses it


def read_build(path: Path, file: schema.KernelFile, allowed: Collection[str]) -> Build | None:
    """Read how the source is compiled and launched, if stated."""
    source = file.source
    if not (source and (source.block or source.grid)):
        return None
    of_triton = Path(source.file).suffix == TRITON
    if of_triton and source.block:
        raise DseError(
            f"{path}: source.block: found it with a Triton kernel, expected num_warps in parameters"
        )
    warps = "32 * num_warps" if "num_warps" in {*file.parameters, *file.problem} else "32 * 4"
    block = [warps] if of_triton else source.block
    for name, sizes in (("block", block), ("grid", source.grid)):
        if not sizes:
            raise DseError(f"{path}: source.{name}: found nothing, expected one to three sizes")

    def parsed(field: str, text: Any, *more: str) -> Expression:
        return parse(text, f"{path}: source.{field}", {*allowed, *more})

    def argument(number: int, value: Any) -> Expression | ArrayArgument | DescriptorArgument:
        field = f"arguments.{number}"
        if isinstance(value, schema.DescriptorTable):
            if len(value.shape) != len(value.block):
                raise DseError(
                    f"{path}: source.{field}: found {len(value.block)} sizes in block,"
                    f" expected {len(value.shape)}, as in shape"
                )
            shape = tuple(parsed(f"{field}.shape", size) for size in value.shape)
            strides = row_major(shape, f"{path}: source.{field}.shape")
            block = tuple(parsed(f"{field}.block", size) for size in value.block)
            return DescriptorArgument(value.type, shape, strides, block)
        if not isinstance(value, schema.ArrayTable):
            return parsed(field, value)
        values = value.values
        return ArrayArgument(
            size=parsed(f"{field}.size", value.size),
            type=value.type,
            values=None if values is None else parsed(f"{field}.values", values, "index", "random"),
        )

    added = source.shared_bytes
    if added is None and file.launch is not None:
        added = file.launch.dynamic_shared_bytes
    names = {name if of_triton else name.upper(): name for name in file.parameters}
    defines = names | source.defines
    return Build(
        kernel=source.kernel,
        defines=tuple((name, parsed(f"defines.{name}", text)) for name, text in defines.items()),
        block=tuple(parsed("block", text) for text in block),
        grid=tuple(parsed("grid", text) for text in source.grid),
        shared_bytes=None if added is None else parsed("shared_bytes", added),
        arguments=tuple(argument(number, value) for number, value in enumerate(source.arguments, 1)),
        types=tuple(
            f"*{value.type}" if isinstance(value, schema.ArrayTable) else "" for value in source.arguments
        ),
    )
