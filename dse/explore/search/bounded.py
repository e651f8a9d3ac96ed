"""A sampler whose time grows with the cube of the trials, kept to some of them, asked once for several.

It sees the best trials and the latest, in a study of its own: objectives as logarithms, as times are mostly
products of what single parameters do, and what cannot run as slow as the slowest. Between two fits it gives
the same suggestion again, in whose place `dse.explore.search.feasible` puts its neighbours.
"""

import math
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState, create_trial

BEST, LATEST = 70, 30  # trials that are fitted
EVERY = 20  # trials, after which it is fitted anew
LEAST = 20  # trials before the first fit


class Bounded(BaseSampler):
    """Asks `inner`, every some trials, with what some of the trials found."""

    def __init__(self, inner: BaseSampler) -> None:
        self.inner = inner
        self._space = IntersectionSearchSpace()
        self._suggested: dict[str, Any] = {}
        self._next = LEAST

    def reseed_rng(self) -> None:
        """As Optuna has it, before another process or thread goes on."""
        self.inner.reseed_rng()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The parameters that all trials have."""
        return self._space.calculate(study)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Suggest what the last fit found, or fit anew; nothing as long as there are few trials."""
        done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        if len(done) < self._next or not search_space:
            return self._suggested
        sampled = _some(done)
        worst = [
            max(values) for values in zip(*(_logs(past) for past in sampled if _finite(past)), strict=True)
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
            for past in sampled
        )
        self._suggested, self._next = own.ask(search_space).params, len(done) + EVERY
        return self._suggested

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """As the sampler within has it."""
        return self.inner.sample_independent(study, trial, param_name, param_distribution)


def _some(trials: list[FrozenTrial]) -> list[FrozenTrial]:
    """The best trials and the latest of the others."""
    ordered = sorted(trials, key=lambda trial: trial.values[0])
    late = sorted(ordered[BEST:], key=lambda trial: trial.number)
    return ordered[:BEST] + late[-LATEST:]


def _finite(trial: FrozenTrial) -> bool:
    return all(map(math.isfinite, trial.values))


def _logs(trial: FrozenTrial) -> list[float]:
    return [math.log(value) if value > 0 else value for value in trial.values]
