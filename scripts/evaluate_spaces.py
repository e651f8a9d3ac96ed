"""How close to the optimum tuning comes, on measured spaces: `evaluate_spaces.py DIR [--json] [-o PAGE]`.

DIR has one folder a kernel, with `T1.json` and one CSV (.csv.gz) or Parquet file a GPU, named after it. The
kernel is read from the source that the T1 names, if it is there; else it is the described kernel that lists
the folder's name; else the space is tuned from its parameters alone (`from`: source, described, none).

A row a file. Fractions are of the optimum (fastest time over the time reached): random choice of 20, exactly;
the best of the model's first 20; `dse tune` after 5 to 100 evaluations. Spearman's rank correlation of the
model, and of the model refitted to 5, 10, 20 measurements taken at random, over the others. Means over
--seeds.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dse import gpus, kernels, measured, sources
from dse.cuda.source_kernel import SourceKernel, architecture
from dse.errors import DseError
from dse.files import fill
from dse.measured.read import Measured
from dse.measured.scores import fraction_of_optimum, random_expectation, spearman
from dse.report.show import progress
from dse.tuning import candidates
from dse.tuning.candidates import Candidates
from dse.tuning.loop import replayed, run
from dse.tuning.tuner import Tuner

SUFFIXES = (".csv.gz", ".csv", ".parquet")
BUDGETS = (5, 10, 20, 50, 100)
FITS = (5, 10, 20)
MODEL = "phase"
COMPILED = 96  # configurations of a kernel that is read from source; the others are estimated
STAND_IN = 80  # compute capability 8.0


def files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.glob("*/*")):
        if path.name.endswith(SUFFIXES):
            yield path


def kernel_of(space: str) -> str | None:
    """The described kernel that lists this name under its spaces."""
    for name in kernels.names():
        if any(alias.name == space for alias in kernels.load(name).spaces):
            return name
    return None


def of_source(path: Path, model: str, compiled: int) -> tuple[str, Measured, Candidates] | None:
    """The kernel that the T1 beside `path` names, read from its source; None if it cannot be."""
    problem = path.with_name("T1.json")
    try:
        description = sources.load(problem)
        if description.source is None or not description.source.is_file():
            return None
        kernel, gpu = SourceKernel(description, compiled), _compiled_for(gpus.load(_gpu(path)))
        table = measured.load(path, kernel)
        found = candidates.of_kernel(kernel, gpu, model, table.parameters, table.problem, progress)
    except DseError as error:
        print(f"{path}: not read from source: {error}", file=sys.stderr)
        return None
    return description.name, table, found


def _compiled_for(gpu: gpus.GpuFile) -> gpus.GpuFile:
    """The GPU; one that NVIDIA's compiler does not know with a stand-in for what to compile for."""
    try:
        architecture(gpu.gpu)
    except DseError as error:
        print(f"{error}: counted as for compute capability {STAND_IN / 10}", file=sys.stderr)
        return replace(gpu, gpu=replace(gpu.gpu, compute_capability=STAND_IN))
    return gpu


def of_description(path: Path, model: str) -> tuple[str, Measured, Candidates] | None:
    """The described kernel that the folder is named after; None if there is none."""
    name = kernel_of(path.parent.name)
    if name is None:
        return None
    try:
        description, gpu = kernels.load(name), gpus.load(_gpu(path))
        table = measured.load(path, description)
    except DseError as error:
        print(f"{path}: not predicted: {error}", file=sys.stderr)
        return None
    return name, table, candidates.of_kernel(description, gpu, model, table.parameters, table.problem)


