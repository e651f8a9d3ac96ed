"""A ranking put in order anew by what was measured of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dse.errors import DseError
from dse.evaluate.rank import Ranking
from dse.explore.tune import candidates
from dse.explore.tune.chances import Chances, chances
from dse.explore.tune.others import with_others
from dse.explore.tune.tuner import Tuner
from dse.hardware.gpus.read import GpuFile
from dse.kernels.counts import Counts, Number
from dse.models.protocol import Model


def refitted(
    ranking: Ranking,
    kernel: Counts,
    file: GpuFile,
    model: str | Model,
    problem: Mapping[str, Number] | None = None,
    prior: Sequence[str | Path] = (),
) -> tuple[Ranking, Iterator[dict[str, Any]]]:
    """Put a ranking in the order of refitted times; with it comes what is to stand beside each of its rows.

    `prior` are recorded tables of the kernel on other GPUs.

    **Raises:** DseError if none of its configurations was measured.
    """
    times = ranking.measured_s
    if times is None or not np.isfinite(times).any():
        raise DseError("measured: found no configuration of this space that ran, expected at least one")
    known = with_others(candidates.of_kernel(kernel, file, model, ranking.parameters, problem), kernel, prior)
    seen = {index: float(times[index]) for index in np.flatnonzero(np.isfinite(times)).tolist()}
    sure = chances(Tuner(known, told=seen))
    order = np.argsort(np.where(known.possible, sure.seconds, np.inf), kind="stable")
    return replace(ranking, order=order), _beside(sure, order)


def with_prior(
    ranking: Ranking,
    kernel: Counts,
    file: GpuFile,
    model: str | Model,
    problem: Mapping[str, Number] | None,
    prior: Sequence[str | Path],
) -> tuple[Ranking, Iterator[dict[str, Any]]]:
    """Put a ranking in the order of predictions and recorded times on other GPUs, as `refitted` does."""
    known = with_others(candidates.of_kernel(kernel, file, model, ranking.parameters, problem), kernel, prior)
    order = np.argsort(np.where(known.possible, known.expected, np.inf), kind="stable")
    return replace(ranking, order=order), (
        {"expected_s": float(np.exp(known.expected[place]))} for place in order
    )


def _beside(sure: Chances, order: np.ndarray) -> Iterator[dict[str, Any]]:
    for index in order:
        yield {
            "refitted_s": float(sure.seconds[index]),
            "low_s": float(sure.low[index]),
            "high_s": float(sure.high[index]),
            "chance_fastest": float(sure.best[index]),
            "chance_near": float(sure.near[index]),
        }
