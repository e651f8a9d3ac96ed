"""Optuna over one or several kernels that do the same work, asked and told in batches.

A categorical choice picks the variant, and below it stand that variant's own parameters, so that variants
are ranked by the best that each can reach. Parameters are suggested as places in their lists of values, of
configurations that hold all constraints (`dse.explore.search.feasible`). What cannot run, and what was
enqueued and breaks constraints, is given back to the sampler without a time: as a complete trial that breaks
Optuna's constraints, where the sampler learns from those, else as a pruned one. Every other suggestion goes
to the variant tried least, so that a slower variant is searched too and its rank is fair.
"""

import hashlib
import math
import time
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
from dse.errors import DseError, one_of
from dse.evaluate.chunks import evaluate
from dse.explore.search import storage as stored
from dse.explore.search.feasible import Feasible
from dse.explore.search.samplers import FEW, constrained, sampler, suitable
from dse.explore.search.values import Lists
from dse.explore.search.variants import VARIANT, Variant
from dse.hardware.gpus import stack
from dse.kernels.counts import Counts, Number
from dse.models import get
from dse.models.protocol import Model
from dse.types import Gpu

OBJECTIVES = {"time": "s", "registers": "1", "shared": "B"}
COLUMN = {name: SHORT.get(name, name) for name in OBJECTIVES}  # of each objective
BATCH = 20
EXHAUSTIVE = 200_000  # configurations up to which the optimum is found by looking at all of them
EXHAUSTIVE_SIMULATED = 5_000  # of a simulated model: some seconds

Asked = tuple[Trial, str, dict[str, Number]]  # a trial, its variant, and its parameters' values
_WHY = "why not"
_BROKEN, _IMPOSSIBLE = "breaks a constraint", "cannot run"


@dataclass
class Shares:
    """Where the time of a search went, in seconds."""

    model: float = 0.0
    optuna: float = 0.0


@dataclass(repr=False)
class Search(ConfigurationResult):
    """A study and what it has cost so far.

    The sampler works on a study in memory, of places in lists; `kept` is its copy in storage, of values,
    written once a batch, since a database takes longer over each step of a trial than a model over a
    thousand configurations.
    """

    study: optuna.Study
    sampler: Feasible
    kept: stored.StoredStudy | None
    variants: dict[str, Variant]
    objectives: tuple[str, ...]
    shares: Shares = field(default_factory=Shares)
    asked: Counter[str] = field(default_factory=Counter)  # suggestions of each variant, in this run
    first: list[dict[str, Any]] = field(default_factory=list)  # parameters of trials to try before others
    told: set[int] = field(default_factory=set)  # numbers of trials that the storage has not yet

    def evaluated(self) -> list[optuna.trial.FrozenTrial]:
        """Trials that got as far as the model."""
        states = (TrialState.COMPLETE, TrialState.PRUNED)
        done = self.study.get_trials(deepcopy=False, states=states)
        return [trial for trial in done if trial.user_attrs.get(_WHY) != _BROKEN]

    def rows(self, top: int | None = None) -> list[dict[str, Any]]:
        """Return the fastest trial of each variant, fastest variant first; one without a trial comes last."""
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
        return (rows + [{"kernel": name, "time_s": None} for name in self.variants if name not in fastest])[
            :top
        ]

    def front(self) -> list[dict[str, Any]]:
        """Return trials that no other beats in all objectives, each configuration once, fastest first."""
        rows = [self._row(self._variant_of(trial), trial) for trial in self.study.best_trials]
        unique = {tuple(row.items()): row for row in rows}
        return sorted(unique.values(), key=lambda row: row["time_s"])

    @property
    def hidden(self) -> tuple[str, ...]:
        """Columns that a table for people can do without: problem sizes, and parameters of one value."""
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
    """Name the kernels to choose among. DseError where they do not do the same work."""
    named = {kernel.name: Variant(kernel, problem) for kernel, problem in kernels}
    works = sorted({variant.kernel.variant_of for variant in named.values()})
    if len(works) > 1:
        raise DseError(
            f"KERNEL: found kernels of different work ({', '.join(works)}), expected variants of one"
        )
    return named


