"""Bound the cost of a sampler that is cubic in the number of trials: fewer trials and fewer fits.

The sampler sees only the best and the latest trials, in its own study: objectives as logarithms, since times
are mostly products of parameters' effects, and impossible launches as slow as the slowest. Between fits it
repeats its suggestion, which `dse.explore.search.feasible` replaces by neighbours.
"""

import math
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState, create_trial

from dse.explore.search.wrapping import Wrapping

BEST, LATEST = 70, 30  # trials in a fit
EVERY = 20  # trials between fits
LEAST = 20  # trials before the first fit


class Bounded(Wrapping):
    """Asks `inner` every EVERY trials, with a selection of trials."""

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
