"""The functions that `import dse` offers, by names or files of kernels, GPUs and measured tables.

Each is a few lines over the rooms, which take objects. A kernel, a model or a GPU of your own goes in
wherever a name does. Nothing here prints.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dse import gpus, measured, sources
from dse.counts import Counts, Number, sizes_of
from dse.evaluate import compare as _compare
from dse.evaluate import curve
from dse.evaluate import rank as _rank
from dse.evaluate import table as _table
from dse.evaluate.chunks import Evaluation, evaluate
from dse.gpus import GpuFile
from dse.models import CLOSED_FORMS, DEFAULT, MODELS
from dse.models.protocol import Model
from dse.progress import Progress, silent
from dse.simulator.simulation import Simulation
from dse.types import Gpu

if TYPE_CHECKING:
    from dse.fitting.calibrate import Calibration
    from dse.searching.study import Search
    from dse.sources import Given
    from dse.tuning.loop import Run

AnyKernel = str | Path | Counts
AnyGpu = str | Path | GpuFile
Models = str | Model | Iterable[str | Model]


def gpu(name: AnyGpu) -> GpuFile:
    """Load a GPU by name or file; `.gpu` has its numbers in SI units. **Raises:** DseError."""
    return name if isinstance(name, GpuFile) else gpus.load(name)


def kernel(
    name: AnyKernel, *, source: bool = False, compiled: int | None = None, given: "Given | None" = None
) -> Counts:
    """Load a kernel by name or file: kernel.toml, T1.json, .cu, .ptx, .cubin, .sass.

    `source` counts what its source does and not what its description says, `compiled` configurations of it
    being compiled and the others estimated; `given` says how a bare .cu file is launched.

    **Raises:** DseError.
    """
    if isinstance(name, str | Path):
        return sources.kernel(name, given, source=source, compiled=compiled)
    return name


def predict(
    kernel: AnyKernel,
    gpus: AnyGpu | Sequence[AnyGpu],
    models: Models = DEFAULT,
    parameters: Mapping[str, Sequence[Number] | np.ndarray] | None = None,
    sizes: Mapping[str, Number] | None = None,
    progress: Progress = silent,
) -> Evaluation:
    """Predict configurations of a kernel: those of `parameters`, or every valid one.

    **Shapes:** parameters [L] each; results [G, L].
    """
    counts, files = _kernel(kernel), _gpus(gpus)
    columns = {name: np.asarray(values) for name, values in (parameters or {}).items()}
    columns = columns or _rank.configurations(counts, sizes)
    return evaluate(counts, _models(models), _stack(files), columns, sizes, progress)


def rank(
    kernel: AnyKernel,
    gpu: AnyGpu,
    models: Models = DEFAULT,
    sizes: Mapping[str, Number] | None = None,
    sample: int | None = None,
    measured: str | Path | None = None,
    progress: Progress = silent,
) -> _rank.Ranking:
    """Rank every valid configuration by the first model; `.rows(10)` has the ten fastest."""
    path = None if measured is None else Path(measured)
    file = _gpu(gpu)
    return _rank.rank(
        _kernel(kernel), file.gpu, _models(models), sizes, sample, path, progress, gpu_name=file.name
    )


def compare(
    kernel: AnyKernel,
    gpu: AnyGpu,
    measured_times: str | Path,
    models: Models = tuple(MODELS),
    sizes: Mapping[str, Number] | None = None,
    progress: Progress = silent,
) -> list[dict[str, Any]]:
    """Score models on a file of measured times, one row each, and random choice."""
    counts = _kernel(kernel)
    table = measured.load(measured_times, counts)
    return list(_compare.compare(counts, _gpu(gpu).gpu, _models(models), table, sizes, progress))


def sweep(
    kernels: AnyKernel | Sequence[AnyKernel],
    gpus: AnyGpu | Sequence[AnyGpu],
    out: str | Path,
    models: Models = CLOSED_FORMS,
    progress: Progress = silent,
) -> int:
    """Predict whole spaces on several GPUs into one Parquet file; return the number of its rows.

    Interrupted, it goes on where it stopped when it is called again.
    """
    counts = tuple(_kernel(given) for given in _list(kernels))
    problems = tuple(sizes_of(kernel) for kernel in counts)
    job = _table.SweepJob(counts, problems, tuple(_gpus(gpus)), _models(models))
    return _table.sweep(job, Path(out), progress)


def search(
    kernels: Sequence[AnyKernel],
    gpu: AnyGpu,
    trials: int = 200,
    model: str | Model = DEFAULT,
    objectives: str = "time",
    sampler: str = "tpe",
    storage: str | None = None,
    seed: int | None = None,
) -> "Search":
    """Search variants of a kernel with Optuna; `.best()` ranks them by the best that each reaches."""
    from dse.searching import study

    variants = study.variants((variant, sizes_of(variant)) for variant in map(_kernel, kernels))
    file = _gpu(gpu)
    started = study.start(variants, file.name, model, study.objectives(objectives), sampler, storage, seed)
    study.run(started, file.gpu, model, trials)
    return started


def tune(
    kernel: AnyKernel,
    gpu: AnyGpu,
    measure: Callable[[Mapping[str, Any]], float | None],
    budget: int = 20,
    model: str | Model = DEFAULT,
    sizes: Mapping[str, Number] | None = None,
    journal: str | Path | None = None,
    seed: int = 0,
) -> "Run":
    """Find the fastest configuration with few measurements: `measure` gets one and gives its seconds.

    It gives None for one that failed. `.rows()` of the result has every measurement.
    """
    from dse.tuning import loop
    from dse.tuning.candidates import of_kernel
    from dse.tuning.tuner import Tuner

    counts = _kernel(kernel)
    candidates = of_kernel(counts, _gpu(gpu), model, _rank.configurations(counts, sizes), sizes)
    path = None if journal is None else Path(journal)
    return loop.run(Tuner(candidates, seed), measure, budget, journal=path)


def prune(
    kernel: AnyKernel,
    gpu: AnyGpu,
    risk: float = 0.05,
    within: float = 0.05,
    model: str | Model = DEFAULT,
    sizes: Mapping[str, Number] | None = None,
) -> dict[str, np.ndarray]:
    """Keep the configurations among which, but for the risk, one is nearly the fastest: columns [kept].

    The most promising comes first.
    """
    from dse.pruning.keep import keep
    from dse.tuning.candidates import of_kernel

    counts = _kernel(kernel)
    candidates = of_kernel(counts, _gpu(gpu), model, _rank.configurations(counts, sizes), sizes)
    kept = keep(candidates, risk, within).places
    return {name: values[kept] for name, values in candidates.parameters.items()}


def fit(
    measured_times: Mapping[str, str | Path],
    gpu: AnyGpu,
    model: str | Model = DEFAULT,
    free: Sequence[str] | None = None,
    seed: int = 0,
) -> "Calibration":
    """Fit a GPU's λ, Λ and clock to measured times, a file for each kernel by its name.

    `.fields()` has the values with their spread, `.errors()` what they are worth.
    """
    from dse.fitting.calibrate import MeasuredSpace, calibrate

    counts = {name: _kernel(name) for name in measured_times}
    spaces = [
        MeasuredSpace(kernel, sizes_of(kernel), Path(measured_times[name]), 0)
        for name, kernel in counts.items()
    ]
    return calibrate(spaces, [_gpu(gpu)], model, free, seed=seed)


def simulate(
    kernel: AnyKernel,
    gpu: AnyGpu,
    parameters: Mapping[str, Number] | None = None,
    sizes: Mapping[str, Number] | None = None,
    scheduler: str = "rr",
    order: str = "program",
    groups: int | None = None,
) -> Simulation:
    """Simulate one configuration entry by entry, with its critical path; by default the fastest predicted."""
    from dse.simulator import pipeline
    from dse.simulator.on_host import average_warp
    from dse.simulator.simulation import simulate as simulate_cases

    counts, numbers = _kernel(kernel), _gpu(gpu).gpu
    problem = sizes_of(counts, sizes)
    chosen = dict(parameters) if parameters else curve.fastest(counts, numbers, problem)
    warp_counts, launch = curve.laid_out(counts, numbers, chosen, problem)
    settings = pipeline.Settings(scheduler, order, groups)
    case, _ = pipeline.one(average_warp(numbers, warp_counts), launch, settings)
    return simulate_cases([case], critical=True)


_kernel, _gpu = kernel, gpu  # parameters above have these names


def _models(models: Models) -> tuple[str | Model, ...]:
    return (models,) if isinstance(models, str) or not isinstance(models, Iterable) else tuple(models)


def _gpus(given: AnyGpu | Sequence[AnyGpu]) -> list[GpuFile]:
    return [_gpu(one) for one in _list(given)]


def _list(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given]


def _stack(files: Sequence[GpuFile]) -> Gpu:
    return gpus.stack([file.gpu for file in files])
