"""Pruned spaces for Kernel Tuner: a restriction that lets only the configurations worth measuring through.

Checked with Kernel Tuner 1.5.0.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dse.counts import Counts, Number
from dse.gpus.read import GpuFile
from dse.models.protocol import Model
from dse.pruning.keep import keep
from dse.tuning.predictor import Predictor

Restriction = str | Callable[..., Any] | Any  # as Kernel Tuner takes it
MOST_THREADS = 1024  # of a block, on every GPU of today


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
    """What to give to `tune_kernel` as `restrictions`, in place of your own, which it implies.

    Names are matched as `dse.bridges.kernel_tuner_strategy.strategy` does.
    **Raises:** DseError if names do not match, or if none of the configurations is possible.
    """
    from constraint import FunctionConstraint  # Kernel Tuner's own solver

    predictor = Predictor(kernel, gpu, model, fixed or {}, rename or {}, source)
    found = configurations(predictor, tune_params, restrictions, risk, within)
    kept = frozenset(zip(*found.values(), strict=True))
    own = [restrictions] if isinstance(restrictions, str) else restrictions
    # texts are checked as soon as their parameters have values, which saves the solver most of the work
    texts = [each for each in own if isinstance(each, str)] if isinstance(own, Sequence) else []
    return [*texts, FunctionConstraint(lambda *values: values in kept)]


def configurations(
    predictor: Predictor,
    tune_params: Mapping[str, Sequence[Any]],
    restrictions: Restriction | Sequence[Restriction] | None = None,
    risk: float = 0.05,
    within: float = 0.05,
) -> dict[str, list[Any]]:
    """The configurations kept, fastest predicted first: a list of values of each parameter."""
    from kernel_tuner.searchspace import Searchspace

    own = list(restrictions) if isinstance(restrictions, tuple) else restrictions
    space = Searchspace(dict(tune_params), own, MOST_THREADS)
    columns = dict(zip(space.param_names, zip(*space.list, strict=True), strict=True))
    candidates = predictor.candidates(columns, "tune_params")
    kept = keep(candidates, risk, within).places
    return {name: [values[place] for place in kept] for name, values in columns.items()}
