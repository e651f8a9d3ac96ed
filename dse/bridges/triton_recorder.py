"""Launches of Triton kernels, recorded instead of launched: shapes and types, without a GPU."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np

from dse.core.files import replacing
from dse.core.space.space import holds
from dse.source.nvidia.compile.absent import no_driver
from dse.source.nvidia.compile.module_slice import dotted
from dse.source.nvidia.compile.triton import ALIGNED, NONE, OPTIONS, canonical
from dse.source.nvidia.compile.triton_function import Function, triton, unwrapped
from dse.source.readers.recorded import (
    MOST_CONTENTS_BYTES,
    RecordedContents,
    RecordedFile,
    RecordedLaunch,
    RecordedRow,
    Tile,
)
from dse.source.readers.triton_call import contents_of, grid_axis
from dse.source.readers.triton_kernel import as_text, pruned, settings


@contextmanager
def record(path: str | Path, launch: bool | None = None) -> Iterator[list[RecordedLaunch]]:
    """Record the launches of Triton kernels of any package in this context, and write them to a file.

    `dse rank FILE:KERNEL` reads it. With `launch` false nothing is launched and outputs stay unchanged, so
    that tensors may be on the CPU, or have no memory (`device="meta"`); this is the default if Triton finds
    no GPU. Launches that differ only in addresses and fractions are recorded once.

    **Raises:** DseError if Triton is missing. Kernels that are not functions of a file are ignored.
    """
    runtime = triton().runtime
    if launch is None:
        launch = _has_driver(runtime)
    launches_by_key: dict[str, RecordedLaunch] = {}
    inside = threading.local()
    kinds = (runtime.jit.JITFunction, runtime.autotuner.Autotuner, runtime.autotuner.Heuristics)

    def recorder(run: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(kernel: Any, *args: Any, grid: Any, warmup: bool = False, **named: Any) -> Any:
            outermost = not getattr(inside, "launch", False)
            inside.launch = True
            try:
                if outermost and not warmup and (call := _launch(unwrapped(kernel), args, named, grid)):
                    key = call.model_dump_json()
                    launches_by_key.setdefault(key, call.model_copy(update={"times": 0})).times += 1
                return run(kernel, *args, grid=grid, warmup=warmup, **named) if launch else _tuned(kernel)
            finally:
                inside.launch = not outermost

        return recorded

    originals = [(kind, kind.run) for kind in kinds]
    for kind, run in originals:
        kind.run = recorder(run)
    launches: list[RecordedLaunch] = []
    try:
        if launch:
            yield launches
        else:
            with no_driver(runtime):
                yield launches
    finally:
        for kind, run in originals:
            kind.run = run
        launches += launches_by_key.values()
        with replacing(path) as target:
            target.write_text(
                RecordedFile(launches=launches).model_dump_json(indent=1, exclude_defaults=True)
            )


def _has_driver(runtime: Any) -> bool:
    try:
        return runtime.driver.active is not None
    except RuntimeError:
        return False


def _tuned(kernel: Any) -> None:
    """Let its autotuner have chosen the first configuration: packages read the choice after a launch."""
    while hasattr(kernel, "fn"):
        if configs := getattr(kernel, "configs", None):
            kernel.best_config = configs[0]
        kernel = kernel.fn


def _launch(
    function: Function, args: tuple[Any, ...], named: Mapping[str, Any], grid: Any
) -> RecordedLaunch | None:
    """Describe a launch by its arguments, as `of_call` takes them; None if its grid has no blocks."""
    passed = dict(zip(function.jit.arg_names, args, strict=False)) | dict(named)
    names = [argument.name for argument in function.arguments]
    defaults = {argument.name: argument.default for argument in function.arguments}
    arguments = {name: passed.get(name, defaults[name]) for name in names}
    constants = {name: value for name, value in passed.items() if name in (*function.constexprs, *OPTIONS)}
    tuned = [settings(config) for config in pruned(function, arguments | constants)] or [{}]
    rows = []
    for config in tuned:
        values = config | constants
        values = {name: values[name] for name in values if not (values[name] is None and name in OPTIONS)}
        for name, rule in function.heuristics.items():
            values[name] = rule(arguments | values)
        meta = arguments | function.constexprs | values
        sizes = grid(meta) if callable(grid) else grid
        blocks = [grid_axis(sizes, axis) for axis in range(3)]
        if min(blocks) < 1:
            return None
        rows.append(
            RecordedRow(constants={name: as_text(value) for name, value in values.items()}, grid=blocks)
        )
    file, module = function.path.resolve(), dotted(function.path.resolve())
    return RecordedLaunch(
        kernel=function.name,
        file=str(file),
        module=str(Path(*file.parts[-1 - module.count(".") :])),
        arguments={name: _argument(value) for name, value in arguments.items()},
        rows=rows,
    )


def _argument(value: Any) -> Any:
    if value is None:
        return NONE
    if not hasattr(value, "dtype") and not hasattr(value, "block_shape"):
        number = value if isinstance(value, bool | int | float) else int(value)  # a symbolic size too
        return number if holds(number) else "fp32" if isinstance(number, float) else "u64"
    if hasattr(value, "block_shape"):
        sizes = {"shape": value.shape, "strides": value.strides, "block": value.block_shape}
        integers = {name: [int(size) for size in axes] for name, axes in sizes.items()}
        return Tile(type=canonical(str(value.base.dtype)), **integers)
    contents = None
    with suppress(Exception):  # of any type: the tensor has no memory
        contents = contents_of(value)
    if contents is not None and contents.nbytes <= MOST_CONTENTS_BYTES:
        return RecordedContents.of(np.asarray(contents))
    with suppress(Exception):
        if (aligned := gcd(value.data_ptr(), ALIGNED)) < ALIGNED:
            return f"*{canonical(str(value.dtype))}:{aligned}"
    return f"*{canonical(str(value.dtype))}"
