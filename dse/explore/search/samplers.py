"""Optuna's samplers by name, and the automatic choice."""

import math
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import (
    BaseSampler,
    CmaEsSampler,
    GPSampler,
    NSGAIIISampler,
    NSGAIISampler,
    QMCSampler,
    RandomSampler,
    TPESampler,
)
from optuna.search_space import IntersectionSearchSpace
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState, create_trial

from dse.core.optional import install, needs
from dse.errors import DseError, check_names
from dse.explore.search.wrapping import Wrapping

BEST, LATEST = 70, 30  # trials in a fit
EVERY = 20  # trials between fits
LEAST = 20  # trials before the first fit


class Bounded(Wrapping):
    """Bounds the cost of a sampler that is cubic in the number of trials: fewer trials and fewer fits.

    `inner` sees only the best and the latest trials, in its own study, every EVERY trials: objectives as
    logarithms, since times are mostly products of parameters' effects, and impossible launches as slow as the
    slowest. Between fits it repeats its suggestion, which `feasible` replaces by neighbours.
    """

    def __init__(self, inner: BaseSampler) -> None:
        super().__init__(inner)
        self._space = IntersectionSearchSpace()
        self._suggested: dict[str, Any] = {}
        self._next = LEAST

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The parameters common to all trials."""
        return self._space.calculate(study)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the suggestion of the last fit, or fit again; nothing while there are few trials."""
        done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        if len(done) < self._next or not search_space:
            return self._suggested
        selected = _selected(done)
        worst = [
            max(values) for values in zip(*(_logs(past) for past in selected if _finite(past)), strict=True)
        ]
        if not worst:
            return {}
        own = optuna.create_study(directions=study.directions, sampler=self.inner)
        own.add_trials(
            create_trial(
                params={name: past.params[name] for name in search_space},
                distributions=search_space,
                values=_logs(past) if _finite(past) else worst,
            )
            for past in selected
        )
        self._suggested, self._next = own.ask(search_space).params, len(done) + EVERY
        return self._suggested


def _selected(trials: list[FrozenTrial]) -> list[FrozenTrial]:
    """The best trials and the latest of the others."""
    ordered = sorted(trials, key=lambda trial: trial.values[0])
    late = sorted(ordered[BEST:], key=lambda trial: trial.number)
    return ordered[:BEST] + late[-LATEST:]


def _finite(trial: FrozenTrial) -> bool:
    return all(map(math.isfinite, trial.values))


def _logs(trial: FrozenTrial) -> list[float]:
    return [math.log(value) if value > 0 else value for value in trial.values]


SAMPLERS = ("tpe", "gp", "nsga2", "nsga3", "cmaes", "qmc", "random", "auto")
STARTUP = 100  # random trials before TPE's own, at most, and at most a tenth
FEW = 300  # most trials for which `auto` chooses Gaussian processes, the slowest


def constrained(sampler: BaseSampler) -> bool:
    """Whether a sampler learns from complete trials that break constraints."""
    return isinstance(sampler, TPESampler | Bounded | NSGAIISampler | NSGAIIISampler)


def suitable(name: str, trials: int = FEW, goals: int = 1, variants: int = 1) -> str:
    """Return the name of a sampler; `auto` chooses by trials, objectives and variants.

    **Raises:** DseError for another name, one whose package is missing, or CMA-ES with several objectives.
    """
    check_names("sampler", SAMPLERS, name)
    if name == "cmaes" and goals > 1:
        raise DseError(f"sampler: found 'cmaes' for {goals} objectives, expected tpe, nsga2 or nsga3")
    if name == "auto":
        return _suitable(trials, goals, variants)
    if name == "gp":
        _expect_torch()
    return name


def sampler(name: str, seed: int | None, trials: int = FEW, known: Sequence[FrozenTrial] = ()) -> BaseSampler:
    """Create the Optuna sampler of a name that `suitable` returned.

    CMA-ES has a state besides its study's trials, which Optuna pickles; instead of reading that, it starts
    with the mean and covariance of the best of the `known` complete trials (Nomura et al., AAAI 2021).
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        match name:
            case "tpe":  # group: one model a variant; constant_liar: diverse batches
                return TPESampler(
                    multivariate=True,
                    group=True,
                    constant_liar=True,
                    n_startup_trials=min(max(trials // 10, 10), STARTUP),
                    seed=seed,
                )
            case "gp":
                return Bounded(
                    GPSampler(seed=seed, deterministic_objective=True, warn_independent_sampling=False)
                )
            case "nsga2":
                return NSGAIISampler(seed=seed)
            case "nsga3":
                return NSGAIIISampler(seed=seed)
            case "cmaes":
                return CmaEsSampler(
                    seed=seed, warn_independent_sampling=False, source_trials=list(known) or None
                )
            case "qmc":
                return QMCSampler(
                    seed=seed, scramble=True, warn_independent_sampling=False, warn_asynchronous_seeding=False
                )
            case _:
                return RandomSampler(seed=seed)


def _suitable(trials: int, goals: int, variants: int) -> str:
    """Choose the sampler that learns most from few trials without being too slow."""
    if goals > 1:
        return "nsga3" if goals > 3 else "nsga2" if trials > 1_000 else "tpe"
    if trials <= FEW and variants == 1:
        with suppress(DseError):
            _expect_torch()
            return "gp"
    return "tpe"


def _expect_torch() -> None:
    with needs("torch", "for the sampler gp " + install("gp")):
        import_module("torch")  # used by Optuna's Gaussian processes
