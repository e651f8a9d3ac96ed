"""Optuna studies over one kernel or several variants of the same work, in batches.

A categorical parameter selects the variant, with the variant's own parameters below it, so that variants are
ranked by their best configurations. Parameters are suggested as indices of values, in configurations that
satisfy all constraints (`dse.explore.search.feasible`). Impossible launches, and enqueued configurations that
violate constraints, are reported without a time: as complete trials that violate Optuna's constraints, if the
sampler learns from those, else as pruned ones. Every other suggestion is for the variant tried least, so that
slower variants are searched too and ranked fairly.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import optuna
from optuna.trial import Trial, TrialState

from dse.data.columns import SHORT
from dse.data.tables import ConfigurationResult
from dse.errors import DseError, check_names
from dse.evaluate.chunks import evaluate
from dse.explore.search import storage as stored
from dse.explore.search.feasible import Feasible
from dse.explore.search.neighbours import VARIANT, Variant
from dse.explore.search.samplers import FEW, constrained, sampler, suitable
from dse.explore.search.storage import Lists
from dse.hardware.gpus import stack
from dse.kernels.counts import Counts, Number
from dse.models import get
from dse.models.protocol import Model
from dse.types import Gpu

OBJECTIVES = {"time": "s", "registers": "1", "shared": "B"}
COLUMN = {name: SHORT.get(name, name) for name in OBJECTIVES}  # of each objective
BATCH = 20
EXHAUSTIVE = 200_000  # most configurations that are enumerated to find the optimum
EXHAUSTIVE_SIMULATED = 5_000  # with a simulated model: some seconds

Suggestion = tuple[Trial, str, dict[str, Number]]  # a trial, its variant, and its parameters' values
_WHY = "why not"
_BROKEN, _IMPOSSIBLE = "breaks a constraint", "cannot run"


@dataclass(repr=False)
class Search(ConfigurationResult):
    """A study of variants for objectives.

    The sampler works on a study in memory, of indices; `kept` is its copy in storage, of values, written once
    a batch, since a database is slower for one trial than a model for a thousand configurations.
    """

    study: optuna.Study
    sampler: Feasible
    kept: stored.StoredStudy | None
    variants: dict[str, Variant]
    objectives: tuple[str, ...]
    suggested: Counter[str] = field(default_factory=Counter)  # suggestions of each variant, in this run
    enqueued: list[dict[str, Any]] = field(default_factory=list)  # parameters of trials to try first
    unsaved: set[int] = field(default_factory=set)  # numbers of finished trials not yet in the storage

    def evaluated(self) -> list[optuna.trial.FrozenTrial]:
        """Trials that were evaluated by the model."""
        states = (TrialState.COMPLETE, TrialState.PRUNED)
        done = self.study.get_trials(deepcopy=False, states=states)
        return [trial for trial in done if trial.user_attrs.get(_WHY) != _BROKEN]

    def rows(self, top: int | None = None) -> list[dict[str, Any]]:
        """Return the fastest trial of each variant, fastest first; variants without a trial come last."""
        fastest: dict[str, optuna.trial.FrozenTrial] = {}
        done = self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        for trial in done:
            name = self._variant_of(trial)
            if _WHY in trial.user_attrs:
                continue
            if name not in fastest or trial.values[0] < fastest[name].values[0]:
                fastest[name] = trial
        rows = [self._row(name, trial) for name, trial in fastest.items()]
        rows.sort(key=lambda row: row["time_s"])
        rows += [{"kernel": name, "time_s": None} for name in self.variants if name not in fastest]
        return rows[:top]

    def front(self) -> list[dict[str, Any]]:
        """Return the Pareto front, each configuration once, fastest first."""
        rows = [self._row(self._variant_of(trial), trial) for trial in self.study.best_trials]
        unique = {tuple(row.items()): row for row in rows}
        return sorted(unique.values(), key=lambda row: row["time_s"])

    @property
    def hidden(self) -> tuple[str, ...]:
        """Columns omitted in displayed tables: problem sizes, and parameters with a single value."""
        variants = self.variants.values()
        free = {name for variant in variants for name in variant.free}
        names = (name for variant in variants for name in (*variant.problem, *variant.kernel.space.names))
        return tuple(name for name in dict.fromkeys(names) if name not in free)

    def _variant_of(self, trial: optuna.trial.FrozenTrial) -> str:
        return trial.params.get(VARIANT, next(iter(self.variants)))

    def _row(self, name: str, trial: optuna.trial.FrozenTrial) -> dict[str, Any]:
        variant = self.variants[name]
        values = {parameter: choices[0] for parameter, choices in variant.kernel.space.values.items()}
        for parameter, choices in variant.free.items():
            values[parameter] = choices[trial.params[f"{name}.{parameter}"]]
        row = {COLUMN[goal]: value for goal, value in zip(self.objectives, trial.values, strict=True)}
        return {"kernel": name} | row | dict(variant.problem) | values


def variants(kernels: Iterable[tuple[Counts, Mapping[str, Number]]]) -> dict[str, Variant]:
    """Name the kernels to choose from. **Raises:** DseError if their work differs."""
    named = {kernel.name: Variant(kernel, problem) for kernel, problem in kernels}
    works = sorted({variant.kernel.variant_of for variant in named.values()})
    if len(works) > 1:
        raise DseError(
            f"KERNEL: found kernels of different work ({', '.join(works)}), expected variants of one"
        )
    return named


def objectives(text: str) -> tuple[str, ...]:
    """Parse `time` or `time,registers,shared`, or their columns; time first. **Raises:** DseError."""
    goals = {column: goal for goal, column in COLUMN.items()}
    names = (name.strip() for name in text.split(","))
    names = tuple(dict.fromkeys(goals.get(name, name) for name in names))
    check_names("objective", OBJECTIVES, *names, kind="some of")
    if names[0] != "time":
        raise DseError(f"objective: found {names[0]!r} first, expected time")
    return names


def start(
    choices: Mapping[str, Variant],
    gpu_name: str,
    model: str | Model,
    goals: Sequence[str],
    algorithm: str = "tpe",
    storage: str | None = None,
    seed: int | None = None,
    trials: int = FEW,
) -> Search:
    """Start a study, or load the one in `storage` of the same kernels, sizes, GPU, model and objectives.

    `trials` is their planned number, for the sampler `auto`.

    **Raises:** DseError if the storage cannot be used, or has this study with other lists of values.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    key = repr([(repr(v.kernel), sorted(v.problem.items())) for v in choices.values()])
    digest = hashlib.sha256(key.encode()).hexdigest()[:12]
    name = f"{'+'.join(choices)} on {gpu_name} by {get(model).name} for {','.join(goals)} ({digest})"
    metrics = [goal if OBJECTIVES[goal] == "1" else f"{goal} [{OBJECTIVES[goal]}]" for goal in goals]
    algorithm = suitable(algorithm, trials, len(goals), len(choices))
    study, kept = stored.make(metrics), None
    if storage is not None:
        named = {kernel: variant.free.items() for kernel, variant in choices.items()}
        lists = Lists({f"{kernel}.{key}": values for kernel in named for key, values in named[kernel]})
        kept = stored.load(storage, name, metrics, lists)
        kept.fill(study)
    known = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)) if len(choices) == 1 else ()
    study.sampler = feasible = Feasible(sampler(algorithm, seed, trials, known), choices, seed)
    return Search(study, feasible, kept, dict(choices), tuple(goals))


