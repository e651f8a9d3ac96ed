"""Rank the configurations of one kernel on one GPU, fastest first."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any

import jax
import numpy as np

from dse.core.precision import in_64_bits
from dse.core.progress import Progress, silent
from dse.core.space import parse
from dse.data.columns import of_model
from dse.data.tables import ConfigurationResult, rows_of
from dse.errors import DseError
from dse.evaluate import ties
from dse.evaluate.chunks import Evaluation, evaluate_counted
from dse.hardware import occupancy
from dse.hardware.gpus import GpuFile, column, stack
from dse.hardware.tensor import LACKS
from dse.kernels.counts import Batch, Counts, KnownBatch, Number, sizes_of
from dse.kernels.phases import phase_of
from dse.models import get_all
from dse.models.phase import busy
from dse.models.protocol import Model
from dse.types import Gpu, Resources


@dataclass(frozen=True, repr=False)
class Ranking(ConfigurationResult):
    """Configurations with the models' predictions; `order` has the fastest first."""

    labels: dict[str, Any]  # the same in all rows: kernel, gpu, model, problem sizes
    parameters: dict[str, np.ndarray]
    evaluation: Evaluation  # of one GPU
    order: np.ndarray
    measured_s: np.ndarray | None  # NaN if not measured
    failures: dict[int, str] = field(default_factory=dict)  # reasons, by configuration not counted
    compiled: int | None = None  # number of compiled configurations, if counts come from source
    left_out_error: np.ndarray | None = None  # leave-one-out error of the times of compiled configurations
    runs: np.ndarray | None = None  # probability to compile and launch, if estimated
    further: dict[str, np.ndarray] = field(default_factory=dict)  # additional columns
    levels: tuple[dict[str, Any], ...] = ()  # of a cascade, a row each
    counted: tuple[Gpu, Batch] | None = None  # inputs of the models

    @property
    def speed_of_light(self) -> dict[str, float]:
        """Utilization of each pipe in the predicted time of the first row, largest first."""
        if self.counted is None:
            return {}
        gpu, batch = self.counted
        first = self.order[:1]
        cycles = next(iter(self.evaluation.forecasts.values())).cycles[0, first]
        return speed_of_light(gpu, batch.take(first), cycles.item())

    @property
    def count(self) -> int:
        """Number of configurations."""
        return len(self.order)

    def __len__(self) -> int:
        return self.count

    @property
    def best(self) -> dict[str, Any]:
        """The first row."""
        return self[0]

    @property
    def impossible(self) -> int:
        """Number of configurations that cannot be launched."""
        return int(np.sum(~self.evaluation.possible))

    @property
    def units(self) -> dict[str, str]:
        """Units of columns missing in `dse.data.columns`: times by further models."""
        return dict.fromkeys(map(of_model, list(self.evaluation.forecasts)[1:]), "s")

    @property
    def hidden(self) -> tuple[str, ...]:
        """Columns omitted in displayed tables."""
        same = [name for name, values in self.parameters.items() if not np.any(values != values[0])]
        return (*self.labels, *same, "warps_per_sm", "possible", "cycles", "library_s")

    @property
    def tied(self) -> int:
        """Number of configurations tied with the fastest, within the resolution of any model."""
        return ties.tied(self._possible_s)

    @property
    def _possible_s(self) -> np.ndarray:
        """Expected seconds (predicted over the probability to run) of launchable ones, ascending."""
        first = next(iter(self.evaluation.forecasts.values()))
        return _expected(first.seconds[0], self.runs)[self.order[: self.count - self.impossible]]

    def rows(self, top: int | None = None, diverse: bool = False) -> list[dict[str, Any]]:
        """Return the first `top` rows, with the columns of `dse.data.columns`.

        With `diverse`, only one of each group of equal predictions, as different as possible.
        """
        e = self.evaluation
        ranks = np.arange(self.count)[:top]
        if diverse:
            possible = self.order[: self.count - self.impossible]
            columns = {name: values[possible] for name, values in self.parameters.items()}
            ranks = ties.diverse(self._possible_s, columns, top or self.count)
        indices = self.order[ranks]
        first, *others = e.forecasts
        predicted = e.columns(first, 0, indices)
        words = zip(indices.tolist(), predicted["limited_by"], strict=True)
        predicted["limited_by"] = np.array([self.failures.get(i, word) for i, word in words], object)
        if self.runs is not None:
            last = {name: predicted.pop(name) for name in ("cycles", "time_s", "bottleneck")}
            predicted |= {"chance_runs": self.runs[indices]} | last
        columns = {name: values[indices] for name, values in self.parameters.items()} | predicted
        columns |= {of_model(name): e.forecasts[name].seconds[0, indices] for name in others}
        if self.measured_s is not None:
            columns["measured_s"] = self.measured_s[indices]
        columns |= {name: values[indices] for name, values in self.further.items()}
        return [
            {"rank": rank, **self.labels} | row
            for rank, row in zip((ranks + 1).tolist(), rows_of(columns), strict=True)
        ]


