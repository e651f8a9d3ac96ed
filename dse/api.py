"""The public functions of `dse`: kernels, GPUs and measured tables are given by name or file.

Each is a thin layer over the subpackages, which take objects. Wherever a name is accepted, so is a kernel,
model or GPU object of your own. Nothing here prints.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from dse import kernels
from dse.core.progress import Progress, silent
from dse.data import measured
from dse.data.tables import Rows, rows_of
from dse.errors import DseError, check_names
from dse.evaluate import compare as _compare
from dse.evaluate import curve
from dse.evaluate import predict as _predict
from dse.evaluate import rank as _rank
from dse.evaluate.predict import Predicted
from dse.hardware import gpus
from dse.hardware.gpus import GpuFile
from dse.kernels.counts import Counts, Number, sizes_of
from dse.models import DEFAULT, MODELS, get, get_all
from dse.models.protocol import Model
from dse.models.protocol import predict as _by_model
from dse.source import readers
from dse.types import Gpu, Kernel, Launch, Prediction

if TYPE_CHECKING:
    from dse.evaluate.simulated import Simulated
    from dse.explore.fit.calibrate import Calibration
    from dse.explore.prune.prune import Pruned
    from dse.explore.search.study import Search
    from dse.explore.sweep.sweep import Sweep
    from dse.explore.tune.loop import Run
    from dse.source.readers import Given

AnyKernel = str | Path | Counts
AnyGpu = str | Path | GpuFile
Models = str | Model | Iterable[str | Model]
Parameters = Mapping[str, Number | Sequence[Number] | np.ndarray]


def gpu(name: AnyGpu) -> GpuFile:
    """Load a GPU by name, or from a GPU file.

    **Returns:** the GPU: `.name` is its full name, `.gpu` its numbers, `.fields` the source of each.
    It is a JAX pytree: `jax.grad` with respect to a GPU returns a GPU that holds the derivatives.
    **Units:** SI, and clock cycles for λ and Λ: `.gpu.clock` in Hz, `.gpu.dram_bandwidth` in B/s.
    **Raises:** DseError for an unknown GPU (with the nearest names) or an invalid value in the file.
    **Source:** `dse gpus show NAME` lists the source of each value.
    """
    if not isinstance(name, str | Path | GpuFile):
        raise DseError(f"gpu: found {name!r}, expected a name, a file or a GPU")
    return gpus.load(name)


def kernel(
    name: AnyKernel, *, source: bool = False, compiled: int | None = None, given: "Given | None" = None
) -> Counts:
    """Load a kernel by name, or from a file: kernel.toml, T1.json, .cu, .ptx, .cubin, .sass.

    With `source`, counts come from the kernel's source instead of its description; at most `compiled`
    configurations are compiled and the others estimated. `given` states how a bare .cu file is launched.

    **Returns:** the kernel: `.space` holds its parameters and constraints, `.problem` its sizes.
    **Units:** warp instructions, passes and 32-byte sectors of one warp.
    **Raises:** DseError for an unknown kernel (with the nearest names) or an invalid file.
    **Source:** docs/kernels.md describes the format of a description, docs/source.md counts from source.
    """
    if isinstance(name, str | Path):
        return readers.kernel(name, given, source=source, compiled=compiled)
    if not isinstance(name, Counts):
        raise DseError(f"kernel: found {name!r}, expected a name, a file or a kernel")
    return name


@overload
def predict(
    kernel: Kernel,
    gpu: GpuFile | Gpu,
    launch: Launch,
    models: str | Model = ...,
    sizes: None = ...,
    progress: Progress = ...,
) -> Prediction: ...


@overload
def predict(
    kernel: AnyKernel,
    gpu: AnyGpu | Sequence[AnyGpu],
    launch: Parameters | None = ...,
    models: str | Model = ...,
    sizes: Mapping[str, Number] | None = ...,
    progress: Progress = ...,
) -> Predicted: ...


def predict(
    kernel: Any,
    gpu: Any,
    launch: Parameters | Launch | None = None,
    models: str | Model = DEFAULT,
    sizes: Mapping[str, Number] | None = None,
    progress: Progress = silent,
) -> Predicted | Prediction:
    """Predict the time of launches of a kernel on one or several GPUs with one model.

    `launch` maps each kernel parameter to a value or a list of values; without it every valid configuration
    is predicted. Objects of `dse.types` are accepted instead of names: a Kernel (the work of one warp), a Gpu
    and a Launch go to the model unchanged. Kernel and GPU may come in either order, since models take the GPU
    first.

    The result is differentiable with respect to the GPU if the model is a closed form:

        launch = {"tile": [16, 32], "rows": 8, "shared": 1, "padding": 1}
        jax.grad(lambda gpu: dse.predict("transpose", gpu, launch).seconds.sum())(dse.gpu("a100"))

    **Returns:** `.seconds`, `.cycles`, `.bottleneck`, `.occupancy`, `.possible`; `.rows()`, `.to_pandas()`.
    For objects, the model's `Prediction`: `.seconds`, `.cycles`, `.terms`.
    **Shapes:** [L] configurations; [GPUs, L] for a list of GPUs; [] if every value is a scalar.
    **Units:** s, and cycles of the GPU's clock. Infinite where a launch cannot run.
    **Raises:** DseError for an unknown name, a missing or unknown parameter, lists of different lengths, or
    the gradient of a simulated model.
    **Source:** the model's paper: `dse.models.get(models).about`.
    """
    if _is_gpu(kernel) or _is_kernel(gpu):
        kernel, gpu = gpu, kernel
    if isinstance(kernel, Kernel) or isinstance(launch, Launch):
        if not (isinstance(kernel, Kernel) and isinstance(launch, Launch)):
            raise DseError("predict: found only one of kernel and launch as an object, expected both")
        return _by_model(get(models), gpu if isinstance(gpu, Gpu) else _gpu(gpu).gpu, kernel, launch)
    if isinstance(gpu, Gpu):
        raise DseError("gpu: found bare numbers with a kernel to be counted, expected dse.gpu(NAME)")
    files = [_gpu(name) for name in gpu] if isinstance(gpu, list | tuple) else _gpu(gpu)
    return _predict.predict(files, _kernel(kernel), launch, models, sizes, progress)


def _is_gpu(value: Any) -> bool:
    if not isinstance(value, str) or kernels.known(value):
        return isinstance(value, GpuFile | Gpu | list | tuple)
    try:
        return bool(gpus.find(value))
    except DseError:
        return False


def _is_kernel(value: Any) -> bool:
    return isinstance(value, Kernel | Counts) or (isinstance(value, str) and kernels.known(value))


def rank(
    kernel: AnyKernel,
    gpu: AnyGpu,
    models: Models = DEFAULT,
    sizes: Mapping[str, Number] | None = None,
    sample: int | None = None,
    measured: str | Path | None = None,
    progress: Progress = silent,
    *,
    cascade: str | None = None,
    refit: bool = False,
    prior: Sequence[str | Path] = (),
    library: str | None = None,
) -> _rank.Ranking:
    """Rank every valid configuration of a kernel on a GPU, fastest first.

    The first model decides the order. `sizes` changes problem sizes, `sample` ranks that many random
    configurations, `measured` is a file of measured times to add as a column.

    `cascade` ranks with one model after another, each on the candidates that the previous one kept: a count,
    or a share with %, as in `phase:5%,pipeline:200,source:20`; `.levels` reports each stage. `refit` orders
    by times refitted to the measured ones, `prior` by recorded times on other GPUs too. `library` names a
    dense product, `fp16:M,N,K`: the column `library_s` holds the predicted time of the vendor's library.

    **Returns:** a ranking: `.best` and `[0]` are the fastest, `.rows(10)` the ten fastest,
    `.rows(10, diverse=True)` one of each group with equal times; `.to_pandas()`, `.write(path)`.
    **Shapes:** one row a configuration; `.order` [L] holds their indices, fastest first.
    **Units:** as in docs/columns.md: `time_s` is in seconds.
    **Raises:** DseError for an unknown name, a space without a valid or launchable configuration, an
    unreadable file, or options that exclude each other.
    **Source:** the models' papers: `dse.models.get(model).about`.
    """
    counts, file, registered = _kernel(kernel), _gpu(gpu), get_all(_models(models))
    path = None if measured is None else Path(measured)
    if cascade is not None and (refit or prior):
        raise DseError(f"cascade: found it with {'refit' if refit else 'prior'}, expected one of the two")
    if (refit or prior) and not registered[0].differentiable:
        raise DseError(f"model: found {registered[0].name} with refit or prior, expected a closed form")
    if refit and path is None:
        raise DseError("refit: found no measured times, expected a file of them")
    if cascade is not None:
        from dse.evaluate import cascade as cascades

        levels = cascades.read(cascade, counts)
        ranking = cascades.cascade(levels, file.gpu, sizes, sample, progress, file.name)
        ranking = _rank.with_measured(ranking, counts, path)
    else:
        ranking = _rank.rank(counts, file.gpu, registered, sizes, sample, path, progress, gpu_name=file.name)
    if refit or prior:
        from dse.explore.tune.refit import refitted, with_prior

        reordered = refitted if refit else with_prior
        ranking = reordered(ranking, counts, file, registered[0], sizes, prior)
    return ranking if library is None else _rank.with_library(ranking, file, library)


def compare(
    kernel: AnyKernel,
    gpu: AnyGpu,
    measured_times: str | Path,
    models: Models = tuple(MODELS),
    sizes: Mapping[str, Number] | None = None,
    sample: int | None = None,
    progress: Progress = silent,
) -> Rows:
    """Score the order and the times that models predict against a file of measured times.

    `sample` uses that many random configurations that ran.

    **Returns:** one row a model, then one for random choice; `.to_pandas()`.
    **Shapes:** one row more than models.
    **Units:** errors in percent; `spearman` -1 to 1; `top_10`, 0 to 1, the share of the best measured
    performance that measuring the first ten candidates reaches.
    **Raises:** DseError for an unknown name, an unreadable file, or a file in which nothing ran.
    **Source:** Spearman 1904; Lemeire et al. for `mape_shape_percent`; docs/measured.md for the files.
    """
    counts, file = _kernel(kernel), _gpu(gpu)
    table = measured.load(measured_times, counts)
    if sample is not None:
        table = table.rows(_compare.sample(table, counts, sample))
    scored = _compare.compare(counts, file.gpu, _models(models), table, sizes, progress)
    return Rows({"kernel": counts.name, "gpu": file.name} | row for row in scored)


def sweep(
    kernels: AnyKernel | Sequence[AnyKernel],
    gpus: AnyGpu | Sequence[AnyGpu],
    models: Models = DEFAULT,
    sizes: Mapping[str, Number | Sequence[Number]] | None = None,
    workers: int | None = None,
    cluster: str | None = None,
    progress: Progress = silent,
) -> "Sweep":
    """Sweep the whole spaces of kernels, at each problem size, on each GPU with each model.

    Evaluation is lazy, on the first query: `.top(k, per=["gpu", "size"])`, `.pareto("time_s",
    "registers")`, `.histogram()`, `.counts()`, `.to_parquet(path)`, `.to_pandas()`, `.to_xarray()`. `workers`
    (local processes) or `cluster` (a scheduler's address) distribute the work with Dask.

    **Returns:** the sweep.
    **Shapes:** one row a kernel, size, GPU, model and configuration.
    **Units:** `time_s` in seconds; docs/columns.md.
    **Raises:** DseError for an unknown name or size.
    **Source:** the models' papers: `dse.models.get(model).about`.
    """
    from dse.explore.sweep.product import SweepProduct
    from dse.explore.sweep.sweep import Sweep

    product = SweepProduct.of(_sized(kernels, sizes), list(map(_gpu, _list(gpus))), get_all(_models(models)))
    return Sweep(product, None, workers, cluster, progress)


def search(
    kernels: AnyKernel | Sequence[AnyKernel],
    gpu: AnyGpu,
    trials: int = 200,
    models: str | Model = DEFAULT,
    objectives: str = "time",
    sampler: str = "tpe",
    storage: str | None = None,
    seed: int | None = None,
    *,
    sizes: Mapping[str, Number] | None = None,
    enqueue: Iterable[Mapping[str, Any]] = (),
    progress: Progress = silent,
) -> "Search":
    """Search spaces that are too large to rank with Optuna, of one kernel or of variants of the same work.

    `objectives` is `time`, or `time,registers,shared` to minimize several; `storage` a database to resume;
    `enqueue` are configurations to try first.

    **Returns:** the search: `.best` is the fastest, `.rows()` the fastest of each kernel, `.front()` the
    Pareto front; `.to_pandas()`.
    **Shapes:** one row a kernel.
    **Units:** as in docs/columns.md.
    **Raises:** DseError for an unknown name, kernels of different work, or an unusable storage.
    **Source:** Optuna's samplers; `dse search --help` names them.
    """
    from dse.explore.search import study

    variants, file, goals = study.variants(_sized(kernels, sizes)), _gpu(gpu), study.objectives(objectives)
    started = study.start(variants, file.name, models, goals, sampler, storage, seed, trials)
    study.enqueue(started, enqueue, "enqueue")
    with progress("Searching", trials) as advance:
        study.run(started, file.gpu, models, trials, advance)
    return started


def tune(
    kernel: AnyKernel,
    gpu: AnyGpu,
    measure: Callable[[Mapping[str, Any]], float | None],
    budget: int = 20,
    models: str | Model = DEFAULT,
    sizes: Mapping[str, Number] | None = None,
    journal: str | Path | None = None,
    seed: int = 0,
    prior: Iterable[str | Path] = (),
    *,
    batch: int = 1,
    parallel: int = 1,
    repeats: int = 1,
    pays: float = 0.0,
    limit_s: float = math.inf,
    progress: Progress = silent,
) -> "Run":
    """Find the fastest configuration with few measurements.

    `measure` takes a configuration and returns its seconds, or None if it failed. Each measurement corrects
    the predictions; the next is where the expected improvement is largest. `journal` records each at once, so
    that the same call resumes after an interruption. `prior` are files of the kernel's times on other GPUs.
    `batch` configurations are chosen at a time, `parallel` threads measure, near-optimal ones `repeats`
    times. It ends after `limit_s` seconds of measuring, or if no other is expected to be faster by `pays`.

    **Returns:** the run: `.best` is the fastest, `.rows()` all measurements in order; `.to_pandas()`.
    **Shapes:** one row a measurement, at most `budget`.
    **Units:** `measured_s` and `fastest_s` in seconds.
    **Raises:** DseError for an unknown name, or a journal that is unreadable or of another space.
    **Source:** docs/tuning.md describes how the next configuration is chosen.
    """
    from dse.explore.tune import loop
    from dse.explore.tune.candidates import of_kernel
    from dse.explore.tune.others import with_others
    from dse.explore.tune.tuner import Tuner

    counts, file = _kernel(kernel), _gpu(gpu)
    candidates = of_kernel(counts, file, models, _rank.configurations(counts, sizes), sizes)
    candidates = with_others(candidates, counts, prior)
    path, tuner = None if journal is None else Path(journal), Tuner(candidates, seed)
    ways: dict[str, Any] = {"limit_s": limit_s, "parallel": parallel, "repeats": repeats}
    ways["about"] = {"kernel": counts.name, "gpu": file.name, **dict(counts.problem), **(sizes or {})}
    with progress(f"Tuning {counts.name}", budget) as advance:
        return loop.run(tuner, measure, budget, batch, path, pays, advance, **ways)


def prune(
    kernel: AnyKernel,
    gpu: AnyGpu,
    risk: float = 0.05,
    within: float = 0.05,
    models: str | Model = DEFAULT,
    sizes: Mapping[str, Number] | None = None,
    prior: Iterable[str | Path] = (),
    measured: str | Path | None = None,
    progress: Progress = silent,
) -> "Pruned":
    """Keep the configurations worth measuring.

    With probability 1 - `risk` one of them is near-optimal: slower than the fastest by at most the share
    `within`. `prior` are files of the kernel's times on other GPUs, `measured` is one of some on this GPU.

    **Returns:** a column for each parameter, the most promising configuration first; `.rows()`,
    `.to_pandas()`, `.write(path)`; `.kept.share` of the space, and `.kept.reason` if it is large.
    **Shapes:** [kept] each.
    **Units:** of the kernel's parameters.
    **Raises:** DseError for an unknown name, or a share outside 0 to 1.
    **Source:** docs/tuning.md describes how the risk is calibrated; Vovk, Gammerman, Shafer 2005.
    """
    from dse.explore.prune import prune as pruning

    return pruning.prune(_kernel(kernel), _gpu(gpu), models, sizes, risk, within, prior, measured, progress)


def fit(
    measured_times: Mapping[str, str | Path],
    gpu: AnyGpu | Sequence[AnyGpu],
    models: str | Model = DEFAULT,
    free: Sequence[str] | None = None,
    seed: int = 0,
    *,
    sizes: Mapping[str, Number] | None = None,
    shared: Sequence[str] = (),
    method: str = "lm",
    starts: int = 4,
    sample: int | None = None,
    progress: Progress = silent,
) -> "Calibration":
    """Fit a GPU's λ (throughput), Λ (latency) and clock to measured times.

    `measured_times` maps kernel names to files, all of one `gpu` or one for each; `free` lists fields to fit,
    as `cpi.shared` (default: all), `shared` those with one common correction on all GPUs. `method` is `lm`
    or `bfgs`, from `starts` points, to at most `sample` random configurations of a file.

    **Returns:** the fit: `.fields()` lists the values with their spreads, `.errors()` the errors on held-out
    data, `.write(path)` writes the GPU file, or a folder of several; `.to_pandas()`.
    **Shapes:** one row a field.
    **Units:** of the GPU file, in the column `unit`; spreads in percent.
    **Raises:** DseError for an unknown name or field, or a file that is unreadable or in which nothing ran.
    **Source:** docs/tuning.md describes the fit.
    """
    from dse.explore.fit.calibrate import MeasuredSpace, calibrate

    cards = [_gpu(card) for card in _list(gpu)]
    if len(cards) not in (1, len(measured_times)):
        raise DseError(f"gpu: found {len(cards)}, expected one, or {len(measured_times)}, one for each file")
    files = {card.name: card for card in cards}
    names = [card.name for card in cards] * (len(measured_times) // len(cards))
    spaces = [
        MeasuredSpace(*kernel_and_sizes, Path(path), list(files).index(name))
        for kernel_and_sizes, path, name in zip(
            _sized(list(measured_times), sizes), measured_times.values(), names, strict=True
        )
    ]
    return calibrate(
        spaces, list(files.values()), models, free, shared, method, starts, sample, seed, progress
    )


def characterise(
    kernel: str | Path,
    gpu: AnyGpu,
    parameters: Mapping[str, Number] | None = None,
    every: bool = False,
    sample: int | None = None,
    given: "Given | None" = None,
) -> Rows:
    """Count the work in a kernel's source, without a GPU, for the first valid configuration or `every` one.

    `parameters` fixes parameters and sizes; `sample` limits `every` to that many random configurations;
    `given` states how a bare .cu file is launched.

    **Returns:** one row a count, beside the description's value if there is one; with `every`, one row a
    configuration.
    **Shapes:** one row a count or a configuration.
    **Units:** instructions, sectors and passes of the average warp.
    **Raises:** DseError for an unknown name, or a source that cannot be compiled or executed.
    **Source:** docs/source.md describes the counting.
    """
    from dse.source.explain import counts

    description, sizes = readers.load(kernel, given).with_changed(parameters or {}, "parameters")
    if every:
        columns, _ = counts.of_space(description, sizes, _gpu(gpu), sample)
        return Rows(rows_of(columns))
    configuration = counts.first_valid(description, sizes)
    return Rows(counts.of_configuration(description, configuration, sizes, _gpu(gpu))[0])


def simulate(
    kernel: AnyKernel,
    gpu: AnyGpu | None = None,
    parameters: Mapping[str, Number] | None = None,
    sizes: Mapping[str, Number] | None = None,
    scheduler: str | None = None,
    order: str | None = None,
    groups: int | None = None,
    warps: int | None = None,
    what_if: Sequence[str] = (),
    teg: bool = False,
) -> "Simulated":
    """Simulate one configuration entry by entry, with its critical path; by default the fastest predicted.

    `kernel` may be the file of a graph or an instruction trace, which need no GPU. `teg` simulates a kernel
    as TEG does, on a GT200. `what_if` lists changes to simulate too: `conflicts=off`, `dram.Lambda=0.5x`
    (`dse simulate --help` lists all).

    **Returns:** the simulation: `.makespan`, `.ipc`, `.bottleneck`, `.what_if`, `.profile()`, and a row for
    each subsystem; `.simulation` holds the arrays.
    **Shapes:** one row a subsystem; scalars elsewhere.
    **Units:** cycles of the GPU's clock; `busy` and the other shares are of the makespan, 0 to 1.
    **Raises:** DseError for an unknown name, setting or change, or an unreadable file.
    **Source:** the Pipeline model of Lemeire et al.; docs/simulator.md. TEG: Lai & Seznec; docs/teg.md.
    """
    from dse.evaluate import simulated
    from dse.simulator.case import trace_text

    options = {"warps": warps, "scheduler": scheduler, "order": order, "groups": groups}
    settings = {name: value for name, value in options.items() if value is not None}
    path = Path(kernel) if isinstance(kernel, str | Path) else Path()
    kind = simulated.kind(path)
    if kind == "trace":
        return simulated.of_trace(trace_text.load(path), settings, what_if)
    if kind == "graph":
        if gpu is not None or teg:
            raise DseError(f"{kernel}: found {'TEG' if teg else 'a GPU'} with a graph, expected neither")
        return simulated.of_graph(path, settings, what_if)
    counts = _kernel(kernel)
    problem = sizes_of(counts, sizes)
    if teg:
        trace = simulated.trace_of(counts, _gpu("gtx-280" if gpu is None else gpu), problem)
        return simulated.of_trace(trace, settings, what_if)
    if gpu is None:
        if graph := simulated.companion(counts, "graph"):
            return simulated.of_graph(graph, settings, what_if)
        raise DseError("gpu: found none, expected a GPU of `dse gpus` or a GPU file")
    file = _gpu(gpu)
    configuration = dict(parameters) if parameters else curve.fastest(counts, file.gpu, problem)
    return simulated.of_kernel(counts, file, configuration, problem, settings, what_if)


_kernel, _gpu = kernel, gpu  # function parameters shadow these names


def _models(models: Models) -> tuple[str | Model, ...]:
    return (models,) if isinstance(models, str) or not isinstance(models, Iterable) else tuple(models)


def _sized(kernels: Any, sizes: Mapping[str, Any] | None) -> list[tuple[Counts, dict[str, Any]]]:
    """Each kernel with its problem sizes. **Raises:** DseError for a size that no kernel has."""
    counts = list(map(_kernel, _list(kernels)))
    sizes, known = sizes or {}, {name for kernel in counts for name, _ in kernel.problem}
    check_names("sizes", known, *sizes)
    return [(kernel, {name: sizes.get(name, size) for name, size in kernel.problem}) for kernel in counts]


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