def enqueue(search: Search, rows: Iterable[Mapping[str, Any]], source: str) -> int:
    """Enqueue configurations to try first: rows with a value for each parameter that has a choice.

    With several variants, a row names its own as `variant` or `kernel`. Other columns are ignored.
    Duplicates, and configurations already in the study, are skipped. Returns the number enqueued.

    **Raises:** DseError naming `source` for an unknown variant, or a missing or unknown value.
    """
    known = {tuple(sorted(trial.params.items())) for trial in search.evaluated()}
    for number, row in enumerate(rows, 1):
        where = f"{source}: row {number}"
        name = row.get(VARIANT) or row.get("kernel") or next(iter(search.variants))
        check_names(f"{where}: variant", search.variants, name)
        parameters: dict[str, Any] = {VARIANT: name} if len(search.variants) > 1 else {}
        for parameter, choices in search.variants[name].free.items():
            if row.get(parameter) is None:
                raise DseError(f"{where}: {parameter}: found none, expected a value")
            if row[parameter] not in choices:
                expected = f"one of {', '.join(map(str, choices))}"
                raise DseError(f"{where}: {parameter}: found {row[parameter]}, expected {expected}")
            parameters[f"{name}.{parameter}"] = choices.index(row[parameter])
        key = tuple(sorted(parameters.items()))
        if key not in known:
            known.add(key)
            search.enqueued.append(parameters)
    return len(search.enqueued)


def run(
    search: Search,
    gpu: Gpu,
    model: str | Model,
    trials: int,
    advance: Callable[[int], None] = lambda steps: None,
    batch: int = BATCH,
) -> None:
    """Run the study until it has `trials` evaluated trials, including those of an interrupted run.

    Each batch is one vectorised model call a variant.
    **Raises:** DseError if no configuration is valid.
    """
    done = len(search.evaluated())
    advance(min(done, trials))
    while done < trials:
        suggestions: list[Suggestion] = []
        while len(suggestions) < min(batch, trials - done):
            suggestions += _ask(search)
        values = _evaluate(search, gpu, model, suggestions)
        _report(search, suggestions, values, trials)
        before, done = done, len(search.evaluated())
        advance(min(done, trials) - before)


