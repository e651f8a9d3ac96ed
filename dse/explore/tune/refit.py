"""Rankings reordered by measured times of the kernel on this GPU or others."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from dse.errors import DseError
from dse.evaluate.rank import Ranking
from dse.explore.tune import candidates
from dse.explore.tune.chances import chances
from dse.explore.tune.others import with_others
from dse.explore.tune.tuner import Tuner
from dse.hardware.gpus import GpuFile
from dse.kernels.counts import Counts, Number
from dse.models.protocol import Model


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
    sure = chances(Tuner(known, times=seen))
    order = np.argsort(np.where(known.possible, sure.seconds, np.inf), kind="stable")
    columns = {"refitted_s": sure.seconds, "low_s": sure.low, "high_s": sure.high}
    columns |= {"chance_fastest": sure.best, "chance_near": sure.near}
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
