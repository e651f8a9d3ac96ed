"""Scores of models on our own measurements: `own_measurements.py [--model MODEL]... [--page FILE] [--json]`.

The tables are those of `dse measure store` beside the kernels. Each model is scored unfitted, and
with the GPU's parameters fitted to 20 random measurements of a space, on its others. Where occupancy was
swept, errors are of throughput, as in Lemeire et al., Tables 10 to 12. `--page` fills the section
`own measurements` of a page.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from ending import run_script

from dse import kernels
from dse.accuracy.markdown import number, table
from dse.core import catalogue
from dse.core.files import fill
from dse.core.precision import in_64_bits
from dse.data import measured
from dse.data.scores import mape, mape_shape, score, spearman
from dse.errors import DseError
from dse.explore.fit.fit import Data, Parameters, fit
from dse.explore.fit.launches import Launches, log_seconds, of_kernel
from dse.explore.fit.parameters import NAMES, widths
from dse.hardware import gpus
from dse.hardware.gpus import GpuFile
from dse.kernels.description import Description
from dse.measure import journal
from dse.measure.bench.gpu_file import MEASURED, SWEPT
from dse.models import MODELS, get_all
from dse.models.protocol import Model
from dse.report.numbers import json_text

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
KINDS = ("mape_percent", "mape_shape_percent")
Scores = dict[str, Any]


@dataclass(frozen=True)
class Stored:
    """A table of a kernel, and the GPU on which it was measured."""

    description: Description
    gpu: GpuFile  # its measured file if there is one, else that of the data sheet
    path: Path


def stored(swept: bool = False) -> Iterator[Stored]:
    """Yield the tables of all kernels: of spaces, or those with swept occupancy."""
    for name in kernels.names():
        description = kernels.load(name)
        for path in sorted((description.path.parent / "measured").glob("*.parquet")):
            stem = path.stem.partition("-")[0]  # without problem sizes
            if stem.endswith(SWEPT) != swept:
                continue
            slug = stem.removesuffix(SWEPT)
            measured_file = catalogue.folder("gpus") / f"{slug}{MEASURED}.toml"
            yield Stored(
                description, gpus.load(str(measured_file) if measured_file.is_file() else slug), path
            )


def scored(tables: Iterable[Stored], scores: Callable[[Stored], Scores]) -> Iterator[Scores]:
    """Score tables, with `kernel` and `gpu`; one with nothing to score is left out, with a note."""
    for stored_table in tables:
        try:
            names = {"kernel": stored_table.description.name, "gpu": stored_table.gpu.name}
            yield names | scores(stored_table)
        except DseError as error:
            print(f"{stored_table.path}: {error}: left out", file=sys.stderr)


def predicted(launches: Launches, model: str | Model, logs: np.ndarray | None = None) -> np.ndarray:
    """Predict seconds of launches [L], infinite where one is impossible.

    `logs` are changes of the GPU's parameters, as logs; none by default.
    """
    with in_64_bits():
        moved = np.zeros(len(NAMES)) if logs is None else logs
        return np.asarray(_seconds(launches, model, jnp.asarray(moved)))


@eqx.filter_jit
def _seconds(launches: Launches, model: str | Model, logs: jax.Array) -> jax.Array:
    return jnp.where(launches.possible, jnp.exp(log_seconds(launches, model, NAMES, logs)), jnp.inf)


def space_scores(space: Stored, models: Sequence[str | Model], seed: int = 0) -> Scores:
    """Score each model on a measured space, unfitted; and fitted to a few measurements, on the others.

    `rows` have for each model COLUMNS, and the numbers of configurations and failures.

    **Raises:** DseError if the table cannot be read or nothing in it ran.
    """
    times = measured.load(space.path, space.description)
    launches = of_kernel(space.description, space.gpu.gpu, times.parameters, times.problem)
    with in_64_bits():
        occupancy = np.asarray(launches.launch.warps_per_sm, float)
    usable = np.flatnonzero(times.ok & np.asarray(launches.possible))
    order = np.random.default_rng(seed).permutation(usable)
    few, others = order[:FITTED], order[FITTED:]
    parameters, rows = Parameters(NAMES, widths(space.gpu)[None]), []
    for model in get_all(models):
        scores = score(predicted(launches, model), times.time_s, times.ok, occupancy)
        row = {name: getattr(scores, name, None) for name in COLUMNS}
        if len(others) > 1:
            few_times = Data.of(launches.rows(few), times.time_s[few])
            logs = fit([few_times], [0], parameters, model, starts=1, seed=seed, walk=None).logs()
            after = predicted(launches, model, logs)[others]
            row["fitted_spearman"] = spearman(after, times.time_s[others])
            row["fitted_mape_percent"] = mape(after, times.time_s[others])
        counts = {"configurations": scores.configurations, "failed": scores.failed}
        rows.append({"model": model.name} | counts | row)
    return {"rows": rows}


def curve_scores(swept: Stored, models: Sequence[str | Model]) -> Scores:
    """Score each model on configurations that were timed at three occupancies or more.

    `errors` are by model and KINDS, means over the `configurations`, which have `steps` of occupancy in all.

    **Raises:** DseError if the table cannot be read or has no such configuration.
    """
    _, rows = journal.read(swept.path)
    names = swept.description.space.names
    by_configuration: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["status"] == "ok":
            by_configuration[tuple(row[name] for name in names)].append(row)
    # A line fits two points exactly.
    groups = [steps for steps in by_configuration.values() if len(steps) > 2]
    if not groups:
        raise DseError("found no configuration with three steps of occupancy that ran")
    steps = [row for group in groups for row in group]
    launches = limited(swept, steps)
    occupancy = np.array([row["resident_blocks"] for row in steps], float)
    throughput = 1 / (np.array([row["time_ms"] for row in steps]) * 1e-3)
    places = np.split(np.arange(len(steps)), np.cumsum([len(group) for group in groups])[:-1])
    errors = {}
    for model in get_all(models):
        ours = 1 / predicted(launches, model)
        sizes = [mape(ours[at], throughput[at]) for at in places]
        shapes = [mape_shape(ours[at], throughput[at], occupancy[at]) for at in places]
        errors[model.name] = dict(zip(KINDS, (_mean(sizes), _mean(shapes)), strict=True))
    return {"configurations": len(groups), "steps": len(steps), "errors": errors}


def limited(swept: Stored, steps: Sequence[Mapping[str, Any]]) -> Launches:
    """Make launches with the driver's numbers of resident blocks; an SM runs equally many blocks in total."""
    columns = {name: np.array([row[name] for row in steps]) for name in swept.description.space.names}
    sizes = {name: steps[0][name] for name, _ in swept.description.problem}
    launches = of_kernel(swept.description, swept.gpu.gpu, columns, sizes)
    with in_64_bits():
        launch = launches.launch
        blocks = launch.resident_blocks * launch.waves
        held = jnp.asarray([row["resident_blocks"] for row in steps], launch.waves.dtype)
        resident = jnp.minimum(held, blocks)
        return replace(launches, launch=replace(launch, resident_blocks=resident, waves=blocks / resident))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def space_markdown(space: Scores) -> str:
    """Write the section of one space."""
    rows = [[row["model"], *(number(row[name]) for name in COLUMNS)] for row in space["rows"]]
    first = space["rows"][0]
    summary = f"{first['configurations']:,} configurations, {first['failed']:,} of them failed"
    head = f"### {space['kernel']} on {space['gpu']}\n\n{summary}.\n\n"
    return head + table(("model", *COLUMNS.values()), rows)


