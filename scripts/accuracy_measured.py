"""Accuracy of every model on our own measurements: `accuracy_measured.py [--json] [-o docs/accuracy.md]`.

They are what `dse measure store` put beside the kernels, as `kernels/*/measured/GPU.parquet`. Each model is
scored as it comes, and with the GPU's parameters fitted to 20 random measurements of a space, on its others.
Where occupancy was swept, the errors of throughput are those of Lemeire et al., Tables 10 to 12. The GPU is
the one that was measured with the spaces where there is such a file, else the data sheet's. Prints tables, or
one JSON object, or writes the section between the markers of the page. All models take some minutes.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dse import catalogue, gpus, kernels, measured
from dse.errors import DseError
from dse.files import fill
from dse.fitting.fit import Data, Parameters, fit
from dse.fitting.launches import Launches, log_seconds, of_kernel
from dse.fitting.parameters import NAMES, widths
from dse.gpus.read import GpuFile
from dse.kernels.description import Description
from dse.measure import journal
from dse.measure.bench.gpu_file import MEASURED, SWEPT
from dse.measured.scores import mape, mape_shape, score, spearman
from dse.models import MODELS, get
from dse.precision import in_64_bits

FITTED = 20  # measurements, of each space
SPACE_COLUMNS = {
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
class Stored:
    """A table beside a kernel, and the GPU that it was measured on."""

    description: Description
    gpu: GpuFile
    path: Path


def stored(end: str) -> Iterator[Stored]:
    """All tables whose names end so behind the GPU's."""
    for name in kernels.names():
        description = kernels.load(name)
        for path in sorted((description.path.parent / "measured").glob("*.parquet")):
            if path.stem.endswith(SWEPT) != (end == SWEPT):
                continue
            slug = path.stem.removesuffix(SWEPT)
            own = catalogue.folder("gpus") / f"{slug}{MEASURED}.toml"
            yield Stored(description, gpus.load(str(own) if own.is_file() else slug), path)


@eqx.filter_jit
def seconds(launches: Launches, model: str, names: tuple[str, ...], logs: jax.Array) -> jax.Array:
    """Predicted times; of impossible launches infinite."""
    return jnp.where(launches.possible, jnp.exp(log_seconds(launches, get(model), names, logs)), jnp.inf)


def predicted(launches: Launches, model: str, logs: np.ndarray | None = None) -> np.ndarray:
    """As `seconds`, with the GPU's parameters as they are unless they are moved."""
    with in_64_bits():
        moved = np.zeros(len(NAMES)) if logs is None else logs
        return np.asarray(seconds(launches, model, NAMES, jnp.asarray(moved)))