def objectives(text: str) -> tuple[str, ...]:
    """Read `time` or `time,registers,shared`, or their columns. DseError for others; time comes first."""
    goals = {column: goal for goal, column in COLUMN.items()}
    names = (name.strip() for name in text.split(","))
    names = tuple(dict.fromkeys(goals.get(name, name) for name in names))
    for name in names:
        if name not in OBJECTIVES:
            raise DseError(f"objective: found {name!r}, {one_of(name, OBJECTIVES, 'some of')}")
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

    `trials` is how many there will be, by which the sampler `auto` is chosen.

    **Raises:** DseError where the storage cannot be used, or has this study with other lists of values.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    key = repr([(repr(v.kernel), sorted(v.problem.items())) for v in choices.values()])
    digest = hashlib.sha256(key.encode()).hexdigest()[:12]
    name = f"{'+'.join(choices)} on {gpu_name} by {get(model).name} for {','.join(goals)} ({digest})"
    metrics = [goal if OBJECTIVES[goal] == "1" else f"{goal} [{OBJECTIVES[goal]}]" for goal in goals]
    algorithm = suitable(algorithm, trials, len(goals), len(choices))
    study, kept = stored.make(metrics), None
    if storage is not None:
        kept = stored.load(storage, name, metrics, _lists(choices))
        kept.fill(study)
    known = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)) if len(choices) == 1 else ()
    study.sampler = feasible = Feasible(sampler(algorithm, seed, trials, known), choices, seed)
    return Search(study, feasible, kept, dict(choices), tuple(goals))


def _lists(choices: Mapping[str, Variant]) -> Lists:
    """The values of all parameters that trials have: `matmul_tiled.rows`."""
    free = ((name, variant.free) for name, variant in choices.items())
    return Lists(
        {f"{name}.{parameter}": values for name, these in free for parameter, values in these.items()}
    )


def enqueue(search: Search, rows: Iterable[Mapping[str, Any]], source: str) -> int:
    """Try these configurations before others: rows with a value for each parameter that has a choice.

    With several variants a row names its own under `variant` or `kernel`. Other columns are left alone. A
    configuration that comes twice is tried once; one that the study has already is not tried again.
    Returns how many are to be tried.

    **Raises:** DseError naming `source` for a variant, a parameter or a value that there is not.
    """
    had = {tuple(sorted(trial.params.items())) for trial in search.evaluated()}
    for number, row in enumerate(rows, 1):
        place = f"{source}: row {number}"
        name = row.get(VARIANT) or row.get("kernel") or next(iter(search.variants))
        if name not in search.variants:
            raise DseError(f"{place}: variant: found {name!r}, {one_of(str(name), search.variants)}")
        parameters: dict[str, Any] = {VARIANT: name} if len(search.variants) > 1 else {}
        for parameter, choices in search.variants[name].free.items():
            if row.get(parameter) is None:
                raise DseError(f"{place}: {parameter}: found none, expected a value")
            if row[parameter] not in choices:
                expected = f"one of {', '.join(map(str, choices))}"
                raise DseError(f"{place}: {parameter}: found {row[parameter]}, expected {expected}")
            parameters[f"{name}.{parameter}"] = choices.index(row[parameter])
        key = tuple(sorted(parameters.items()))
        if key not in had:
            had.add(key)
            search.first.append(parameters)
    return len(search.first)


def run(
    search: Search,
    gpu: Gpu,
    model: str | Model,
    trials: int,
    advance: Callable[[int], None] = lambda steps: None,
    batch: int = BATCH,
) -> None:
    """Ask and tell until the study has `trials` evaluated trials.

    Each batch is one vectorised model call for each variant in it. Trials of an interrupted run count.
    **Raises:** DseError where constraints leave nothing.
    """
    done = len(search.evaluated())
    advance(min(done, trials))
    while done < trials:
        asked: list[Asked] = []
        while len(asked) < min(batch, trials - done):
            asked += _ask(search)
        values = _evaluate(search, gpu, model, asked)
        begun = time.perf_counter()
        _told(search, asked, values, trials)
        search.shares.optuna += time.perf_counter() - begun
        before, done = done, len(search.evaluated())
        advance(min(done, trials) - before)


