"""Convert trials between indices of values, for samplers, and the values themselves, for storage.

Samplers that use order and distance (TPE's kernels, CMA-ES, QMC) need evenly spaced numbers, not categories:
they search indices. People and dashboards need `block = 256`, which is what storage holds.
"""

import copy
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import FrozenTrial

from dse.errors import DseError
from dse.kernels.counts import Number


class Lists:
    """The values of a study's parameters, by their names in trials. Other parameters are unchanged."""

    def __init__(self, values: Mapping[str, Sequence[Number]]) -> None:
        self._values = values
        self._indices = {
            name: {value: i for i, value in enumerate(choices)} for name, choices in values.items()
        }
        self._of_values = {name: _distribution(choices) for name, choices in values.items()}
        self._of_indices = {name: IntDistribution(0, len(choices) - 1) for name, choices in values.items()}

    def with_values(self, trial: FrozenTrial) -> FrozenTrial:
        """Convert a trial of indices to values."""
        return _converted(trial, self._values, self._of_values)

    def with_indices(self, trial: FrozenTrial) -> FrozenTrial:
        """Convert a trial of values to indices. **Raises:** DseError for other lists of values."""
        for name, kind in trial.distributions.items():
            if kind != self._of_values.get(name, kind):
                raise DseError(f"{name}: found a list of other values; name another storage")
        return _converted(trial, self._indices, self._of_indices)


def _distribution(values: Sequence[Number]) -> BaseDistribution:
    """Optuna's distribution of values: integers if evenly spaced, else categories."""
    steps = {after - before for before, after in pairwise(values)}
    if isinstance(values[0], int) and len(steps) == 1 and min(steps) > 0:
        return IntDistribution(int(values[0]), int(values[-1]), step=int(min(steps)))
    return CategoricalDistribution(values)


def _converted(
    trial: FrozenTrial,
    table: Mapping[str, Any],  # name → value → converted value
    kinds: Mapping[str, BaseDistribution],
) -> FrozenTrial:
    new = copy.copy(trial)
    new.params = {name: table[name][x] if name in table else x for name, x in trial.params.items()}
    new.distributions = {name: kinds.get(name, kind) for name, kind in trial.distributions.items()}
    return new
