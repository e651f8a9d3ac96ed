"""Compare `dse tune` with other tuners, or with and without priors: `compare_tuners.py DIR [-o PAGE]`.

DIR is as for `dse accuracy tuning`. Each tuner makes --budget evaluations of each table, with each of
--seeds: `dse tune`, with and without the model, Optuna's samplers and Kernel Tuner's strategies. Optuna does
not know the constraints, so invalid suggestions do not count. Reported is the share of the best performance
reached: its mean over tables and seeds, after the last evaluation the deviation of that mean over seeds, and
the worst table. --priors reports instead the gain of `dse tune` by the tables of the kernel's other GPUs.
"""

import argparse
import contextlib
import io
import json
import random
import runpy
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from ending import run_script

from dse.accuracy import markdown
from dse.accuracy.known import DEFAULTS, KnownKernel, known
from dse.accuracy.spaces import files, gpu_of, kernel_of, nothing_in, space_of
from dse.bridges import export
from dse.core.files import fill
from dse.core.jax_cache import cache
from dse.errors import DseError
from dse.explore.tune.candidates import Candidates, bare
from dse.explore.tune.loop import replayed, run
from dse.explore.tune.others import with_others
from dse.explore.tune.tuner import Tuner

Curve = list[float]  # fastest seconds after each evaluation
Tune = Callable[[Candidates, np.ndarray, int, int], Curve]  # candidates, their seconds, evaluations, seed
SCORED = (5, 10, 20, 30)  # evaluations
AT_FIRST = (1, 5, 10, 20)  # ... with other tables
TRIES = 50  # of Optuna, for each evaluation
STRATEGIES = ("genetic_algorithm", "pso", "simulated_annealing", "greedy_ils", "diff_evo")
_tell = partial(print, file=sys.stderr, flush=True)


def with_dse(candidates: Candidates, seconds: np.ndarray, budget: int, seed: int) -> Curve:
    """Tune by `dse tune`."""
    measured = run(Tuner(candidates, seed), replayed(candidates, seconds), budget).measured
    return [np.inf if trial.fastest is None else trial.fastest for trial in measured]


def without_model(candidates: Candidates, seconds: np.ndarray, budget: int, seed: int) -> Curve:
    """Tune by `dse tune` without a model."""
    return with_dse(bare(candidates.parameters), seconds, budget, seed)


def with_optuna(sampler: str) -> Tune:
    """Tune by one of Optuna's samplers, with each parameter as the index of its value."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def tune(candidates: Candidates, seconds: np.ndarray, budget: int, seed: int) -> Curve:
        values = {name: np.unique(column) for name, column in candidates.varying.items()}
        points = zip(*(np.searchsorted(values[n], c) for n, c in candidates.varying.items()), strict=True)
        index_of = {tuple(map(int, point)): index for index, point in enumerate(points)}
        study = optuna.create_study(sampler=getattr(optuna.samplers, sampler)(seed=seed))
        measured = dict[int, float]()
        for _ in range(TRIES * budget):
            trial = study.ask()
            point = tuple(trial.suggest_int(name, 0, len(values[name]) - 1) for name in values)
            index = index_of.get(point)
            if index is None or not np.isfinite(seconds[index]):
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                study.tell(trial, float(np.log(seconds[index])))
            if index is not None:
                measured.setdefault(index, float(seconds[index]))
            if len(measured) == budget:
                break
        return np.minimum.accumulate(list(measured.values())).tolist()

    return tune


def with_kernel_tuner(strategy: str) -> Tune:
    """Tune by one of Kernel Tuner's strategies, in its simulation mode."""
    from kernel_tuner import tune_kernel

    def tune(candidates: Candidates, seconds: np.ndarray, budget: int, seed: int) -> Curve:
        columns = {name: column.tolist() for name, column in candidates.parameters.items()}
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        times = [float(1e3 * s) if np.isfinite(s) else "RuntimeFailedConfig" for s in seconds]
        entries = [row | {"time": time, "times": [time]} for row, time in zip(rows, times, strict=True)]
        space = {name: sorted(set(column)) for name, column in columns.items()}
        content = {
            "device_name": "replayed",
            "kernel_name": "kernel",
            "problem_size": 1,
            "tune_params_keys": list(columns),
            "tune_params": space,
            "objective": "time",
            "cache": {",".join(map(str, row.values())): e for row, e in zip(rows, entries, strict=True)},
        }
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002, Kernel Tuner draws from it
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path, limits = Path(folder) / "cache.json", Path(folder) / "limits.py"
            path.write_text(json.dumps(content), encoding="utf-8")
            export.kernel_tuner(columns, limits)
            with contextlib.redirect_stdout(io.StringIO()):
                results, _ = tune_kernel(
                    "kernel",
                    'extern "C" __global__ void kernel() {}',
                    1,
                    [],
                    space,
                    restrictions=runpy.run_path(str(limits))["restrictions"],
                    strategy=strategy,
                    strategy_options={"max_fevals": budget},
                    simulation_mode=True,
                    cache=str(path),
                )
        measured = [1e-3 * r["time"] if isinstance(r["time"], float) else np.inf for r in results]
        return np.minimum.accumulate(measured[:budget]).tolist()

    return tune


