"""A ranking put in order anew by what was measured of it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dse.errors import DseError
from dse.evaluate.rank import Ranking
from dse.gpus.read import GpuFile
from dse.kernels.description import Description, Number
from dse.tuning import candidates
from dse.tuning.chances import Chances, chances
from dse.tuning.tuner import Tuner


def refitted(
    ranking: Ranking,
    description: Description,
    file: GpuFile,
    model: str,
    problem: Mapping[str, Number] | None = None,
    source: bool = False,
    compiled: int | None = None,
) -> tuple[Ranking, Iterator[dict[str, Any]]]:
    """The ranking by refitted times, and for each of its rows what is to stand beside.

    **Raises:** DseError if none of its configurations was measured.
    """
    times = ranking.measured_s
    if times is None or not np.isfinite(times).any():
        raise DseError("--measured: found no configuration of this space that ran, expected at least one")
    if source:
        from dse.cuda.counts import architecture

        arch = architecture(file)
        found = candidates.from_source(description, file, arch, model, ranking.parameters, problem, compiled)
    else:
        found = candidates.described(description, file, model, ranking.parameters, problem)
    seen = {place: float(times[place]) for place in np.flatnonzero(np.isfinite(times)).tolist()}
    sure = chances(Tuner(found, told=seen))
    order = np.argsort(np.where(found.possible, sure.seconds, np.inf), kind="stable")
    return replace(ranking, order=order), _beside(sure, order)


def _beside(sure: Chances, order: np.ndarray) -> Iterator[dict[str, Any]]:
    for place in order:
        yield {
            "refitted": float(sure.seconds[place]),
            "low": float(sure.low[place]),
            "high": float(sure.high[place]),
            "P(best)": float(sure.best[place]),
            "P(within 5 %)": float(sure.near[place]),
        }
