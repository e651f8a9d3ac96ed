"""Errors of throughput over occupancy, on our own measurements with occupancy swept.

Source: Lemeire et al., Tables 10 to 12.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from dse.accuracy.markdown import table
from dse.accuracy.stored import Stored, predicted
from dse.core.precision import in_64_bits
from dse.core.progress import Progress, silent
from dse.data.scores import mape, mape_shape
from dse.errors import DseError
from dse.explore.fit.launches import Launches, of_kernel
from dse.measure import journal
from dse.models import MODELS, get_all
from dse.models.protocol import Model

KINDS = ("mape_percent", "mape_shape_percent")


@dataclass(frozen=True)
class CurveScores:
    """Scores of models on throughput over occupancy, of one kernel on one GPU."""

    kernel: str
    gpu: str
    configurations: int
    steps: int  # of occupancy, in all of them
    errors: dict[str, dict[str, float | None]]  # by model and `KINDS`: means over the configurations


def curves(
    stored: Stored, models: Sequence[str | Model] = tuple(MODELS), progress: Progress = silent
) -> CurveScores:
    """Score each model on the configurations that were timed at three occupancies or more.

    **Raises:** DseError if the table cannot be read or has no such configuration.
    """
    _, rows = journal.read(stored.path)
    names = stored.description.space.names
    by_configuration: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["status"] == "ok":
            by_configuration[tuple(row[name] for name in names)].append(row)
    swept = [steps for steps in by_configuration.values() if len(steps) > 2]  # a line fits two points exactly
    if not swept:
        raise DseError("found no configuration with three steps of occupancy that ran")
    steps = [row for group in swept for row in group]
    launches = limited(stored, steps)
    occupancy = np.array([row["resident_blocks"] for row in steps], float)
    measured = 1 / (np.array([row["time_ms"] for row in steps]) * 1e-3)
    groups = np.split(np.arange(len(steps)), np.cumsum([len(group) for group in swept])[:-1])
    errors = {}
    with progress(f"Predicting {stored.description.name} over occupancy", len(models)) as advance:
        for model in get_all(models):
            throughput = 1 / predicted(launches, model)
            sizes = [mape(throughput[group], measured[group]) for group in groups]
            shapes = [mape_shape(throughput[group], measured[group], occupancy[group]) for group in groups]
            errors[model.name] = dict(zip(KINDS, (_mean(sizes), _mean(shapes)), strict=True))
            advance(1)
    return CurveScores(stored.description.name, stored.gpu.name, len(swept), len(steps), errors)


def limited(stored: Stored, steps: Sequence[Mapping[str, Any]]) -> Launches:
    """Lay out launches with as many resident blocks as the driver said: an SM runs as many blocks in all."""
    columns = {name: np.array([row[name] for row in steps]) for name in stored.description.space.names}
    sizes = {name: steps[0][name] for name, _ in stored.description.problem}
    launches = of_kernel(stored.description, stored.gpu.gpu, columns, sizes)
    with in_64_bits():
        launch = launches.launch
        blocks = launch.resident_blocks * launch.waves
        held = jnp.asarray([row["resident_blocks"] for row in steps], launch.waves.dtype)
        resident = jnp.minimum(held, blocks)
        return replace(launches, launch=replace(launch, resident_blocks=resident, waves=blocks / resident))


def by_gpu(scores: Iterable[CurveScores]) -> dict[str, list[CurveScores]]:
    """Group the scores by GPU, in the order in which GPUs come."""
    groups: dict[str, list[CurveScores]] = defaultdict(list)
    for curve in scores:
        groups[curve.gpu].append(curve)
    return dict(groups)


def rows(scores: Sequence[CurveScores]) -> list[dict[str, Any]]:
    """Tabulate kernels by models, and the means, as the paper does: `MAPE / MAPE_shape` in percent."""

    def shown(*errors: float | None) -> str:
        return " / ".join("" if error is None else f"{error:.1f}" for error in errors)

    models = list(scores[0].errors)
    lines = [
        {"kernel": curve.kernel} | {model: shown(*curve.errors[model].values()) for model in models}
        for curve in scores
    ]
    means = {
        model: shown(*(_mean([curve.errors[model][kind] for curve in scores]) for kind in KINDS))
        for model in models
    }
    return [*lines, {"kernel": "mean"} | means]


def markdown(gpu: str, scores: Sequence[CurveScores]) -> str:
    """Write the section of one GPU."""
    lines = rows(scores)
    head = f"### Over occupancy on {gpu}\n\nMAPE / MAPE_shape of throughput, in percent.\n\n"
    return head + table(list(lines[0]), [list(line.values()) for line in lines])


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
