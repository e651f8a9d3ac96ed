"""Rank and prune Triton kernels for a GPU that need not be present: `import dse.triton`.

    dse.triton.rank(kernel, "h100-sxm", args={"x": "*fp16", "n": n}, grid=grid, configs=configs).rows(10)
    configs = dse.triton.best_first(configs, kernel, "h100-sxm", args={"x": "*fp16", "n": n}, grid=grid)
    prune = dse.triton.prune(lambda: kernel, "h100-sxm")
    @triton.autotune(configs, key=["n"], prune_configs_by={"early_config_prune": prune})
    with dse.triton.record("launches.json"): layer(x)  # then: dse rank launches.json --gpu h100-sxm

Nothing is launched. Configurations are compiled in several processes, so a script needs an
`if __name__ == "__main__"` guard; results are cached on disk.
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

__all__ = ["best_first", "kernel", "prune", "rank", "record"]

AnyGpu = str | Path | GpuFile
prune = CallPruner


def kernel(
    function: Any,
    *,
    args: Mapping[str, Any],
    grid: Any,
    configs: Configs | None = None,
    compiled: int | None = COMPILED,
) -> SourceKernel:
    """Wrap a Triton kernel for the functions of `dse`: `dse.search`, `dse.tune`, `dse.predict`.

    `args` are the launch arguments, see `dse.source.readers.triton_call.of_call`; at most `compiled`
    configurations are compiled (None: all), and the others are estimated from these.

    **Raises:** DseError for a missing or unknown argument.
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
    """Rank the configurations of a kernel, see `kernel`; `.rows(10)` are the ten fastest."""
    counts = kernel(function, args=args, grid=grid, configs=configs, compiled=compiled)
    file = gpus.load(gpu)
    return _rank.rank(counts, file.gpu, (models,), progress=progress, gpu_name=file.name)


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
    """Order configurations for callers that take the first that launches, or cannot try all of them.

    Returns all, fastest predicted first, unlaunchable ones last. Only `compiled` of them are compiled;
    shared memory and registers of the others are estimated. See `kernel`.
    """
    return CallPruner(function, gpu, model, grid=grid, compiled=compiled).best_first(configs, args)
