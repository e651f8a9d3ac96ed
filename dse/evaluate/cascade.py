"""A cascade of levels: each ranks the candidates kept by the previous one, with a costlier, better model.

For example a closed form for the whole space, the simulator for the best few per cent, and counts from the
kernel's source, which needs compilation, for the last hundred.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dse.core.progress import Progress, silent
from dse.data.scores import spearman
from dse.errors import DseError
from dse.evaluate import ties
from dse.evaluate.chunks import Forecast
from dse.evaluate.importance import within
from dse.evaluate.rank import Ranking, configurations, ranked
from dse.kernels.counts import Counts, Number
from dse.kernels.description import Description
from dse.models import DEFAULT, get
from dse.models.protocol import Model
from dse.source import readers
from dse.types import Gpu

SOURCE = "source"  # the level with counts from the kernel's source


@dataclass(frozen=True)
class Level:
    """One level: the counts, the model, and the number of candidates kept."""

    name: str
    kernel: Counts
    model: str | Model
    keep: float
    percent: bool = False  # `keep` is per cent of the launchable configurations, not a count

    def kept(self, count: int) -> int:
        """The number kept of `count` configurations, at least one."""
        most = math.ceil(self.keep * count / 100) if self.percent else int(self.keep)
        return max(1, min(count, most))


def read(text: str, kernel: Counts, default: str | Model = DEFAULT) -> list[Level]:
    """Parse `phase:5%,pipeline:200,source:20`: models, and the number each keeps.

    The level `source` is `default` on counts from source, which all later levels use too.

    **Raises:** DseError for another form, an unknown model, a level named twice, a share above 100 %, or
    `source` for a kernel without source.
    """
    levels: list[Level] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*([\w-]+)\s*:\s*(\d{1,9}(?:\.\d{1,9})?)\s*(%?)\s*", part)
        if not match:
            raise DseError(f"cascade: found {part.strip()!r}, expected MODEL:COUNT or MODEL:SHARE%")
        name, number, percent = match.groups()
        keep = float(number)
        if not (0 < keep <= 100 if percent else keep >= 1 and keep.is_integer()):
            expected = "a share above 0 up to 100 %" if percent else "a whole number from 1"
            raise DseError(f"cascade: {name}: found {number}{percent}, expected {expected}")
        if name in (level.name for level in levels):
            raise DseError(f"cascade: found {name!r} twice, expected each level once")
        model: str | Model = name
        if name == SOURCE:
            kernel, model = _from_source(kernel), default
        get(model)
        levels.append(Level(name, kernel, model, keep, bool(percent)))
    return levels


def _from_source(kernel: Counts) -> Counts:
    """Count a described kernel from its source; other kernels are unchanged."""
    if not isinstance(kernel, Description):
        return kernel
    if kernel.source is None:
        raise DseError(f"{kernel.path}: source: found none, expected one for the level {SOURCE!r}")
    return readers.counts_of(kernel, source=True)


def cascade(
    levels: Sequence[Level],
    gpu: Gpu,
    problem: Mapping[str, Number] | None = None,
    sample: int | None = None,
    progress: Progress = silent,
    gpu_name: str = "",
) -> Ranking:
    """Rank a space by levels, the first on all valid configurations (or `sample` of them).

    Configurations that a level finds unlaunchable are dropped. The ranking has the configurations kept by the
    last level, with the times of all levels; `levels` has a row for each.

    **Raises:** DseError as `rank`.
    """
    if not levels:
        raise DseError("cascade: found no level, expected MODEL:COUNT or MODEL:SHARE%")
    parameters = configurations(levels[0].kernel, problem, sample)
    reports: list[dict[str, Any]] = []
    forecasts: dict[str, Forecast] = {}  # of all levels so far, the last first, for the kept configurations
    rankings: list[Ranking] = []
    for level in levels:
        ranking = ranked(level.kernel, gpu, (level.model,), parameters, problem, progress, gpu_name)
        [forecast] = ranking.evaluation.forecasts.values()
        kept = ranking.order[: level.kept(ranking.count - ranking.impossible)]
        before = next(iter(forecasts.values()), None)
        reports.append(_report(level, parameters, forecast, before, kept))
        forecasts = {name: x.take(kept) for name, x in ({level.name: forecast} | forecasts).items()}
        parameters = {name: values[kept] for name, values in parameters.items()}
        evaluation = replace(ranking.evaluation.take(kept), forecasts=forecasts)
        runs = None if ranking.runs is None else ranking.runs[kept]
        counted = ranking.counted and (gpu, ranking.counted[1].take(kept))
        order = np.arange(len(kept))
        rankings.append(
            Ranking(ranking.labels, parameters, evaluation, order, None, runs=runs, counted=counted)
        )
    return replace(rankings[-1], levels=tuple(reports))


def _report(
    level: Level,
    parameters: Mapping[str, np.ndarray],
    forecast: Forecast,
    above: Forecast | None,
    kept: np.ndarray,
) -> dict[str, Any]:
    """Report on a level with N configurations, for which the previous level predicted `above`.

    `equal_dropped` configurations tied with the last one kept. `spearman` is the rank correlation with the
    previous level on configurations launchable in both; `kept_by_both` would have been kept by that level
    too; the parameter `differ_by` explains the share `explained` of the variance of log(time / time before).
    """
    seconds = forecast.seconds[0]
    runs = np.isfinite(seconds)
    equal = int(np.sum(seconds[runs] <= seconds[kept[-1]] * (1 + ties.EQUAL))) - len(kept)
    report = {
        "level": level.name,
        "configurations": len(seconds),
        "impossible": int(np.sum(~runs)),
        "kept": len(kept),
        "dropped": len(seconds) - len(kept),
        "equal_dropped": max(equal, 0),
        **dict.fromkeys(("spearman", "kept_by_both", "differ_by", "explained")),
    }
    if above is None or runs.sum() < 2:
        return report
    # Configurations are in the order of the previous level.
    shared = int(np.sum(kept < len(kept)))
    before = above.seconds[0]
    ratio = np.log(seconds[runs] / before[runs])
    name, share = _explains({key: values[runs] for key, values in parameters.items()}, ratio)
    agreement = spearman(seconds[runs], before[runs])
    return report | {"spearman": agreement, "kept_by_both": shared, "differ_by": name, "explained": share}


def _explains(parameters: Mapping[str, np.ndarray], ratio: np.ndarray) -> tuple[str | None, float | None]:
    """Return the parameter that explains most of the variance of `ratio`, and the share explained."""
    total = float(np.var(ratio))
    if total < 1e-12:
        return None, None
    shares = {}
    for name, values in parameters.items():
        _, codes = np.unique(values, return_inverse=True)
        # Adjusted for the variance that this number of groups explains by chance.
        freedom = len(ratio) - int(codes.max()) - 1
        if codes.any() and freedom > 0:
            shares[name] = 1 - within(codes, ratio)[0] / freedom * (len(ratio) - 1) / total
    best = max(shares, key=shares.__getitem__, default=None)
    return (best, shares[best]) if best is not None and shares[best] > 0 else (None, None)