def of_parameters(path: Path) -> tuple[str, Measured, Candidates]:
    """No kernel: the parameters that the T1 names, whatever else it holds."""
    problem = path.with_name("T1.json")
    try:
        space = json.loads(problem.read_text(encoding="utf-8"))["ConfigurationSpace"]
        names = [each["Name"] for each in space["TuningParameters"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DseError(
            f"{problem}: found no names of parameters ({error!r}), expected a T1 problem"
        ) from None
    table = measured.load_space(path, names)
    return "", table, candidates.bare(table.parameters)


def _gpu(path: Path) -> str:
    return path.name.split(".")[0]


def row(path: Path, model: str, seeds: int, most: int, compiled: int) -> dict[str, Any]:
    """What is said of one file."""
    found, how = None, "none"
    if path.with_name("T1.json").is_file():
        found, how = of_source(path, model, compiled), "source"
    if found is None:
        found, how = of_description(path, model), "described"
    if found is None:
        found, how = of_parameters(path), "none"
    kernel, table, choices = found
    time_s, ok = table.time_s, table.ok
    predicted = np.where(choices.possible, choices.log_s, np.inf) if choices.modelled else None
    result: dict[str, Any] = {
        "space": path.parent.name,
        "kernel": kernel,
        "gpu": _gpu(path),
        "from": how,
        "configurations": len(ok),
        "random_20": random_expectation(time_s, ok, 20),
        "untuned_top20": None if predicted is None else fraction_of_optimum(predicted, time_s, ok, 20),
        "spearman_untuned": None if predicted is None else spearman(predicted[ok], time_s[ok]),
    }
    for count in FITS:
        scores = [_refitted(choices, table, count, seed) for seed in range(seeds)]
        result[f"spearman_fitted_{count}"] = float(np.mean(scores))
    budgets = [k for k in BUDGETS if k <= most]
    curves = [_tuned(choices, table, max(budgets), seed) for seed in range(seeds)]
    for k in budgets:
        result[f"tune_{k}"] = float(np.mean([curve[min(k, len(curve)) - 1] for curve in curves]))
    return result


def _refitted(choices: Candidates, table: Measured, count: int, seed: int) -> float:
    """Spearman over the configurations that were not measured."""
    ran = np.random.default_rng(seed).permutation(np.flatnonzero(table.ok))
    tuner = Tuner(choices, seed, {int(place): float(table.time_s[place]) for place in ran[:count]})
    return spearman(tuner.predict()[0][ran[count:]], table.time_s[ran[count:]]) or 0.0


def _tuned(choices: Candidates, table: Measured, budget: int, seed: int) -> list[float]:
    """The fraction of the optimum after each evaluation."""
    measure = replayed(choices, table.time_s)
    fastest = float(np.nanmin(table.time_s))
    done = run(Tuner(choices, seed), measure, budget, lambda n: 1 if n < 20 else 3 if n < 50 else 5).measured
    return [fastest / each.fastest if each.fastest else 0.0 for each in done]


def markdown(rows: list[dict[str, Any]]) -> str:
    names = [name for name in rows[0] if name != "kernel"]
    lines = ["| " + " | ".join(names) + " |", "| --- | --- | --- |" + " ---: |" * (len(names) - 3)]
    for each in rows:
        cells = [each[name] for name in names]
        shown = ["" if x is None else f"{x:.3f}" if isinstance(x, float) else f"{x}" for x in cells]
        lines.append("| " + " | ".join(shown) + " |")
    return "\n".join(lines)


def with_mean(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows, and the mean of each figure over them."""
    mean: dict[str, Any] = dict.fromkeys(rows[0], "") | {"space": "mean"}
    for name, value in rows[0].items():
        values = [each[name] for each in rows if isinstance(each[name], float)]
        if isinstance(value, float) and values:
            mean[name] = float(np.mean(values))
    return [*rows, mean]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budget", type=int, default=100, help="evaluations of tune, at most")
    parser.add_argument("--compile", type=int, default=COMPILED, help="configurations read from source")
    parser.add_argument("--only", help="spaces or GPUs whose name holds this")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("-o", "--out", type=Path, help="a page with the two markers, to be filled")
    options = parser.parse_args()
    try:
        rows = []
        for path in files(options.folder):
            if options.only and options.only not in str(path.relative_to(options.folder)):
                continue
            start = time.perf_counter()
            try:
                rows.append(row(path, options.model, options.seeds, options.budget, options.compile))
            except DseError as error:
                print(f"{path}: left out: {error}", file=sys.stderr)
            print(f"{path}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
        if not rows:
            raise DseError(f"{options.folder}: found no measured table, expected FOLDER/SPACE/GPU.csv.gz")
        if options.json:
            print(json.dumps({"rows": rows}))
            return 0
        text = markdown(with_mean(rows))
        if options.out is None:
            print(text)
            return 0
        fill(options.out, "tuning", text)
    except DseError as error:
        print(f"evaluate_spaces.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