def of_all(
    end: str, scores: Callable[[Stored, Sequence[str]], dict[str, Any]], models: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Scores of the tables whose names end so; one that holds nothing to score is left out, and said."""
    for one in stored(end):
        try:
            yield {"kernel": one.description.name, "gpu": one.gpu.name} | scores(one, models)
        except DseError as error:
            print(f"{one.path}: {error}: left out", file=sys.stderr)


def space(one: Stored, models: Sequence[str], seed: int = 0) -> dict[str, Any]:
    """Scores of each model on a measured space, untuned, and fitted to a few on all the others."""
    table = measured.load(one.path, one.description)
    launches = of_kernel(one.description, one.gpu.gpu, table.parameters, table.problem)
    with in_64_bits():
        occupancy = np.asarray(launches.launch.warps_per_sm, float)
    usable = np.flatnonzero(table.ok & np.asarray(launches.possible))
    chosen = np.random.default_rng(seed).permutation(usable)
    few, others = chosen[:FITTED], chosen[FITTED:]
    parameters, rows = Parameters(NAMES, widths(one.gpu)[None]), []
    for model in models:
        before = predicted(launches, model)
        found = score(before, table.time_s, table.ok, occupancy)
        row = {name: getattr(found, name, None) for name in SPACE_COLUMNS}
        if len(others) > 1:
            data = Data.of(launches.rows(few), table.time_s[few])
            logs = fit([data], [0], parameters, get(model), starts=1, seed=seed, walk=0).logs()
            after = predicted(launches, model, logs)[others]
            row["fitted_spearman"] = spearman(after, table.time_s[others])
            row["fitted_mape_percent"] = mape(after, table.time_s[others])
        rows.append({"model": model, "configurations": found.configurations, "failed": found.failed} | row)
    return {"rows": rows}


def curves(one: Stored, models: Sequence[str]) -> dict[str, Any]:
    """Errors of throughput over occupancy, of each model: means over the configurations that were swept."""
    _, rows = journal.read(one.path)
    names = one.description.space.names
    swept: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if row["status"] == "ok":
            swept.setdefault(tuple(row[name] for name in names), []).append(row)
    swept = {key: steps for key, steps in swept.items() if len(steps) > 2}  # a line fits two points exactly
    if not swept:
        raise DseError("found no configuration with three steps of occupancy that ran")
    steps = [row for group in swept.values() for row in group]
    launches = limited(one, steps)
    occupancy = np.array([row["resident_blocks"] for row in steps], float)
    time_s = np.array([row["time_ms"] for row in steps]) * 1e-3
    groups = np.split(np.arange(len(steps)), np.cumsum([len(group) for group in swept.values()])[:-1])
    errors = {}
    for model in models:
        of_time = predicted(launches, model)
        pairs = [(1 / of_time[at], 1 / time_s[at], occupancy[at]) for at in groups]
        errors[model] = {
            "mape_percent": _mean([mape(m, r) for m, r, _ in pairs]),
            "mape_shape_percent": _mean([mape_shape(m, r, x) for m, r, x in pairs]),
        }
    return {"configurations": len(swept), "steps": len(steps), "errors": errors}


def limited(one: Stored, steps: Sequence[Mapping[str, Any]]) -> Launches:
    """The launches with as many resident blocks as the driver said: the busiest SM runs as many in all."""
    columns = {name: np.array([row[name] for row in steps]) for name in one.description.space.names}
    sizes = {name: steps[0][name] for name, _ in one.description.problem}
    launches = of_kernel(one.description, one.gpu.gpu, columns, sizes)
    with in_64_bits():
        launch = launches.launch
        blocks = launch.resident_blocks * launch.waves
        held = jnp.asarray([row["resident_blocks"] for row in steps], launch.waves.dtype)
        resident = jnp.minimum(held, blocks)
        return replace(launches, launch=replace(launch, resident_blocks=resident, waves=blocks / resident))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def space_table(found: dict[str, Any]) -> str:
    """One measured space."""
    first = found["rows"][0]
    lines = [
        f"### {found['kernel']} on {found['gpu']}",
        "",
        f"{first['configurations']:,} configurations, {first['failed']:,} of them failed.",
        "",
        "| model | " + " | ".join(SPACE_COLUMNS.values()) + " |",
        "| --- |" + " ---: |" * len(SPACE_COLUMNS),
    ]
    for row in found["rows"]:
        shown = ["" if row[name] is None else f"{row[name]:.3g}" for name in SPACE_COLUMNS]
        lines.append(f"| {row['model']} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def curves_table(gpu: str, found: Sequence[dict[str, Any]]) -> str:
    """Kernels by models, as the paper has them, and the means."""
    models = list(found[0]["errors"])
    lines = [
        f"### Over occupancy on {gpu}",
        "",
        "MAPE / MAPE_shape of throughput, in percent.",
        "",
        "| kernel | " + " | ".join(models) + " |",
        "| --- |" + " ---: |" * len(models),
    ]
    kinds = ("mape_percent", "mape_shape_percent")
    cells = {row["kernel"]: [[row["errors"][m][kind] for kind in kinds] for m in models] for row in found}
    cells["mean"] = [[_mean([row["errors"][m][kind] for row in found]) for kind in kinds] for m in models]
    for kernel, pairs in cells.items():
        shown = [" / ".join("" if x is None else f"{x:.1f}" for x in pair) for pair in pairs]
        lines.append(f"| {kernel} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", action="append", choices=MODELS, help="one model; repeatable; all without")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    parser.add_argument("-o", "--out", type=Path, help="a page with the two markers, to be filled")
    options = parser.parse_args()
    models = list(dict.fromkeys(options.model or MODELS))
    try:
        spaces, swept = list(of_all("", space, models)), defaultdict(list)
        for found in of_all(SWEPT, curves, models):
            swept[found["gpu"]].append(found)
        if not spaces and not swept:
            raise DseError("kernels/*/measured: found no table, expected what `dse measure store` puts there")
        if options.json:
            print(json.dumps({"spaces": spaces, "curves": swept}))
            return 0
        text = "\n\n".join(
            [*map(space_table, spaces), *(curves_table(gpu, found) for gpu, found in swept.items())]
        )
        if options.out is None:
            print(text)
        else:
            fill(options.out, "own measurements", text)
    except DseError as error:
        print(f"accuracy_measured.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
