"""How well each model ranks and times a measured space: one row a model, and one for random choice."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import jax
import numpy as np

from dse.data.measured import Measured
from dse.describe import Description, Number
from dse.fit.accuracy import budgets, random_expectation, score
from dse.simulate.pipeline import Settings
from dse.sweep.evaluate import Progress, evaluate, silent
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
    """Rows with the fields of `dse.fit.accuracy.Scores`, by `model`.

    Every row of the file is predicted, in its own parameters and problem sizes, also where they lie outside
    the kernel's space. `problem` changes sizes that the file does not state.
    """
    sizes = {**(problem or {}), **measured.problem}
    gpus = jax.tree.map(lambda x: x[None], gpu)
    evaluation = evaluate(description, models, gpus, measured.parameters, sizes, settings, progress)
    occupancy = evaluation.occupancy[0] if measured.occupancy is None else measured.occupancy
    for model, forecast in evaluation.forecasts.items():
        scores = score(forecast.seconds[0], measured.time_s, measured.ok, np.asarray(occupancy, float))
        yield {"model": model} | asdict(scores)
    count = len(measured.ok)
    reached = {
        name: random_expectation(measured.time_s, measured.ok, k) for name, k in budgets(count).items()
    }
    yield {"model": RANDOM, "configurations": count, "failed": int(np.sum(~measured.ok))} | reached
