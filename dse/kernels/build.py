"""Compilation and launch of a description's source: its [source] table, with expressions parsed."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from dse.core.space.expression import Expression, parse
from dse.errors import DseError
from dse.kernels import schema
from dse.kernels.description import ArrayArgument, Build, DescriptorArgument

TRITON = ".py"  # suffix of sources that need no description of their launch: Triton decides on it


def read_build(path: Path, file: schema.KernelFile, allowed: Collection[str]) -> Build | None:
    """Read how the source is compiled and launched, if the file says so."""
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
    for name, given in (("block", block), ("grid", source.grid)):
        if not given:
            raise DseError(f"{path}: source.{name}: found nothing, expected one to three sizes")

    def parsed(field: str, text: Any, *more: str) -> Expression:
        return parse(text, f"{path}: source.{field}", {*allowed, *more})

    def argument(place: int, given: Any) -> Expression | ArrayArgument | DescriptorArgument:
        field = f"arguments.{place}"
        if isinstance(given, schema.DescriptorTable):
            if len(given.shape) != len(given.block):
                raise DseError(
                    f"{path}: source.{field}: found {len(given.block)} sizes in block,"
                    f" expected {len(given.shape)}, as in shape"
                )
            shape = [parsed(f"{field}.shape", size) for size in given.shape]
            inner = [
                " * ".join(f"({size.text})" for size in shape[axis + 1 :]) or 1 for axis in range(len(shape))
            ]
            return DescriptorArgument(
                type=given.type,
                shape=tuple(shape),
                strides=tuple(parsed(f"{field}.shape", text) for text in inner),
                block=tuple(parsed(f"{field}.block", size) for size in given.block),
            )
        if not isinstance(given, schema.ArrayTable):
            return parsed(field, given)
        values = given.values
        return ArrayArgument(
            size=parsed(f"{field}.size", given.size),
            type=given.type,
            values=None if values is None else parsed(f"{field}.values", values, "index", "random"),
        )

    names = {name if of_triton else name.upper(): name for name in file.parameters}
    defines = names | source.defines
    return Build(
        kernel=source.kernel,
        defines=tuple((name, parsed(f"defines.{name}", text)) for name, text in defines.items()),
        block=tuple(parsed("block", text) for text in block),
        grid=tuple(parsed("grid", text) for text in source.grid),
        arguments=tuple(argument(place, given) for place, given in enumerate(source.arguments, 1)),
        types=tuple(
            f"*{given.type}" if isinstance(given, schema.ArrayTable) else "" for given in source.arguments
        ),
    )
