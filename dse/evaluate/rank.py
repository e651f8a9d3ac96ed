"""The configurations of one kernel on one GPU, fastest first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from dse import measured as measured_data
from dse.cuda.compile.nvrtc import Failure
from dse.errors import DseError
from dse.evaluate.chunks import Evaluation, evaluate, evaluate_counted
from dse.kernels.description import Description, Number
from dse.progress import Progress, silent
from dse.simulator.pipeline import Settings
from dse.types import Gpu


@dataclass(frozen=True)
class Ranking:
    """Configurations with what the models say of them; `order` has the fastest first."""

    parameters: dict[str, np.ndarray]
    evaluation: Evaluation  # of one GPU
    order: np.ndarray
    measured_s: np.ndarray | None  # NaN where not measured
    failures: dict[int, str] = field(default_factory=dict)  # configurations not compiled or executed, and why
    compiled: int | None = None  # how many were, if counts come from source
    left_out_error: np.ndarray | None = None  # of the time of each compiled one, if estimated from the others

    @property
    def count(self) -> int:
        return len(self.order)

    @property
    def impossible(self) -> int:
        """How many cannot be launched."""
        return int(np.sum(~self.evaluation.possible))

    @property
    def units(self) -> dict[str, str]:
        """Units of the columns of `rows`."""
        times = [name for name in self.evaluation.forecasts if len(self.evaluation.forecasts) > 1]
        return dict.fromkeys((*times, "time", "measured"), "s") | {"shared": "B"}

    def rows(self, top: int | None = None) -> list[dict[str, Any]]:
        """The first `top` as rows; parameters that never vary are left out."""
        e = self.evaluation
        chosen = self.order[:top]
        varying = [name for name, values in self.parameters.items() if np.any(values != values[0])]
        first = next(iter(e.forecasts.values()))
        columns: dict[str, np.ndarray] = {name: self.parameters[name][chosen] for name in varying}
        columns |= {"threads": e.resources["threads"][0, chosen], "blocks": e.resources["blocks"][0, chosen]}
        columns |= {"registers": e.resources["registers"][0, chosen]}
        columns |= {"shared": e.resources["shared_bytes"][0, chosen]}
        limiters = e.limited_by()[0]
        for place, why in self.failures.items():
            limiters[place] = why
        columns |= {"occupancy": e.occupancy[0, chosen], "limited by": limiters[chosen]}
        columns |= {"time": first.seconds[0, chosen], "bottleneck": first.bottleneck_names()[0, chosen]}
        for name, forecast in list(e.forecasts.items())[1:]:
            columns[name] = forecast.seconds[0, chosen]
        if self.measured_s is not None:
            columns["measured"] = self.measured_s[chosen]
        lists = {name: values.tolist() for name, values in columns.items()}
        return [
            {"rank": i + 1} | {name: values[i] for name, values in lists.items()} for i in range(len(chosen))
        ]


def rank(
    description: Description,
    gpu: Gpu,
    models: Sequence[str],
    problem: Mapping[str, Number] | None = None,
    sample: int | None = None,
    measured: Path | None = None,
    settings: Settings | None = None,
    progress: Progress = silent,
) -> Ranking:
    """Every valid configuration, ordered by the first of `models`; equal times keep the space's order.

    `sample` is how many configurations are taken, at random; all without it.

    **Raises:** DseError where the space holds no valid configuration, or none that the GPU can launch, or
    `measured` cannot be read.
    """
    parameters = configurations(description, problem, sample)
    gpus = jax.tree.map(lambda x: x[None], gpu)
    evaluation = evaluate(description, models, gpus, parameters, problem, settings, progress)
    return _ranked(description, gpu, models, parameters, evaluation, measured)


def rank_source(
    description: Description,
    gpu: Gpu,
    arch: int,
    models: Sequence[str],
    problem: Mapping[str, Number] | None = None,
    sample: int | None = None,
    measured: Path | None = None,
    settings: Settings | None = None,
    progress: Progress = silent,
    compiled: int | None = None,
) -> Ranking:
    """As `rank`, by what the kernel's CUDA source does, compiled for compute capability `arch` / 10.

    `compiled` is how many configurations are compiled, the others being estimated from them; all without it.
    """
    from dse.cuda.counts import count

    parameters = configurations(description, problem, sample)
    counted = count(description, gpu, arch, parameters, problem, progress, compiled)
    name, kernel, resources = description.name, counted.kernel, counted.resources
    evaluation = evaluate_counted(name, models, gpu, kernel, resources, settings, progress)
    if len(counted.failures) == len(parameters[next(iter(parameters))]):
        first = next(each for each in counted.found.values() if isinstance(each, Failure))
        raise DseError(f"{description.name}: source: {first.message}")
    error = None
    if counted.guess is not None:
        kernel, resources, places = counted.left_out()
        left_out = evaluate_counted(name, models[:1], gpu, kernel, resources, settings)
        times = [each.forecasts[models[0]].seconds[0] for each in (left_out, evaluation)]
        error = np.abs(times[0] / times[1][places] - 1.0)
    ranking = _ranked(description, gpu, models, parameters, evaluation, measured)
    return replace(ranking, failures=counted.failures, compiled=len(counted.found), left_out_error=error)


def configurations(
    description: Description,
    problem: Mapping[str, Number] | None = None,
    sample: int | None = None,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """All valid ones, or so many of them at random, in order. DseError if there is none."""
    if not description.space.names:
        raise DseError(f"{description.path}: parameters: found none, expected some to choose among (--tune)")
    found = description.space.configurations(description.sizes(**(problem or {})))
    if not len(next(iter(found.values()))):
        raise DseError(
            f"{description.path}: constraints: found no valid configuration, expected at least one"
        )
    total = len(next(iter(found.values())))
    if sample is None or sample >= total:
        return found
    chosen = np.sort(np.random.default_rng(seed).permutation(total)[:sample])
    return {name: values[chosen] for name, values in found.items()}


def _ranked(
    description: Description,
    gpu: Gpu,
    models: Sequence[str],
    parameters: dict[str, np.ndarray],
    evaluation: Evaluation,
    measured: Path | None,
) -> Ranking:
    if not evaluation.possible.any():
        raise DseError(f"{description.path}: launch: {_why(evaluation, gpu)}")
    order = np.argsort(evaluation.forecasts[models[0]].seconds[0], kind="stable")
    times = None if measured is None else _measured(description, parameters, measured)
    return Ranking(parameters, evaluation, order, times)


def _why(evaluation: Evaluation, gpu: Gpu) -> str:
    """Why the first configuration cannot be launched: what was found, and the GPU's limit."""
    found = {name: int(values[0, 0]) for name, values in evaluation.resources.items()}
    limits = gpu.limits
    words = {
        "too many threads in a block": (f"{found['threads']:,} threads in a block", limits.threads_per_block),
        "too many registers a thread": (
            f"{found['registers']:,} registers a thread",
            limits.registers_per_thread,
        ),
        "too many registers in a block": (
            f"{found['threads'] * found['registers']:,} registers in a block",
            limits.registers_per_block,
        ),
        "too much shared memory": (
            f"{found['shared_bytes']:,} B of shared memory",
            limits.shared_bytes_per_block,
        ),
    }
    reason = evaluation.limited_by()[0, 0]
    if reason not in words:
        return f"found {reason}, expected a launch that can run"
    what, limit = words[reason]
    return f"found {what}, expected at most {int(limit):,}"


def _measured(description: Description, parameters: Mapping[str, np.ndarray], path: Path) -> np.ndarray:
    """Measured seconds of each configuration, NaN where the file has none."""
    table = measured_data.load(path, description)
    space = description.space
    where = {
        int(i): time for i, time in zip(space.index(table.parameters), table.time_s, strict=True) if i >= 0
    }
    return np.array([where.get(int(i), np.nan) for i in space.index(parameters)])
