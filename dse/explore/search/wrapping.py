"""A sampler of Optuna that asks another one for all that it does not decide itself."""

from collections.abc import Sequence
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState


class Wrapping(BaseSampler):
    """Asks `inner`."""

    def __init__(self, inner: BaseSampler) -> None:
        self.inner = inner

    def reseed_rng(self) -> None:
        """Reseed `inner`, before another process or thread continues."""
        self.inner.reseed_rng()

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Suggest a single parameter, by `inner`."""
        return self.inner.sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """As `inner`."""
        self.inner.before_trial(study, trial)

    def after_trial(
        self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """As `inner`."""
        self.inner.after_trial(study, trial, state, values)