def _report(
    search: Search, suggestions: Sequence[Suggestion], values: Sequence[Sequence[float]], trials: int
) -> None:
    """Report a batch to the sampler, and synchronize with the storage, up to `trials` trials."""
    kept = search.kept
    with kept.alone() if kept is not None else nullcontext():
        if kept is not None:
            search.study.add_trials(kept.news())
        room = max(0, trials - len(search.evaluated()))
        for (trial, _, _), value in zip(suggestions[:room], values, strict=False):
            if math.isfinite(value[0]):
                _tell(search, trial, value)
            else:
                trial.set_user_attr(_WHY, _IMPOSSIBLE)
                _tell(search, trial, None, impossible=1)
            search.unsaved.add(trial.number)
        for trial, _, _ in suggestions[room:]:  # other processes were faster
            search.study.tell(trial, state=TrialState.FAIL)
        if kept is not None:
            all_trials = search.study.get_trials(deepcopy=False)
            kept.add([trial for trial in all_trials if trial.number in search.unsaved])
        search.unsaved.clear()


def _ask(search: Search) -> list[Suggestion]:
    """Ask for one suggestion; none if an enqueued configuration violates a constraint."""
    names = list(search.variants)
    if search.enqueued:
        search.study.enqueue_trial(search.enqueued.pop(0))
    every_other = len(names) > 1 and sum(search.suggested.values()) % 2
    search.sampler.variant = min(names, key=lambda name: search.suggested[name]) if every_other else None
    trial = search.study.ask()
    name = trial.suggest_categorical(VARIANT, names) if len(names) > 1 else names[0]
    search.suggested[name] += 1
    variant = search.variants[name]
    values = {parameter: choices[0] for parameter, choices in variant.kernel.space.values.items()}
    for parameter, choices in variant.free.items():
        values[parameter] = choices[trial.suggest_int(f"{name}.{parameter}", 0, len(choices) - 1)]
    known = {**variant.problem, **values}
    broken = sum(not constraint.holds(known, np) for constraint in variant.kernel.space.constraints)
    if broken:
        trial.set_user_attr(_WHY, _BROKEN)
        search.unsaved.add(trial.number)
        _tell(search, trial, None, broken=broken)
    return [] if broken else [(trial, name, values)]


def _tell(
    search: Search, trial: Trial, values: Sequence[float] | None, broken: int = 0, impossible: int = 0
) -> None:
    """Tell the sampler the objectives, or None with the number of violated constraints."""
    if constrained(search.sampler.inner):
        trial.set_constraint("broken", broken)
        trial.set_constraint("impossible", impossible)
        search.study.tell(trial, values or [math.inf] * len(search.objectives))
    elif values:
        search.study.tell(trial, values)
    else:
        search.study.tell(trial, state=TrialState.PRUNED)


def _evaluate(
    search: Search, gpu: Gpu, model: str | Model, suggestions: Sequence[Suggestion]
) -> list[list[float]]:
    """Return the objectives of each suggestion; time is infinite if it cannot run."""
    values: list[list[float]] = [[] for _ in suggestions]
    for name, variant in search.variants.items():
        indices = [i for i, (_, kernel_name, _) in enumerate(suggestions) if kernel_name == name]
        if not indices:
            continue
        configurations = [suggestions[i][2] for i in indices]
        parameters = {key: np.array([c[key] for c in configurations]) for key in configurations[0]}
        evaluation = evaluate(variant.kernel, (model,), stack([gpu]), parameters, variant.problem)
        columns = {
            "time": evaluation.forecasts[get(model).name].seconds[0],
            "registers": evaluation.resources["registers"][0],
            "shared": evaluation.resources["shared_bytes"][0],
        }
        for row, i in enumerate(indices):
            values[i] = [float(columns[goal][row]) for goal in search.objectives]
    return values


def optimum(variant: Variant, gpu: Gpu, model: str | Model) -> float | None:
    """Return a variant's best time over all configurations; None if there are too many."""
    if variant.kernel.space.size > 50 * EXHAUSTIVE:
        return None
    parameters = variant.kernel.space.configurations(variant.problem)
    count = len(next(iter(parameters.values())))
    if not 0 < count <= (EXHAUSTIVE if get(model).differentiable else EXHAUSTIVE_SIMULATED):
        return None
    evaluation = evaluate(variant.kernel, (model,), stack([gpu]), parameters, variant.problem)
    return float(evaluation.forecasts[get(model).name].seconds.min())
