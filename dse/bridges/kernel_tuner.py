"""Kernel Tuner: the model-guided tuner as its strategy, and pruned spaces as its restrictions.

`tune_kernel(..., strategy=strategy(...))`: Kernel Tuner takes any object with
`tune(searchspace, runner, tuning_options)`. Space, restrictions, caches, verification and budget stay Kernel
Tuner's. `tune_kernel(..., restrictions=restrictions(...))` lets only the configurations worth measuring
through. Checked with Kernel Tuner 1.5.0.
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
WITHOUT_BUDGET = (
    100  # configurations measured where strategy_options has no limit, as other strategies have it
)


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
    """Make a strategy that measures what the model and the measurements so far promise most of.

    `kernel` and `gpu` are names or paths as `dse rank` takes them; without a kernel (None) measurements alone
    say what to try. Names in `tune_params` are the kernel's, or those of one of its `[spaces.…]`, else
    `rename` says which is which (None: unknown to the kernel). `fixed` are its parameters and problem sizes
    that are not tuned.
    """
    return Strategy(Predictor(kernel, gpu, model, fixed or {}, rename or {}, source), seed)


@dataclass(eq=False)  # Kernel Tuner looks it up among the names of its own, so that it must have a hash
class Strategy:
    """The object that Kernel Tuner calls as its strategy.

    `strategy_options` are Kernel Tuner's `max_fevals` and `time_limit`; without either, 100 configurations
    are measured. The objective is any one that is above 0: a time, or a throughput that is to be high.
    **Raises:** DseError if names do not match, or for another objective.
    """

    predictor: Predictor
    seed: int = 0

    def tune(self, searchspace: Any, runner: Any, tuning_options: Any) -> list[dict[str, Any]]:
        """Tune; return the results of all configurations that were measured, in that order."""
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
    """Return the value to minimise, above 0; None of what failed. A throughput comes with a minus."""
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
    """Return `restrictions` for `tune_kernel`, in place of your own, which they imply.

    Names are matched as `dse.bridges.kernel_tuner.strategy` does.
    **Raises:** DseError if names do not match, or if none of the configurations is possible.
    """
    from constraint import FunctionConstraint  # Kernel Tuner's own solver

    predictor = Predictor(kernel, gpu, model, fixed or {}, rename or {}, source)
    columns = configurations(predictor, tune_params, restrictions, risk, within)
    kept = frozenset(zip(*columns.values(), strict=True))
    own = [restrictions] if isinstance(restrictions, str) else restrictions
    # texts are checked as soon as their parameters have values, which saves the solver most of the work
    texts = [text for text in own if isinstance(text, str)] if isinstance(own, Sequence) else []
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

    own = list(restrictions) if isinstance(restrictions, tuple) else restrictions
    space = Searchspace(dict(tune_params), own, MOST_THREADS)
    columns = dict(zip(space.param_names, zip(*space.list, strict=True), strict=True))
    candidates = predictor.candidates(columns, "tune_params")
    kept = keep(candidates, risk, within).index
    return {name: [values[index] for index in kept] for name, values in columns.items()}
