"""Score models on a measured space: one row a model, and one for random choice."""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from dse.core.progress import Progress, silent
from dse.data.measured.read import Measured
from dse.data.scores import budgets, random_expectation, score
from dse.errors import DseError, InputWarning
from dse.evaluate.chunks import Evaluation, evaluate
from dse.hardware.gpus import stack
from dse.kernels.counts import Counts, Number
from dse.models.protocol import Model
from dse.types import Gpu

RANDOM = "random choice"
FEWEST, FEW = 30, 0.1  # least sets of rows that differ in one parameter only; share whose times may differ
SAME = 0.05  # log ratio below which times count as equal


def compare(
    kernel: Counts,
    gpu: Gpu,
    models: Iterable[str | Model],
    measured: Measured,
    problem: Mapping[str, Number] | None = None,
    progress: Progress = silent,
) -> Iterator[dict[str, Any]]:
    """Score each model on a measured space: rows with `model` and the fields of `dse.data.scores.Scores`.

    All rows of the file are predicted with their own parameters and problem sizes, even outside of the
    kernel's space. `problem` changes sizes that the file does not state. If a parameter affects no measured
    time, and fixing it at one value predicts failures better, the measured kernel ignored it: all rows are
    predicted with that value, and a warning is given.
    """
    sizes, models = {**(problem or {}), **measured.problem}, list(models)

    def predicted(models: list[str | Model], **fixed: Number) -> Evaluation:
        columns = {name: np.full(len(measured.ok), value) for name, value in fixed.items()}
        columns = {**measured.parameters, **columns}
        return evaluate(kernel, models, stack([gpu]), columns, sizes, progress)

    def explained(evaluation: Evaluation) -> float:
        """Share of the rows whose success or failure is predicted."""
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
            warnings.warn(text, InputWarning, stacklevel=2)
            return _rows(predicted(models, **{name: value}), measured)
    return _rows(evaluation, measured)


def without_effect(measured: Measured) -> list[str]:
    """List parameters without an effect on times, within SAME, in all but FEW sets of rows differing in them.

    None if all rows ran, since failures must show the value used; none of a single parameter.
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
        spread = (slowest - fastest)[rows > 1]
        if len(spread) >= FEWEST and np.quantile(spread, 1 - FEW) <= SAME:
            names.append(name)
    return names


def sample(measured: Measured, kernel: Counts, number: int, seed: int = 1) -> np.ndarray:
    """Draw the rows of `number` random configurations that ran, or all if there are fewer.

    Parameters with a single value in the kernel's space must have it.

    **Raises:** DseError if there is none.
    """
    fixed = {name: values[0] for name, values in kernel.space.values.items() if len(values) == 1}
    valid = np.logical_and.reduce(
        [measured.ok, *(measured.parameters[name] == fixed[name] for name in fixed)]
    )
    rows = np.sort(np.random.default_rng(seed).permutation(np.flatnonzero(valid))[:number])
    if not len(rows):
        raise DseError(f"{measured.path}: found no configuration of {kernel.name} that ran")
    return rows


def _rows(evaluation: Evaluation, measured: Measured) -> Iterator[dict[str, Any]]:
    occupancy = evaluation.occupancy[0] if measured.occupancy is None else measured.occupancy
    for model, forecast in evaluation.forecasts.items():
        scores = score(forecast.seconds[0], measured.time_s, measured.ok, np.asarray(occupancy, float))
        yield {"model": model} | asdict(scores)
    count = len(measured.ok)
    row = {"model": RANDOM, "configurations": count, "failed": int(np.sum(~measured.ok))}
    for name, k in budgets(count).items():
        row[name] = random_expectation(measured.time_s, measured.ok, k)
    yield row