def rank(
    kernel: Counts,
    gpu: Gpu,
    models: Iterable[str | Model],
    problem: Mapping[str, Number] | None = None,
    sample: int | None = None,
    measured: Path | None = None,
    progress: Progress = silent,
    gpu_name: str = "",
) -> Ranking:
    """Order all valid configurations by the first of `models`; equal times keep the space's order.

    Times are divided by the probability to run, if that is estimated. `sample` limits the ranking to that
    many random configurations.

    **Raises:** DseError if no configuration is valid or launchable, or `measured` cannot be read; and as the
    kernel's `count`.
    """
    parameters = configurations(kernel, problem, sample)
    ranking = ranked(kernel, gpu, models, parameters, problem, progress, gpu_name)
    return with_measured(ranking, kernel, measured)


def ranked(
    kernel: Counts,
    gpu: Gpu,
    models: Iterable[str | Model],
    parameters: dict[str, np.ndarray],
    problem: Mapping[str, Number] | None = None,
    progress: Progress = silent,
    gpu_name: str = "",
) -> Ranking:
    """Order configurations [L] like `rank`."""
    registered = get_all(models)
    gpus = stack([gpu])
    count = len(next(iter(parameters.values())))
    counted = kernel.count(parameters, gpus, problem, progress)
    evaluation = evaluate_counted(counted.batch, count, kernel.name, registered, gpus, progress)
    if not evaluation.possible.any():
        raise DseError(f"{kernel.path}: launch: {_exceeded_limit(evaluation, gpu)}")
    seconds = evaluation.forecasts[registered[0].name].seconds[0]
    order = np.argsort(_expected(seconds, counted.runs), kind="stable")
    error = None
    if counted.estimates is not None:
        batch, index = counted.estimates.batch, counted.estimates.index
        left_out = evaluate_counted(batch, len(index), kernel.name, registered[:1], gpus)
        estimated, exact = left_out.forecasts[registered[0].name].seconds[0], seconds[index]
        impossible = np.isinf(estimated) & np.isinf(exact)  # no error: ∞ / ∞
        error = np.abs(np.where(impossible, np.nan, estimated) / exact - 1.0)
    labels = {"kernel": kernel.name, "gpu": gpu_name, "model": registered[0].name}
    labels |= sizes_of(kernel, problem)
    if assumptions := getattr(kernel, "assumptions", ()):
        labels["assumed"] = "; ".join(assumptions)
    ranking = Ranking(labels, parameters, evaluation, order, None, counted=(gpu, counted.batch))
    failures, compiled = dict(counted.failures), counted.compiled
    return replace(ranking, failures=failures, compiled=compiled, left_out_error=error, runs=counted.runs)


