"""Scores of models on a space that we measured: as they come, and with the GPU fitted to a few times."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dse.accuracy.markdown import number, table
from dse.accuracy.stored import Stored, predicted
from dse.core.precision import in_64_bits
from dse.core.progress import Progress, silent
from dse.data import measured
from dse.data.scores import mape, score, spearman
from dse.explore.fit.fit import Data, Parameters, fit
from dse.explore.fit.launches import of_kernel
from dse.explore.fit.parameters import NAMES, widths
from dse.models import MODELS, get_all
from dse.models.protocol import Model

FITTED = 20  # measurements, of each space
COLUMNS = {
    "spearman": "Spearman",
    "mape_percent": "MAPE [%]",
    "mape_shape_percent": "MAPE_shape [%]",
    "top_1": "top 1",
    "top_10": "top 10",
    "top_5_percent": "top 5 %",
    "fitted_spearman": "fitted: Spearman",
    "fitted_mape_percent": "fitted: MAPE [%]",
}


@dataclass(frozen=True)
class FittedScores:
    """Scores of models on one measured space, unfitted and fitted to a few of its measurements."""

    kernel: str
    gpu: str
    rows: list[dict[str, Any]]  # one a model: `COLUMNS`, and how many configurations there are and failed

    @property
    def summary(self) -> str:
        """Numbers of configurations and of failed ones, in words."""
        first = self.rows[0]
        return f"{first['configurations']:,} configurations, {first['failed']:,} of them failed"


def space(
    stored: Stored,
    models: Sequence[str | Model] = tuple(MODELS),
    seed: int = 0,
    progress: Progress = silent,
) -> FittedScores:
    """Score each model on a measured space, as it comes; and on all but a few, fitted to these.

    **Raises:** DseError if the table cannot be read or nothing in it ran.
    """
    times = measured.load(stored.path, stored.description)
    launches = of_kernel(stored.description, stored.gpu.gpu, times.parameters, times.problem)
    with in_64_bits():
        occupancy = np.asarray(launches.launch.warps_per_sm, float)
    usable = np.flatnonzero(times.ok & np.asarray(launches.possible))
    order = np.random.default_rng(seed).permutation(usable)
    few, others = order[:FITTED], order[FITTED:]
    parameters, rows = Parameters(NAMES, widths(stored.gpu)[None]), []
    with progress(f"Fitting to {stored.description.name}", len(models)) as advance:
        for model in get_all(models):
            scores = score(predicted(launches, model), times.time_s, times.ok, occupancy)
            row = {name: getattr(scores, name, None) for name in COLUMNS}
            if len(others) > 1:
                few_times = Data.of(launches.rows(few), times.time_s[few])
                logs = fit([few_times], [0], parameters, model, starts=1, seed=seed, walk=0).logs()
                after = predicted(launches, model, logs)[others]
                row["fitted_spearman"] = spearman(after, times.time_s[others])
                row["fitted_mape_percent"] = mape(after, times.time_s[others])
            counts = {"configurations": scores.configurations, "failed": scores.failed}
            rows.append({"model": model.name} | counts | row)
            advance(1)
    return FittedScores(stored.description.name, stored.gpu.name, rows)


def markdown(space: FittedScores) -> str:
    """Write the section of one space."""
    rows = [[row["model"], *(number(row[name]) for name in COLUMNS)] for row in space.rows]
    head = f"### {space.kernel} on {space.gpu}\n\n{space.summary}.\n\n"
    return head + table(("model", *COLUMNS.values()), rows)
