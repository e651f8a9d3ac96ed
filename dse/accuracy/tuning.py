"""Distance of tuning from the optimum on measured spaces, with and without a model of the kernel."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dse.accuracy import markdown
from dse.accuracy.known import DEFAULTS, PredictionSettings, known
from dse.accuracy.spaces import Note, files, gpu_of, ignore, nothing_in, space_of
from dse.core.progress import Progress, silent
from dse.data.scores import fraction_of_optimum, random_expectation, spearman
from dse.errors import DseError, check_names, one_of
from dse.explore.tune.candidates import Candidates, bare
from dse.explore.tune.loop import replayed, run
from dse.explore.tune.tuner import Tuner

BUDGETS = (5, 10, 20, 50, 100)  # evaluations after which tuning is scored
FITS = (5, 10, 20)  # measurements to which the model is refitted
ORDERS = ("predicted", "reversed", "none")  # of the tuner's predictions


@dataclass(frozen=True)
class TuningSettings:
    """Settings of the tuning that is scored.

    With `parts`, figures are means over as many random halves of a table, each with its own optimum.
    `order` is one of ORDERS: "reversed" reverses the order of the predictions, "none" removes them. Only rows
    with the values of `fixed` count, as where a parameter had no effect on what was measured.

    **Raises:** DseError for another order, or a budget below the first of BUDGETS.
    """

    how: PredictionSettings = DEFAULTS
    seeds: int = 10
    budget: int = 100
    parts: int = 0
    order: str = ORDERS[0]
    fixed: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_names("order", ORDERS, self.order)
        if self.budget < BUDGETS[0]:
            raise DseError(f"budget: found {self.budget}, expected {BUDGETS[0]} or more")


def evaluate(
    folder: Path, plan: TuningSettings, only: str = "", note: Note = ignore, progress: Progress = silent
) -> Iterator[dict[str, Any]]:
    """Tune each measured space of a folder: a row for each table, see `row`. Unusable tables are left out.

    `only` selects the tables whose SPACE/FILE contains it.

    **Raises:** DseError if nothing is left.
    """
    empty = True
    for path in files(folder, only, note):
        try:
            scores = row(path, plan, note, progress)
        except DseError as error:
            note(f"{path}: left out: {error}")
            continue
        empty = False
        yield scores
    if empty:
        raise nothing_in(folder)


def row(path: Path, plan: TuningSettings, note: Note = ignore, progress: Progress = silent) -> dict[str, Any]:
    """Score tuning on one measured table, means over `plan.seeds` seeds.

    Fractions are of the optimum (fastest time over the time reached): `random_20` is the exact expectation of
    20 random choices; `untuned_top20` the best of the model's first 20; `tune_K` the result of tuning after K
    evaluations, 5 to `budget`. `spearman_untuned` is the model's rank correlation, `spearman_fitted_N` that
    of the model refitted to N random measurements, over the others. `from`: source, described or none.
    """
    budgets = [count for count in BUDGETS if count <= plan.budget]
    origin, kernel, table, choices = known(path, plan.how, note, progress)
    rows = _with_values(choices.parameters, plan.fixed)
    choices, time_s, ok = in_order(choices.rows(rows), plan.order), table.time_s[rows], table.ok[rows]
    if origin != "none" and plan.order != ORDERS[0]:
        origin = f"{origin}, {plan.order}" if choices.modelled else "none"
    halves = [_half(len(ok), part) for part in range(plan.parts)] or [np.arange(len(ok))]
    total = len(halves) * (len(FITS) + 1) * plan.seeds
    with progress(f"Tuning {space_of(path)} on {gpu_of(path)}", total) as advance:
        scores = [
            _scores(choices.rows(half), time_s[half], ok[half], plan.seeds, budgets, advance)
            for half in halves
        ]
    result: dict[str, Any] = {"space": space_of(path), "kernel": kernel, "gpu": gpu_of(path), "from": origin}
    result["configurations"] = len(ok)
    for name, value in scores[0].items():
        result[name] = None if value is None else float(np.mean([score[name] or 0.0 for score in scores]))
    return result


def _with_values(parameters: Mapping[str, np.ndarray], fixed: Mapping[str, float]) -> np.ndarray:
    """List the rows of a table that have the fixed values. **Raises:** DseError if there are none."""
    rows = np.arange(len(next(iter(parameters.values()))))
    for name, value in fixed.items():
        if name not in parameters:
            raise DseError(f"found {name!r}, {one_of(name, parameters)}")
        rows = rows[parameters[name][rows] == value]
        if not len(rows):
            allowed = ", ".join(map(str, np.unique(parameters[name]).tolist()))
            raise DseError(f"{name}: found no row with {value}, expected one of {allowed}")
    return rows


def in_order(choices: Candidates, order: str) -> Candidates:
    """Return the candidates with predictions unchanged, in reversed order, or removed.

    Reversed about the median: a prediction of twice the median becomes half of it. Impossible ones stay the
    slowest.
    """
    if order == "predicted":
        return choices
    if order == "none" or not choices.modelled:
        return bare(choices.parameters)
    reversed_s = 2 * np.median(choices.log_s[choices.possible]) - choices.log_s
    slowest = reversed_s.max(where=choices.possible, initial=-np.inf)
    return replace(choices, log_s=np.where(choices.possible, reversed_s, slowest), slopes=-choices.slopes)


def _half(count: int, part: int) -> np.ndarray:
    """Draw half of `count` rows at random."""
    return np.sort(np.random.default_rng(part).permutation(count)[: -(-count // 2)])


def _scores(
    choices: Candidates,
    time_s: np.ndarray,
    ok: np.ndarray,
    seeds: int,
    budgets: Sequence[int],
    advance: Callable[[int], None],
) -> dict[str, float | None]:
    """Compute the scores of `row`."""
    predicted = np.where(choices.possible, choices.log_s, np.inf) if choices.modelled else None
    result = {
        "random_20": random_expectation(time_s, ok, 20),
        "untuned_top20": None if predicted is None else fraction_of_optimum(predicted, time_s, ok, 20),
        "spearman_untuned": None if predicted is None else spearman(predicted[ok], time_s[ok]),
    }
    for count in FITS:
        scores = _by_seed(lambda seed, n=count: _refitted(choices, time_s, ok, n, seed), seeds, advance)
        result[f"spearman_fitted_{count}"] = float(np.mean(scores))
    curves = _by_seed(lambda seed: _tuned(choices, time_s, budgets[-1], seed), seeds, advance)
    for count in budgets:
        result[f"tune_{count}"] = float(np.mean([curve[min(count, len(curve)) - 1] for curve in curves]))
    return result


def with_mean(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows, and the mean of each figure over them."""
    mean: dict[str, Any] = dict.fromkeys(rows[0], "") | {"space": "mean"}
    for name, value in rows[0].items():
        values = [row[name] for row in rows if isinstance(row[name], float)]
        if isinstance(value, float) and values:
            mean[name] = float(np.mean(values))
    return [*rows, mean]


