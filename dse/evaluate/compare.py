"""Scores of each model on a measured space: one row a model, and one for random choice."""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from dse.core.progress import Progress, silent
from dse.data.measured.read import Measured
from dse.data.scores import budgets, random_expectation, score
from dse.errors import Doubt, DseError
from dse.evaluate.chunks import Evaluation, evaluate
from dse.hardware.gpus import stack
from dse.kernels.counts import Counts, Number
from dse.models.protocol import Model
from dse.types import Gpu

RANDOM = "random choice"
FEWEST, FEW = 30, 0.1  # sets of rows that differ in one parameter alone; the share whose times may differ
SAME = 0.05  # log: times that differ by less are the same


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
    the kernel's space. `problem` changes sizes that the file does not state. A parameter that changes no time
    is one that the measured kernel ignored, if one of its values in all rows tells better what failed: then
    all is predicted with that value, and a warning says so.
    """
    sizes, models = {**(problem or {}), **measured.problem}, list(models)

    def predicted(some: list[str | Model], **fixed: Number) -> Evaluation:
        columns = {name: np.full(len(measured.ok), value) for name, value in fixed.items()}
        columns = {**measured.parameters, **columns}
        return evaluate(kernel, some, stack([gpu]), columns, sizes, progress)

    def explained(evaluation: Evaluation) -> float:
        possible = [np.isfinite(forecast.seconds[0]) for forecast in evaluation.forecasts.values()]
        return float(np.mean(possible[0] == measured.ok))

    evaluation = predicted(models)
    for name in without_effect(measured):
        shares = {
            value: explained(predicted(models[:1], **{name: value}))
            for value in np.unique(measured.parameters[name]).tolist()
        }
        value = max(shares, key=lambda value: shares[value])
        if shares[value] > explained(evaluation):
            text = f"{measured.path}: {name}: found the same times with all its values, and failures as of"
            text = f"{text} {name} = {value}, expected an effect: predicted with that value"
            warnings.warn(text, Doubt, stacklevel=2)
            return _rows(predicted(models, **{name: value}), measured)
    return _rows(evaluation, measured)


def without_effect(measured: Measured) -> list[str]:
    """Name parameters that change no time, within SAME, in all but FEW of the rows that differ in them alone.

    None where all ran: failures are to tell what the measured kernel did instead; nor of one alone.
    """
    if measured.ok.all() or len(measured.parameters) < 2:
        return []
    ran = measured.ok
    logs, names = np.log(measured.time_s[ran]), list[str]()
    codes = {name: np.unique(x[ran], return_inverse=True)[1] for name, x in measured.parameters.items()}
    for name in codes:
        others = np.stack([code for other, code in codes.items() if other != name])
        _, which, rows = np.unique(others, axis=1, return_inverse=True, return_counts=True)
        slowest, fastest = np.full(len(rows), -np.inf), np.full(len(rows), np.inf)
        np.maximum.at(slowest, which.ravel(), logs)
        np.minimum.at(fastest, which.ravel(), logs)
        apart = (slowest - fastest)[rows > 1]
        if len(apart) >= FEWEST and np.quantile(apart, 1 - FEW) <= SAME:
            names.append(name)
    return names


def sample(measured: Measured, kernel: Counts, number: int, seed: int = 1) -> np.ndarray:
    """Draw so many configurations that ran, at random; all if there are fewer. Returns their rows.

    Parameters that have one value only in the kernel's space must have it.

    **Raises:** DseError if there is none.
    """
    fixed = {name: values[0] for name, values in kernel.space.values.items() if len(values) == 1}
    wanted = np.logical_and.reduce(
        [measured.ok, *(measured.parameters[name] == fixed[name] for name in fixed)]
    )
    rows = np.sort(np.random.default_rng(seed).permutation(np.flatnonzero(wanted))[:number])
    if not len(rows):
        raise DseError(f"{measured.path}: found no configuration of {kernel.name} that ran")
    return rows


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
