"""Folders of Triton's cache: every compiled kernel is a configuration; the caller states the launch."""

from pathlib import Path

from dse.core.space.expression import parse
from dse.core.space.listed import AllowedRows
from dse.core.space.space import Space
from dse.errors import DseError
from dse.kernels.description import GPU_NAMES, Build, Description
from dse.source.nvidia.compile.triton_cache import BINARY, arguments_of, read_source
from dse.source.readers.given import Given, refuse
from dse.source.readers.triton_arguments import placed, sized, stated


def load(path: Path, given: Given) -> Description:
    """Read the compiled code of a kernel, numbered by `binary` in order of paths.

    **Raises:** DseError if there is none, or several kernels and none is named; if the grid is missing.
    """
    unwanted = ("block", "folders", "shared_bytes", "tuned", "signature", "defines")
    refuse(given, unwanted, f"{path}: Triton's .json says it")
    source = read_source(path, given.function)
    if not given.grid:
        raise DseError(f"given.grid: found none for {path}, expected X[,Y[,Z]]")
    types = arguments_of(source.entries)
    texts = placed(given.arguments, list(types))
    sizes = sized(types, texts, given.sizes)
    options = dict.fromkeys(name for entry in source.entries for name in entry.options)
    rows = [
        (number, *(entry.options.get(name, 0) for name in options))
        for number, entry in enumerate(source.entries, 1)
    ]
    columns = dict(zip((BINARY, *options), zip(*rows, strict=True), strict=True))
    allowed = {*columns, *sizes, *GPU_NAMES}
    return Description(
        name=source.kernel,
        path=path,
        source=path,
        variant_of=source.kernel,
        space=Space(
            {name: sorted(set(values)) for name, values in columns.items()},
            (AllowedRows(tuple(columns), tuple(rows)),),
        ),
        problem=tuple(sizes.items()),
        build=Build(
            kernel=source.kernel,
            defines=tuple((name, parse(name, "given", columns)) for name in columns),
            block=(parse("32 * num_warps", "given", columns),),
            grid=tuple(parse(size, "given.grid", allowed) for size in given.grid),
            arguments=tuple(stated(name, kind, texts, sizes, allowed)[1] for name, kind in types.items()),
        ),
    )
