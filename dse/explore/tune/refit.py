"""Rankings reordered by measured times of the kernel on this GPU or others."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from dse.errors import DseError
from dse.evaluate.rank import Ranking
from dse.explore.tune import candidates
from dse.explore.tune.others import with_others
from dse.explore.tune.tuner import Tuner
from dse.hardware.gpus import GpuFile
from dse.kernels.counts import Counts, Number
from dse.models.protocol import Model

MOST = 1_000  # configurations that may be the fastest, by prediction
DRAWS = 4_000
WITHIN = 0.05  # of the fastest time: near it
NORMAL_95 = 1.96


def chances(tuner: Tuner) -> dict[str, np.ndarray]:
    """Return columns [N] of candidates: medians and 95 % intervals of times, and chances to be the fastest.

    Times are drawn jointly from the surrogate's posterior, for the MOST fastest configurations by prediction;
    the others have chance 0. A measured configuration has its measured time, with noise.
    """
    c = tuner.candidates
    mean, deviation = tuner.predict()
    order = np.where(c.possible, mean, np.inf)
    first = np.argsort(order, kind="stable")[: min(MOST, int(c.possible.sum()))]
    logs = mean[first] + tuner.surrogate.drawn(c.points.rows(first), DRAWS, np.random.default_rng(0))
    fastest = logs.min(axis=1, keepdims=True)
    best, near = np.zeros(len(c)), np.zeros(len(c))
    best[first] = np.mean(logs == fastest, axis=0)
    near[first] = np.mean(logs <= fastest + np.log1p(WITHIN), axis=0)
    low, high = (np.exp(mean + sign * NORMAL_95 * deviation) for sign in (-1, 1))
    times = {"refitted_s": np.exp(mean), "low_s": low, "high_s": high}
    return times | {"chance_fastest": best, "chance_near": near}


def refitted(
    ranking: Ranking,
    kernel: Counts,
    file: GpuFile,
    model: str | Model,
    problem: Mapping[str, Number] | None = None,
    prior: Sequence[str | Path] = (),
) -> Ranking:
    """Reorder a ranking by times refitted to its measured ones, and add their columns.

    `prior` are recorded tables of the kernel on other GPUs.

    **Raises:** DseError if none of its configurations was measured.
    """
    times = ranking.measured_s
    if times is None or not np.isfinite(times).any():
        raise DseError("measured: found no configuration of this space that ran, expected at least one")
    known = with_others(candidates.of_kernel(kernel, file, model, ranking.parameters, problem), kernel, prior)
    seen = {index: float(times[index]) for index in np.flatnonzero(np.isfinite(times)).tolist()}
    columns = chances(Tuner(known, times=seen))
    order = np.argsort(np.where(known.possible, columns["refitted_s"], np.inf), kind="stable")
    return replace(ranking, order=order, further=columns)


def with_prior(
    ranking: Ranking,
    kernel: Counts,
    file: GpuFile,
    model: str | Model,
    problem: Mapping[str, Number] | None,
    prior: Sequence[str | Path],
) -> Ranking:
    """Reorder a ranking by predictions and recorded times on other GPUs, and add their column."""
    known = with_others(candidates.of_kernel(kernel, file, model, ranking.parameters, problem), kernel, prior)
    order = np.argsort(np.where(known.possible, known.expected, np.inf), kind="stable")
    return replace(ranking, order=order, further={"expected_s": np.exp(known.expected)})
