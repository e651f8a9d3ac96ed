"""What the parameters of a trial hold: places in lists for samplers, the values themselves for readers.

A sampler that works in order and distance (TPE's kernels, CMA-ES, QMC) wants evenly spaced numbers, and has
nothing to go by among the choices of a category: it searches places. A person, or a dashboard, wants to see
`block = 256`, which is how a database keeps it.
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
    """The lists of values of a study's parameters, by the names that trials have for them.

    Parameters that have no list stay as they are.
    """

    def __init__(self, values: Mapping[str, Sequence[Number]]) -> None:
        self._values = values
        self._places = {name: {value: i for i, value in enumerate(these)} for name, these in values.items()}
        self._of_values = {name: _distribution(these) for name, these in values.items()}
        self._of_places = {name: IntDistribution(0, len(these) - 1) for name, these in values.items()}

    def with_values(self, trial: FrozenTrial) -> FrozenTrial:
        """Return a trial of places as one of values."""
        return _translated(trial, self._values, self._of_values)

    def with_places(self, trial: FrozenTrial) -> FrozenTrial:
        """Return a trial of values as one of places.

        **Raises:** DseError for one of other lists.
        """
        for name, kind in trial.distributions.items():
            if kind != self._of_values.get(name, kind):
                raise DseError(f"{name}: found a list of other values; name another storage")
        return _translated(trial, self._places, self._of_places)


def _distribution(values: Sequence[Number]) -> BaseDistribution:
    """The distribution of the values: whole numbers in even steps as such, others as a category."""
    steps = {after - before for before, after in pairwise(values)}
    if isinstance(values[0], int) and len(steps) == 1 and min(steps) > 0:
        return IntDistribution(int(values[0]), int(values[-1]), step=int(min(steps)))
    return CategoricalDistribution(values)


def _translated(
    trial: FrozenTrial,
    words: Mapping[str, Any],  # name → what represents each value
    kinds: Mapping[str, BaseDistribution],
) -> FrozenTrial:
    new = copy.copy(trial)
    new.params = {name: words[name][x] if name in words else x for name, x in trial.params.items()}
    new.distributions = {name: kinds.get(name, kind) for name, kind in trial.distributions.items()}
    return new