def curves_markdown(gpu: str, curves: Sequence[Scores]) -> str:
    """Write the section of one GPU: kernels by models, and means, as in the paper."""

    def shown(errors: Iterable[float | None]) -> str:
        return " / ".join("" if error is None else f"{error:.1f}" for error in errors)

    models = list(curves[0]["errors"])
    lines = [
        [curve["kernel"], *(shown(curve["errors"][model].values()) for model in models)] for curve in curves
    ]
    means = [
        shown(_mean([curve["errors"][model][kind] for curve in curves]) for kind in KINDS) for model in models
    ]
    head = f"### Over occupancy on {gpu}\n\nMAPE / MAPE_shape of throughput, in percent.\n\n"
    return head + table(["kernel", *models], [*lines, ["mean", *means]])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print or write the scores. **Raises:** DseError if nothing was measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", action="append", metavar="MODEL", help="all without it; repeatable")
    parser.add_argument("--page", type=Path, metavar="FILE", help="fill its section instead of printing")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of Markdown")
    options = parser.parse_args(arguments)
    models = options.model or tuple(MODELS)
    spaces = list(scored(stored(), lambda space: space_scores(space, models)))
    curves: dict[str, list[Scores]] = defaultdict(list)
    for swept in scored(stored(swept=True), lambda swept: curve_scores(swept, models)):
        curves[swept["gpu"]].append(swept)
    if not spaces and not curves:
        raise DseError("kernels/*/measured: found no table, expected those of `dse measure store`")
    if options.json:
        print(json_text({"spaces": spaces, "curves": curves}))
        return
    text = "\n\n".join([*map(space_markdown, spaces), *(curves_markdown(*item) for item in curves.items())])
    if options.page:
        fill(options.page, "own measurements", text)
    else:
        print(text)


if __name__ == "__main__":
    run_script(main)
