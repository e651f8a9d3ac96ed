"""How well each model ranks and times a measured space: one row a model, and one for random choice."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import jax
import numpy as np

from dse.errors import DseError
from dse.evaluate.chunks import Evaluation, evaluate, evaluate_counted
from dse.kernels.description import Description, Number
from dse.measured.read import Measured
from dse.measured.scores import budgets, random_expectation, score
from dse.progress import Progress, silent
from dse.simulator.pipeline import Settings
from dse.types import Gpu

RANDOM = "random choice"


def compare(
    description: Description,
    gpu: Gpu,
    models: Sequence[str],
    measured: Measured,
    problem: Mapping[str, Number] | None = None,
    settings: Settings | None = None,
    progress: Progress = silent,
) -> Iterator[dict[str, Any]]:
    """Rows with the fields of `dse.measured.scores.Scores`, by `model`.

    Every row of the file is predicted, in its own parameters and problem sizes, also where they lie outside
    the kernel's space. `problem` changes sizes that the file does not state.
    """
    sizes = {**(problem or {}), **measured.problem}
    gpus = jax.tree.map(lambda x: x[None], gpu)
    evaluation = evaluate(description, models, gpus, measured.parameters, sizes, settings, progress)
    return _rows(evaluation, measured)


def compare_source(
    description: Description,
    gpu: Gpu,
    arch: int,
    models: Sequence[str],
    measured: Measured,
    problem: Mapping[str, Number] | None = None,
    settings: Settings | None = None,
    progress: Progress = silent,
    compiled: int | None = None,
) -> Iterator[dict[str, Any]]:
    """As `compare`, by what the kernel's CUDA source does, compiled for compute capability `arch` / 10."""
    from dse.cuda.counts import count

    sizes = {**(problem or {}), **measured.problem}
    counted = count(description, gpu, arch, measured.parameters, sizes, progress, compiled)
    evaluation = evaluate_counted(
        description.name, models, gpu, counted.kernel, counted.resources, settings, progress
    )
    return _rows(evaluation, measured)


def sample(measured: Measured, description: Description, number: int, seed: int = 1) -> np.ndarray:
    """Rows of so many configurations that ran, at random; all if there are fewer.

    Parameters that have one value only in the kernel's space must have it.

    **Raises:** DseError if there is none.
    """
    fixed = {name: values[0] for name, values in description.space.values.items() if len(values) == 1}
    wanted = np.logical_and.reduce(
        [measured.ok, *(measured.parameters[name] == fixed[name] for name in fixed)]
    )
    chosen = np.sort(np.random.default_rng(seed).permutation(np.flatnonzero(wanted))[:number])
    if not len(chosen):
        raise DseError(f"{measured.path}: found no configuration of {description.name} that ran")
    return chosen


def _rows(evaluation: Evaluation, measured: Measured) -> Iterator[dict[str, Any]]:
    occupancy = evaluation.occupancy[0] if measured.occupancy is None else measured.occupancy
    for model, forecast in evaluation.forecasts.items():
        scores = score(forecast.seconds[0], measured.time_s, measured.ok, np.asarray(occupancy, float))
        yield {"model": model} | asdict(scores)
    count = len(measured.ok)
    reached = {
        name: random_expectation(measured.time_s, measured.ok, k) for name, k in budgets(count).items()
    }
    yield {"model": RANDOM, "configurations": count, "failed": int(np.sum(~measured.ok))} | reached