def _told(search: Search, asked: Sequence[Asked], values: Sequence[Sequence[float]], trials: int) -> None:
    """Tell what a batch found, and exchange it with the storage, which gets no more than this many trials."""
    kept = search.kept
    with kept.alone() if kept is not None else nullcontext():
        if kept is not None:
            search.study.add_trials(kept.news())
        room = max(0, trials - len(search.evaluated()))
        for (trial, _, _), value in zip(asked[:room], values, strict=False):
            if math.isfinite(value[0]):
                _tell(search, trial, value)
            else:
                trial.set_user_attr(_WHY, _IMPOSSIBLE)
                _tell(search, trial, None, impossible=1)
            search.told.add(trial.number)
        for trial, _, _ in asked[room:]:  # other processes were faster
            search.study.tell(trial, state=TrialState.FAIL)
        if kept is not None:
            every = search.study.get_trials(deepcopy=False)
            kept.add([trial for trial in every if trial.number in search.told])
        search.told.clear()


def _ask(search: Search) -> list[Asked]:
    """Ask for one suggestion: none where one that was enqueued breaks a constraint."""
    begun = time.perf_counter()
    names = list(search.variants)
    if search.first:
        search.study.enqueue_trial(search.first.pop(0))
    every_other = len(names) > 1 and sum(search.asked.values()) % 2
    search.sampler.variant = min(names, key=lambda name: search.asked[name]) if every_other else None
    trial = search.study.ask()
    name = trial.suggest_categorical(VARIANT, names) if len(names) > 1 else names[0]
    search.asked[name] += 1
    variant = search.variants[name]
    values = {parameter: choices[0] for parameter, choices in variant.kernel.space.values.items()}
    for parameter, choices in variant.free.items():
        values[parameter] = choices[trial.suggest_int(f"{name}.{parameter}", 0, len(choices) - 1)]
    known = {**variant.problem, **values}
    broken = sum(not constraint.holds(known, np) for constraint in variant.kernel.space.constraints)
    if broken:
        trial.set_user_attr(_WHY, _BROKEN)
        search.told.add(trial.number)
        _tell(search, trial, None, broken=broken)
    search.shares.optuna += time.perf_counter() - begun
    return [] if broken else [(trial, name, values)]


def _tell(
    search: Search, trial: Trial, values: Sequence[float] | None, broken: int = 0, impossible: int = 0
) -> None:
    """Tell the sampler the objectives; None of what cannot be, with the number of constraints it breaks."""
    if constrained(search.sampler.inner):
        trial.set_constraint("broken", broken)
        trial.set_constraint("impossible", impossible)
        search.study.tell(trial, values or [math.inf] * len(search.objectives))
    elif values:
        search.study.tell(trial, values)
    else:
        search.study.tell(trial, state=TrialState.PRUNED)


def _evaluate(search: Search, gpu: Gpu, model: str | Model, asked: Sequence[Asked]) -> list[list[float]]:
    """Return the objectives of each configuration asked for; time is infinite where it cannot run."""
    begun = time.perf_counter()
    values: list[list[float]] = [[] for _ in asked]
    for name, variant in search.variants.items():
        places = [i for i, (_, kernel_name, _) in enumerate(asked) if kernel_name == name]
        if not places:
            continue
        configurations = [asked[i][2] for i in places]
        parameters = {key: np.array([c[key] for c in configurations]) for key in configurations[0]}
        evaluation = evaluate(variant.kernel, (model,), stack([gpu]), parameters, variant.problem)
        columns = {
            "time": evaluation.forecasts[get(model).name].seconds[0],
            "registers": evaluation.resources["registers"][0],
            "shared": evaluation.resources["shared_bytes"][0],
        }
        for row, i in enumerate(places):
            values[i] = [float(columns[goal][row]) for goal in search.objectives]
    search.shares.model += time.perf_counter() - begun
    return values


def optimum(variant: Variant, gpu: Gpu, model: str | Model) -> float | None:
    """Find a variant's best time by looking at every configuration; None where there are too many."""
    if variant.kernel.space.size > 50 * EXHAUSTIVE:
        return None
    parameters = variant.kernel.space.configurations(variant.problem)
    count = len(next(iter(parameters.values())))
    if not 0 < count <= (EXHAUSTIVE if get(model).differentiable else EXHAUSTIVE_SIMULATED):
        return None
    evaluation = evaluate(variant.kernel, (model,), stack([gpu]), parameters, variant.problem)
    return float(evaluation.forecasts[get(model).name].seconds.min())
