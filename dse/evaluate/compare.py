"""Scores of each model on a measured space: one row a model, and one for random choice."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from dse.core.progress import Progress, silent
from dse.data.measured.read import Measured
from dse.data.scores import budgets, random_expectation, score
from dse.errors import DseError
from dse.evaluate.chunks import Evaluation, evaluate
from dse.hardware.gpus import stack
from dse.kernels.counts import Counts, Number
from dse.models.protocol import Model
from dse.types import Gpu

RANDOM = "random choice"


def compare(
    kernel: Counts,
    gpu: Gpu,
    models: Iterable[str | Model],
    measured: Measured,
    problem: Mapping[str, Number] | None = None,
    progress: Progress = silent,
) -> Iterator[dict[str, Any]]:
    """Score each model on a measured space: rows with the fields of `dse.data.scores.Scores`, by `model`.

    Every row of the file is predicted, in its own parameters and problem sizes, also where they lie outside
    the kernel's space. `problem` changes sizes that the file does not state.
    """
    sizes = {**(problem or {}), **measured.problem}
    gpus = stack([gpu])
    evaluation = evaluate(kernel, models, gpus, measured.parameters, sizes, progress)
    return _rows(evaluation, measured)


def sample(measured: Measured, kernel: Counts, number: int, seed: int = 1) -> np.ndarray:
    """Draw so many configurations that ran, at random; all if there are fewer. Returns their rows.

    Parameters that have one value only in the kernel's space must have it.

    **Raises:** DseError if there is none.
    """
    fixed = {name: values[0] for name, values in kernel.space.values.items() if len(values) == 1}
    wanted = np.logical_and.reduce(
        [measured.ok, *(measured.parameters[name] == fixed[name] for name in fixed)]
    )
    chosen = np.sort(np.random.default_rng(seed).permutation(np.flatnonzero(wanted))[:number])
    if not len(chosen):
        raise DseError(f"{measured.path}: found no configuration of {kernel.name} that ran")
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