def configurations(
    kernel: Counts,
    problem: Mapping[str, Number] | None = None,
    sample: int | None = None,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """Return all valid configurations, or a random `sample`, in order. **Raises:** DseError if there is none.

    A kernel without parameters has one configuration, number 1.
    """
    if not kernel.space.names:
        return {"configuration": np.ones(1, int)}
    sizes = sizes_of(kernel, problem)
    if sample is not None and sample < 1:
        raise DseError(f"sample: found {sample}, expected at least 1")
    index = kernel.space.indices(sizes) if sample is None else kernel.space.sample(sample, sizes, seed)
    if not len(index):
        raise kernel.space.emptiness(kernel.name, sizes)
    return kernel.space.decode(index, np)


def _expected(seconds: np.ndarray, runs: np.ndarray | None) -> np.ndarray:
    return seconds if runs is None else seconds / np.maximum(runs, 1e-3)


def _exceeded_limit(evaluation: Evaluation, gpu: Gpu) -> str:
    """Describe why the first configuration cannot be launched, with the GPU's limit."""
    requested = {name: int(values[0, 0]) for name, values in evaluation.resources.items()}
    limits = gpu.limits
    words = {
        "too many threads in a block": (
            f"{requested['threads']:,} threads in a block",
            limits.threads_per_block,
        ),
        "too many registers a thread": (
            f"{requested['registers']:,} registers a thread",
            limits.registers_per_thread,
        ),
        "too many registers in a block": (
            f"{int(occupancy.block_registers(limits, Resources(**requested))):,} registers in a block, "
            "rounded up to the GPU's allocation units",
            limits.registers_per_block,
        ),
        "too much shared memory": (
            f"{requested['shared_bytes']:,} B of shared memory",
            limits.shared_bytes_per_block,
        ),
        "too much static shared memory": (
            f"{requested['shared_bytes']:,} B of shared memory that the kernel declares",
            occupancy.MOST_STATIC,
        ),
    }
    reason = evaluation.limited_by()[0, 0]
    if reason in LACKS.values():
        return f"found {reason}, expected a GPU that has them"
    if reason not in words:
        return f"found {reason}, expected a launch that can run"
    amount, limit = words[reason]
    return f"found {amount}, expected at most {int(limit):,}"


def with_measured(ranking: Ranking, kernel: Counts, path: Path | None) -> Ranking:
    """Add measured seconds to a ranking, NaN if missing. **Raises:** DseError as `measured.load`."""
    if path is None:
        return ranking
    from dse.data import measured  # imports pyarrow

    table, space = measured.load(path, kernel), kernel.space
    time_of = {
        int(i): time for i, time in zip(space.index(table.parameters), table.time_s, strict=True) if i >= 0
    }
    times = np.array([time_of.get(int(i), np.nan) for i in space.index(ranking.parameters)])
    return replace(ranking, measured_s=times)


def with_library(ranking: Ranking, gpu: GpuFile, product: str) -> Ranking:
    """Add the predicted time of the vendor's library for a dense product, in `library_s`.

    `product` is OPERANDS:ROWS,COLUMNS,DEPTH, each size a number or an expression of the problem's sizes.

    **Raises:** DseError for another form, other operands, or a GPU whose library is unknown.
    """
    from dse.models.matrix.library import library_seconds
    from dse.models.matrix.machine import Machine
    from dse.models.matrix.problem import Product

    operands, _, shape = product.partition(":")
    sizes = {name: value for name, value in ranking.labels.items() if not isinstance(value, str)}
    texts = shape.split(",")
    if len(texts) != 3:
        raise DseError(f"library: found {product!r}, expected OPERANDS:ROWS,COLUMNS,DEPTH, as in fp16:M,N,K")
    values = np.nan_to_num([parse(text, "library", sizes)(sizes, np) for text in texts], posinf=0)
    dense = Product(*(int(value) for value in values), operands=operands)
    seconds = float(library_seconds(Machine.of([gpu]), [dense])[0, 0])
    if not np.isfinite(seconds):
        raise DseError(f"library: found {gpu.name}, whose library is unknown for {operands}")
    further = ranking.further | {"library_s": np.full(ranking.count, seconds)}
    return replace(ranking, further=further)


def speed_of_light(gpu: Gpu, configuration: KnownBatch, cycles: float) -> dict[str, float]:
    """Compute busy cycles of each pipe of the average SM over the cycles of the launch, largest first.

    **Shapes:** `configuration` holds one configuration. **Units:** shares, 0 to 1; idle pipes are absent.
    **Source:** Σ α λ of a pipe (Lemeire et al., Eq. L1) over T; Nsight Compute's "speed of light".
    """
    gpus = stack([gpu])
    with in_64_bits():
        wide = column(gpus)
        known = configuration.on(wide)
        threads, blocks = known.resources.threads.item(), known.resources.blocks.item()
        warps = ceil(threads / int(gpu.limits.warp_size)) * blocks
        phase = jax.tree.map(lambda x: np.asarray(x, wide.clock.dtype), phase_of(wide, known.kernel))
        pipes = jax.jit(busy)(wide, phase)  # else each operation is compiled
        times = warps / float(gpu.sm_count) / cycles
        shares = {name: cycles_of.item() * times for name, cycles_of in pipes.items()}
    if shares["fma"] == shares["fp32"]:  # no integer multiply-adds share it
        del shares["fma"]
    return {name: shares[name] for name in sorted(shares, key=lambda name: -shares[name]) if shares[name] > 0}