def tuners() -> dict[str, Tune]:
    """Return the compared tuners by name."""
    optuna = {f"Optuna, {name}": with_optuna(f"{name}Sampler") for name in ("TPE", "CmaEs", "Random")}
    others = {f"Kernel Tuner, {name}": with_kernel_tuner(name) for name in STRATEGIES}
    return {"dse tune": with_dse, "dse tune, no model": without_model} | optuna | others


def beside(spaces: Sequence[KnownKernel], names: Sequence[str], budget: int, seeds: int) -> list[list[str]]:
    """Tune with each tuner: a row of cells for each."""
    table, counts = [], [*(count for count in SCORED if count < budget), budget]
    for name, tune in tuners().items():
        if names and name not in names:
            continue
        scores = np.array([[_scores(s, tune, budget, seed, counts) for seed in range(seeds)] for s in spaces])
        mean, spread = scores.mean(axis=(0, 1)), scores.mean(axis=0).std(axis=0)
        worst = scores.mean(axis=1).min(axis=0)[-1]
        table.append([name, *(f"{x:.3f}" for x in mean), f"{spread[-1]:.3f}", f"{worst:.3f}"])
        _tell(" ".join(table[-1]))
    return [["tuner", *map(str, counts), "spread over seeds", "worst table"], *table]


def priors(paths: Sequence[Path], spaces: Sequence[KnownKernel], seeds: int) -> list[list[str]]:
    """Tune each table with those of its space's other GPUs: a row of gains for each."""
    table, gains = list[list[str]](), list[np.ndarray]()
    for path, space in zip(paths, spaces, strict=True):
        others = [other for other in paths if other != path and space_of(other) == space_of(path)]
        kernel = kernel_of(path)
        if not others or kernel is None:
            continue
        informed = space._replace(candidates=with_others(space.candidates, kernel, others))
        with_and_without = [
            np.mean([_scores(x, with_dse, AT_FIRST[-1], seed, AT_FIRST) for seed in range(seeds)], axis=0)
            for x in (informed, space)
        ]
        gains.append(with_and_without[0] - with_and_without[1])
        table.append([space_of(path), gpu_of(path), *(f"{x:+.3f}" for x in gains[-1])])
        _tell(" ".join(table[-1]))
    if not table:
        raise DseError("tables: found no two of one described kernel, expected at least two")
    mean = ["mean", "", *(f"{x:+.3f}" for x in np.mean(gains, axis=0))]
    return [["space", "gpu", *map(str, AT_FIRST)], *table, mean]


def _scores(space: KnownKernel, tune: Tune, budget: int, seed: int, counts: Sequence[int]) -> list[float]:
    """Return the share of the best performance after each count of evaluations."""
    seconds = np.where(space.table.ok, space.table.time_s, np.inf)
    curve = tune(space.candidates, seconds, budget, seed)
    return [float(seconds.min() / curve[min(count, len(curve)) - 1]) for count in counts]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--budget", type=int, default=SCORED[-1])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="tables whose SPACE/FILE contains this text")
    parser.add_argument("--tuner", action="append", default=[], help="a tuner of the table; repeatable")
    parser.add_argument("--priors", action="store_true", help="the gain by tables of other GPUs")
    parser.add_argument("-o", "--out", type=Path, help="a page with the two markers to fill")
    options = parser.parse_args()
    cache()
    paths = files(options.folder, options.only, _tell)
    if not paths:
        raise nothing_in(options.folder)
    spaces = [known(path, DEFAULTS, _tell) for path in paths]
    head, *rows = (
        priors(paths, spaces, options.seeds)
        if options.priors
        else beside(spaces, options.tuner, options.budget, options.seeds)
    )
    text = markdown.table(head, rows, words=2 if options.priors else 1)
    if options.out is None:
        print(text)
    else:
        fill(options.out, "priors" if options.priors else "other tuners", text)


if __name__ == "__main__":
    run_script(main)
