"""Triton kernels, ranked and pruned for a GPU that need not be there: `import dse.triton`.

    dse.triton.rank(kernel, "h100-sxm", args={"x": "*fp16", "n": n}, grid=grid, configs=configs).rows(10)
    configs = dse.triton.best_first(configs, kernel, "h100-sxm", args={"x": "*fp16", "n": n}, grid=grid)
    prune = dse.triton.prune(lambda: kernel, "h100-sxm")
    @triton.autotune(configs, key=["n"], prune_configs_by={"early_config_prune": prune})
    with dse.triton.record("launches.json"): layer(x)  # then: dse rank launches.json --gpu h100-sxm

Nothing is launched. Configurations are compiled in several processes, so a script does its work under
`if __name__ == "__main__"`; what comes of them is kept on disk.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dse.bridges.triton import COMPILED, CallPruner
from dse.bridges.triton_recorder import record
from dse.core.progress import Progress, silent
from dse.evaluate import rank as _rank
from dse.hardware import gpus
from dse.hardware.gpus import GpuFile
from dse.models import DEFAULT
from dse.models.protocol import Model
from dse.source.kernel import SourceKernel
from dse.source.readers.triton_call import Configs, of_call

__all__ = ["kernel", "prune", "rank", "record"]

AnyGpu = str | Path | GpuFile


def kernel(
    function: Any,
    *,
    args: Mapping[str, Any],
    grid: Any,
    configs: Configs | None = None,
    compiled: int | None = COMPILED,
) -> SourceKernel:
    """Return a kernel as the functions of `dse` take it: `dse.search`, `dse.tune`, `dse.predict`.

    `args` are those of a launch, see `dse.source.readers.triton_call.of_call`; `compiled` is how many
    configurations are compiled where there are more, the others being estimated from them; None: all.

    **Raises:** DseError for what is missing or not the kernel's.
    """
    return SourceKernel(of_call(function, args, grid, configs), compiled)


def rank(
    function: Any,
    gpu: AnyGpu,
    *,
    args: Mapping[str, Any],
    grid: Any,
    configs: Configs | None = None,
    models: str | Model = DEFAULT,
    compiled: int | None = COMPILED,
    progress: Progress = silent,
) -> _rank.Ranking:
    """Rank the configurations of a kernel, see `kernel`; `.rows(10)` has the ten fastest."""
    counts = kernel(function, args=args, grid=grid, configs=configs, compiled=compiled)
    file = gpu if isinstance(gpu, GpuFile) else gpus.load(gpu)
    return _rank.rank(counts, file.gpu, (models,), progress=progress, gpu_name=file.name)


def prune(
    function: Any,
    gpu: AnyGpu,
    model: str | Model = DEFAULT,
    *,
    risk: float = 0.05,
    within: float = 0.05,
    grid: Any = None,
    compiled: int | None = COMPILED,
) -> CallPruner:
    """Make a function for `early_config_prune` of `triton.autotune`; it has one for `perf_model` too.

    `function` is the kernel, decorated or not; or a function that returns it, since it is defined only after
    what decorates it. Of the configurations kept, but for the `risk`, one is `within` so much of the fastest.
    The arguments are those of the launch that tunes, and so is the grid, unless it is said here.
    """
    return CallPruner(function, gpu, model, risk=risk, within=within, grid=grid, compiled=compiled)


def best_first(
    configs: Sequence[Any],
    function: Any,
    gpu: AnyGpu,
    model: str | Model = DEFAULT,
    *,
    args: Mapping[str, Any],
    grid: Any,
    compiled: int | None = COMPILED,
) -> list[Any]:
    """Order configurations for what takes the first that launches, or has no time to try them all.

    All are returned: the fastest predicted first, last those that cannot be launched. Where there are more
    than `compiled`, shared memory and registers of the others are estimated from this many. See `kernel`.
    """
    return CallPruner(function, gpu, model, grid=grid, compiled=compiled).best_first(configs, args)