def table(rows: list[dict[str, Any]]) -> str:
    """Write the rows and their mean in Markdown."""
    names = [name for name in rows[0] if name != "kernel"]
    return markdown.table(names, [[_text(row[name]) for name in names] for row in with_mean(rows)], words=3)


def _by_seed(work: Callable[[int], Any], seeds: int, advance: Callable[[int], None]) -> list[Any]:
    results = []
    for seed in range(seeds):
        results.append(work(seed))
        advance(1)
    return results


def _refitted(choices: Candidates, time_s: np.ndarray, ok: np.ndarray, count: int, seed: int) -> float:
    """Return Spearman over the configurations that were not measured."""
    ran = np.random.default_rng(seed).permutation(np.flatnonzero(ok))
    tuner = Tuner(choices, seed, {int(index): float(time_s[index]) for index in ran[:count]})
    return spearman(tuner.predict()[0][ran[count:]], time_s[ran[count:]]) or 0.0


def _tuned(choices: Candidates, time_s: np.ndarray, budget: int, seed: int) -> list[float]:
    """Return the fraction of the optimum after each evaluation."""
    measure = replayed(choices, time_s)
    fastest = float(np.nanmin(time_s))
    done = run(Tuner(choices, seed), measure, budget, lambda n: 1 if n < 20 else 3 if n < 50 else 5).measured
    return [fastest / evaluation.fastest if evaluation.fastest else 0.0 for evaluation in done]


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else f"{value}"
