"""Kernel Tuner: the model-guided tuner as its strategy, and pruned spaces as its restrictions.

`tune_kernel(..., strategy=strategy(...))`: Kernel Tuner takes any object with `tune(searchspace, runner,
tuning_options)`. Space, restrictions, caches, verification and budget stay Kernel Tuner's. `tune_kernel(...,
restrictions=restrictions(...))` keeps only the configurations worth measuring. Checked with Kernel Tuner
1.5.0.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dse.errors import DseError
from dse.explore.prune.keep import keep
from dse.explore.tune.predictor import Predictor
from dse.explore.tune.tuner import Tuner
from dse.hardware.gpus import GpuFile
from dse.kernels.counts import Counts, Number
from dse.models.protocol import Model

Restriction = str | Callable[..., Any] | Any  # as Kernel Tuner takes it
MOST_THREADS = 1024  # of a block, on every GPU of today
WITHOUT_BUDGET = 100  # configurations measured if strategy_options has no limit, as in other strategies


def strategy(
    kernel: str | Path | Counts | None,
    gpu: str | Path | GpuFile | None = None,
    model: str | Model = "phase",
    *,
    fixed: Mapping[str, Number] | None = None,
    rename: Mapping[str, str | None] | None = None,
    source: bool = False,
    seed: int = 0,
) -> "Strategy":
    """Make a strategy that measures the most promising configuration by the model and earlier measurements.

    `kernel` and `gpu` are names or paths as `dse rank` takes them; without a kernel (None) only measurements
    guide the search. Names in `tune_params` are the kernel's, or those of one of its `[spaces.…]`, else
    `rename` maps them (None: unknown to the kernel). `fixed` sets parameters and problem sizes that are not
    tuned.
    """
    return Strategy(Predictor(kernel, gpu, model, fixed or {}, rename or {}, source), seed)


@dataclass(eq=False)  # Kernel Tuner looks it up in a dictionary of its strategies, so it needs a hash
class Strategy:
    """The object that Kernel Tuner calls as its strategy.

    `strategy_options` are Kernel Tuner's `max_fevals` and `time_limit`; without either, 100 configurations
    are measured. The objective is anything above 0: a time, or a throughput to be maximised.
    **Raises:** DseError if names do not match, or for another objective.
    """

    predictor: Predictor
    seed: int = 0

    def tune(self, searchspace: Any, runner: Any, tuning_options: Any) -> list[dict[str, Any]]:
        """Tune; return the results of all measured configurations, in order."""
        from kernel_tuner.strategies.common import CostFunc, get_options
        from kernel_tuner.util import StopCriterionReached

        options = tuning_options.strategy_options
        get_options(options, {}, unsupported=["x0"])
        if len(tuning_options.objective) > 1:
            names = ", ".join(tuning_options.objective)
            raise DseError(f"objective: found {names}, expected one")
        limited = {"max_fevals", "time_limit"} & set(options)
        left = len(searchspace.list) if limited else WITHOUT_BUDGET
        columns = zip(*searchspace.list, strict=True)
        candidates = self.predictor.candidates(
            dict(zip(searchspace.param_names, columns, strict=True)), "tune_params"
        )
        tuner = Tuner(candidates, self.seed)
        cost = CostFunc(searchspace, tuning_options, runner, scaling=False, snap=False)
        with suppress(StopCriterionReached):
            while left and (indices := tuner.ask()):
                [index] = indices
                value = cost(searchspace.list[index], check_restrictions=False)
                tuner.tell(index, _time(value, tuning_options))
                left -= 1
        return cost.results


def _time(cost: float, tuning_options: Any) -> float | None:
    """Return the value to minimise, above 0; None for a failure. A throughput comes negated."""
    if cost == sys.float_info.max:
        return None
    higher_is_better = tuning_options.objective_higher_is_better[0]
    value = -cost if higher_is_better else cost
    if not value > 0:
        raise DseError(f"objective: {tuning_options.objective[0]}: found {value}, expected a number above 0")
    return 1.0 / value if higher_is_better else value


def restrictions(
    kernel: str | Path | Counts,
    gpu: str | Path | GpuFile,
    tune_params: Mapping[str, Sequence[Any]],
    restrictions: Restriction | Sequence[Restriction] | None = None,
    risk: float = 0.05,
    within: float = 0.05,
    model: str | Model = "phase",
    *,
    fixed: Mapping[str, Number] | None = None,
    rename: Mapping[str, str | None] | None = None,
    source: bool = False,
) -> list[Restriction]:
    """Return `restrictions` for `tune_kernel`, which include the given ones.

    Names are matched as by `strategy`.
    **Raises:** DseError if names do not match, or if none of the configurations is possible.
    """
    from constraint import FunctionConstraint  # Kernel Tuner's own solver

    predictor = Predictor(kernel, gpu, model, fixed or {}, rename or {}, source)
    columns = configurations(predictor, tune_params, restrictions, risk, within)
    kept = frozenset(zip(*columns.values(), strict=True))
    stated = [restrictions] if isinstance(restrictions, str) else restrictions
    # texts are checked as soon as their parameters have values, which saves the solver most of the work
    texts = [text for text in stated if isinstance(text, str)] if isinstance(stated, Sequence) else []
    return [*texts, FunctionConstraint(lambda *values: values in kept)]


def configurations(
    predictor: Predictor,
    tune_params: Mapping[str, Sequence[Any]],
    restrictions: Restriction | Sequence[Restriction] | None = None,
    risk: float = 0.05,
    within: float = 0.05,
) -> dict[str, list[Any]]:
    """Return the configurations kept, fastest predicted first: a list of values of each parameter."""
    from kernel_tuner.searchspace import Searchspace

    stated = list(restrictions) if isinstance(restrictions, tuple) else restrictions
    space = Searchspace(dict(tune_params), stated, MOST_THREADS)
    columns = dict(zip(space.param_names, zip(*space.list, strict=True), strict=True))
    candidates = predictor.candidates(columns, "tune_params")
    order = keep(candidates, risk, within).index
    return {name: [values[index] for index in order] for name, values in columns.items()}
