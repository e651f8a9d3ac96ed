"""The model-guided tuner as a sampler of Optuna: `optuna.create_study(sampler=ModelGuidedSampler(...))`.

Before each trial the tuner is rebuilt from all finished trials, so that a study from storage continues as if
it had never stopped.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import BaseSampler, RandomSampler
from optuna.search_space import intersection_search_space
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from dse.errors import DseError, check_names
from dse.evaluate.rank import rank
from dse.explore.search.wrapping import Wrapping
from dse.explore.tune.candidates import Candidates
from dse.explore.tune.predictor import Predictor
from dse.explore.tune.tuner import Tuner
from dse.hardware.gpus import GpuFile, load
from dse.kernels.counts import Counts, Number
from dse.models.protocol import Model
from dse.source import readers

Configuration = tuple[Any, ...]  # values in the order of the search space
MOST = 1_000_000  # configurations to choose from


class ModelGuidedSampler(Wrapping):
    """A sampler that suggests the most promising configuration by the model and earlier trials.

    The objective is a time, to be minimised, or a throughput, to be maximised. A trial that failed or was
    pruned is a configuration that does not run.

    `kernel` and `gpu` are names or paths as `dse rank` takes them. Parameters of the study have the kernel's
    names, or those of one of its `[spaces.…]`, or `rename` maps them; `fixed` sets the kernel's parameters
    and sizes that are not tuned. `independent` samples other parameters of the study, except categorical ones
    renamed to None, which are tuned together with the kernel's although no model knows them.

    The tuned parameters are those of the first finished trial, which `independent` samples, or of `space`,
    the objective's distributions. Of an IntDistribution or FloatDistribution the values in the kernel's own
    space are tried; its constraints hold. Trials of other configurations are ignored.
    """

    def __init__(
        self,
        kernel: str | Path | Counts,
        gpu: str | Path | GpuFile,
        model: str | Model = "phase",
        *,
        space: Mapping[str, BaseDistribution] | None = None,
        fixed: Mapping[str, Number] | None = None,
        rename: Mapping[str, str | None] | None = None,
        source: bool = False,
        independent: BaseSampler | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(independent or RandomSampler(seed))
        self.predictor = Predictor(kernel, gpu, model, fixed or {}, rename or {}, source)
        self.space, self.seed = space, seed
        self._known: tuple[Any, dict[Configuration, int], Candidates] | None = None

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the study's parameters that the kernel knows."""
        space = self.space or intersection_search_space(study.get_trials(deepcopy=False), include_pruned=True)
        known = {name: kind for name, kind in space.items() if self._values(name, kind)}
        if space and not known:  # else no trial would be guided, and nothing would say so
            self.predictor.named(dict.fromkeys(space, (0, 1)), "study")
        return known

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Suggest the next configuration; nothing after all were tried.

        **Raises:** DseError if the study lacks a parameter of the kernel, or if its objective is no time.
        """
        if not search_space:
            return {}
        indices, candidates = self._candidates(search_space)
        times: dict[int, float] = {}
        pending: set[int] = set()
        for earlier in study.get_trials(deepcopy=False):
            index = indices.get(tuple(earlier.params.get(name) for name in search_space))
            if index is None:
                continue
            if earlier.state.is_finished():
                times[index] = _time(study, earlier)
            else:
                pending.add(index)
        configurations = list(indices)
        for index in Tuner(candidates, self.seed, times).ask(1 + len(pending)):
            if index not in pending:
                return dict(zip(search_space, configurations[index], strict=True))
        return {}

    def _values(self, name: str, distribution: BaseDistribution) -> Sequence[Any]:
        """Return the values of a parameter to try; none if the kernel does not have it."""
        values = self.predictor.values(name)
        match distribution:
            case CategoricalDistribution(choices=choices):
                return () if values is None else choices
            case IntDistribution() | FloatDistribution():
                kind = int if isinstance(distribution, IntDistribution) else float
                inside = [kind(value) for value in values or () if distribution._contains(value)]
                if values and not inside:
                    known = ", ".join(map(str, values))
                    raise DseError(f"study: {name}: found {distribution}, expected some of {known} in it")
                return inside
        return ()

    def _candidates(
        self, space: Mapping[str, BaseDistribution]
    ) -> tuple[dict[Configuration, int], Candidates]:
        """Return the configurations that fulfil the kernel's constraints: indices and predictions."""
        key = tuple(space.items())
        if self._known is None or self._known[0] != key:
            values = [self._values(name, distribution) for name, distribution in space.items()]
            size = math.prod(map(len, values))
            if size > MOST:
                raise DseError(f"study: found {size:,} configurations, expected {MOST:,} at most")
            rows = list(product(*values))
            valid = self.predictor.valid(dict(zip(space, zip(*rows, strict=True), strict=True)), "study")
            rows = [row for row, fits in zip(rows, valid, strict=True) if fits]
            if not rows:
                raise DseError(
                    "study: found no configuration that keeps the kernel's constraints, expected one"
                )
            candidates = self.predictor.candidates(
                dict(zip(space, zip(*rows, strict=True), strict=True)), "study"
            )
            self._known = key, {row: index for index, row in enumerate(rows)}, candidates
        return self._known[1:]


def _time(study: Study, trial: FrozenTrial) -> float:
    """Return the value to minimise, above 0; infinite for a trial that did not run."""
    if len(study.directions) > 1:
        raise DseError(f"study: found {len(study.directions)} objectives, expected one")
    if trial.state != TrialState.COMPLETE or trial.value is None:
        return math.inf
    if not trial.value > 0:
        raise DseError(f"study: objective: found {trial.value}, expected a number above 0")
    return 1.0 / trial.value if study.direction == StudyDirection.MAXIMIZE else trial.value


def warm_start(
    study: Study,
    kernel: str | Path | Counts,
    gpu: str | Path | GpuFile,
    count: int = 10,
    models: str | Model = "phase",
    sizes: Mapping[str, Number] | None = None,
    rename: Mapping[str, str | None] | None = None,
) -> None:
    """Enqueue the best predicted configurations in a study of any sampler, one of each group of ties.

    `rename` is that of `ModelGuidedSampler`; parameters with one value are left out.

    **Raises:** DseError as `dse.evaluate.rank.rank`, or for a name that the kernel does not have.
    """
    counts = readers.kernel(kernel) if isinstance(kernel, str | Path) else kernel
    file = load(gpu)
    free = [name for name, values in counts.space.values.items() if len(values) > 1]
    names = {ours: theirs for theirs, ours in (rename or {}).items() if ours is not None}
    check_names("rename", counts.space.values, *names)
    for row in rank(counts, file.gpu, [models], sizes).rows(count, diverse=True):
        study.enqueue_trial({names.get(name, name): row[name] for name in free}, skip_if_exists=True)
