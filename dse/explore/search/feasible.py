"""Restrict any Optuna sampler to configurations that are valid and new.

Constraints are known in closed form and models are deterministic, so invalid and repeated trials are wasted.
Such suggestions are replaced by a neighbour, and before a sampler has any data, valid configurations are
drawn. Samplers that learn suggest only half of the trials; the others are neighbours of good trials, since
samplers find the region of an optimum sooner than the optimum. Half of these belong to a family with a
separate start.
"""

import heapq
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.samplers import BaseSampler, QMCSampler, RandomSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from dse.explore.search.neighbours import VARIANT, Neighbours, Point, Variant
from dse.explore.search.wrapping import Wrapping

LEAST = 20  # trials before refinement starts
PATIENCE = 60  # trials without improvement after which a new family starts


class Feasible(Wrapping):
    """Suggests a variant, if there are several, and the indices of its parameters' values.

    Attributes:
        inner: the sampler it asks.
        refine: whether half of the trials are neighbours of good ones.
        variant: the variant of the next suggestion; None: `inner` decides.
    """

    def __init__(self, inner: BaseSampler, variants: Mapping[str, Variant], seed: int | None) -> None:
        super().__init__(inner)
        self.refine = not isinstance(inner, RandomSampler | QMCSampler)
        self.variant: str | None = None
        self._random = np.random.default_rng(seed)
        self._neighbours = {name: Neighbours(variant, seed) for name, variant in variants.items()}
        self._space: dict[str, BaseDistribution] = {}
        if len(variants) > 1:
            self._space[VARIANT] = CategoricalDistribution(list(variants))
        self._parameters = {
            name: [f"{name}.{key}" for key in variant.free] for name, variant in variants.items()
        }
        for name, variant in variants.items():
            ranges = (IntDistribution(0, len(values) - 1) for values in variant.free.values())
            self._space |= zip(self._parameters[name], ranges, strict=True)
        self._tried: dict[str, set[Point]] = {name: set() for name in variants}
        self._family: set[tuple[str, Point]] = set()  # drawn points and their descendants
        self._read = 0  # trials of the study read so far

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """All parameters of all variants."""
        return self._space

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Suggest a configuration; nothing for an enqueued trial."""
        if "fixed_params" in trial.system_attrs:
            return {}
        self._note(study, trial)
        name, point = self._refined(study) if self.refine else (None, None)
        if name is None or point is None:
            name, point = self._suggested(study, trial)
        self._tried[name].add(point)
        sampled: dict[str, Any] = {VARIANT: name} if VARIANT in self._space else {}
        return sampled | dict(zip(self._parameters[name], point, strict=True))

    def _suggested(self, study: Study, trial: FrozenTrial) -> tuple[str, Point]:
        """The suggestion of `inner`, or a neighbour."""
        space = self.inner.infer_relative_search_space(study, trial)
        suggested = self.inner.sample_relative(study, trial, space)
        name = self.variant or suggested.get(VARIANT) or str(self._random.choice(list(self._parameters)))
        parameters, neighbours, tried = self._parameters[name], self._neighbours[name], self._tried[name]
        if parameters and suggested.keys() >= set(parameters):
            near = neighbours.near(tuple(suggested[key] for key in parameters), tried)
            if near is not None:
                return name, near
        drawn = neighbours.anywhere()
        return name, neighbours.near(drawn, tried) or drawn

    def _refined(self, study: Study) -> tuple[str | None, Point | None]:
        """Half of the time, a neighbour of a good trial, in or outside of the family."""
        if len(study.directions) > 1 or self._random.random() < 0.5:
            return None, None
        done = [
            trial
            for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
            if math.isfinite(trial.values[0])
            and self.variant in (None, trial.params.get(VARIANT, self.variant))
        ]
        if len(done) < LEAST:
            return None, None
        return self._descendant(done) if self._random.random() < 0.5 else self._of_family(done)

    def _of_family(self, done: list[FrozenTrial]) -> tuple[str, Point | None]:
        """A neighbour within the family: random trials and their descendants.

        A new family starts if the last has not improved for long. It may end in another region than the one
        where the other good trials concentrate.
        """
        family = [trial for trial in done if self._point(trial) in self._family]
        recent, before = family[-PATIENCE:], family[:-PATIENCE]
        if before and min(map(_time, recent)) >= min(map(_time, before)):
            self._family.clear()
            family = []
        if len(family) >= LEAST:
            name, point = self._descendant(family)
        else:
            name = self.variant or str(self._random.choice(list(self._parameters)))
            point = self._neighbours[name].near(self._neighbours[name].anywhere(), self._tried[name])
        if point is not None:
            self._family.add((name, point))
        return name, point

    def _point(self, trial: FrozenTrial) -> tuple[str, Point]:
        name = trial.params.get(VARIANT, next(iter(self._parameters)))
        return name, tuple(trial.params[key] for key in self._parameters[name])

    def _descendant(self, trials: list[FrozenTrial]) -> tuple[str, Point | None]:
        """A neighbour of one of the trials, preferably of good ones."""
        rank = int(len(trials) ** self._random.random())  # log-uniform: 1 to 10 as often as 10 to 100
        trial = heapq.nsmallest(rank, trials, key=_time)[-1]
        name, point = self._point(trial)
        return name, self._neighbours[name].near(point, self._tried[name])

    def _note(self, study: Study, asking: FrozenTrial) -> None:
        """Record new trials: enqueued ones, and those of other processes."""
        trials = study.get_trials(deepcopy=False)
        for trial in trials[self._read :]:
            name = trial.params.get(VARIANT, next(iter(self._parameters)))
            parameters = self._parameters[name]
            if trial.number != asking.number and trial.params.keys() >= set(parameters):
                self._tried[name].add(tuple(trial.params[key] for key in parameters))
        self._read = len(trials)


def _time(trial: FrozenTrial) -> float:
    return trial.values[0]
