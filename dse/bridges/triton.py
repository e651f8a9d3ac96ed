"""Configurations of Triton's autotuner, pruned before it compiles and times them.

    prune = dse.bridges.triton.pruner(kernel, gpu)
    @triton.autotune(configs, key=["n"], prune_configs_by={"early_config_prune": prune})

Triton hands over the list of configurations and the kernel's arguments, and takes a list back; all
configurations are predicted at once. Nothing of Triton is imported for a kernel that is described. Without a
description (`CallPruner`, of `dse.triton.prune`) the kernel's code is compiled and read, for which no GPU is
needed either. Checked with Triton 3.9.0.
"""

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from dse.explore.prune.keep import keep
from dse.explore.tune.candidates import Candidates, of_kernel
from dse.explore.tune.predictor import Predictor
from dse.hardware.gpus import GpuFile
from dse.kernels.counts import Counts, Number
from dse.models import get
from dse.models.protocol import Model
from dse.source.kernel import SourceKernel
from dse.source.nvidia.compile.triton_function import unwrapped
from dse.source.readers.triton_call import of_call

COMPILED = 150  # configurations that are compiled where there are more
_OF_LAUNCH = ("grid", "warmup")  # what Triton hands over beside arguments
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")  # of a configuration, beside its own `kwargs`


def pruner(
    kernel: str | Path | Counts,
    gpu: str | Path | GpuFile,
    model: str | Model = "phase",
    *,
    risk: float = 0.05,
    within: float = 0.05,
    fixed: Mapping[str, Number] | None = None,
    rename: Mapping[str, str | None] | None = None,
    parameters: Callable[[Any], Mapping[str, Any]] | None = None,
    source: bool = False,
) -> "Pruner":
    """Make a function for `early_config_prune`; its `perf_model` is one for `perf_model`.

    `kernel` is a description of the Triton kernel. Its parameters are found in `config.kwargs`, `num_warps`,
    `num_stages`, `num_ctas` and `maxnreg` under their names, or as `rename` says; or `parameters` maps a
    configuration to them. Its problem sizes are the arguments of those names, else its own. What it does not
    know among the four changes no prediction; another name that it does not know is renamed to None.
    """
    predictor = Predictor(kernel, gpu, model, fixed or {}, rename or {}, source)
    return Pruner(predictor, parameters or settings, risk, within)


def settings(config: Any) -> dict[str, Any]:
    """Return all that a `triton.Config` sets."""
    options = {name: getattr(config, name, None) for name in OPTIONS}
    return dict(config.kwargs) | {name: value for name, value in options.items() if value is not None}


class Pruner:
    """The function that Triton calls, once for each new combination of the autotuner's keys.

    **Raises:** DseError if names do not match.
    """

    def __init__(
        self, predictor: Predictor, parameters: Callable[[Any], Mapping[str, Any]], risk: float, within: float
    ) -> None:
        self.predictor, self.parameters = predictor, parameters
        self.risk, self.within = risk, within
        self._last: tuple[dict[str, Any], list[str], dict[Any, float]] = {}, [], {}  # see `_predict`

    def __call__(self, configs: Sequence[Any], named_args: Mapping[str, Any], **kwargs: Any) -> list[Any]:
        """Keep the configurations worth timing, fastest predicted first; never none.

        Where the model holds all of them for impossible it is of no use here, and all are kept.
        """
        if not configs:
            return []
        candidates = self._predict([self.parameters(config) for config in configs], {**named_args, **kwargs})
        if not candidates.possible.any():
            return list(configs)
        return [configs[index] for index in keep(candidates, self.risk, self.within).index]

    def best_first(self, configs: Sequence[Any], named_args: Mapping[str, Any], **kwargs: Any) -> list[Any]:
        """Order all configurations: the fastest predicted first, last those that cannot be launched.

        One that is estimated to run with a chance below a half stands between both.
        """
        if not configs:
            return []
        candidates = self._predict([self.parameters(config) for config in configs], {**named_args, **kwargs})
        unlikely = np.broadcast_to(candidates.runs, len(candidates)) < 0.5
        order = np.lexsort((candidates.log_s, unlikely, ~candidates.possible))
        return [configs[index] for index in order]

    def perf_model(self, **arguments: Any) -> float:
        """Predict seconds of one configuration, infinite where it is impossible.

        Triton asks for each configuration separately. Those that were pruned just before are looked up;
        without `early_config_prune` each is a call of the model.
        """
        options = {name: arguments.get(name) for name in OPTIONS}
        own = {name: value for name, value in arguments.items() if name not in OPTIONS}
        configuration = self.parameters(SimpleNamespace(kwargs=own, **options))
        sizes, names, seconds = self._last
        key = tuple(str(configuration.get(name)) for name in names)
        if key not in seconds or any(arguments.get(name) != size for name, size in sizes.items()):
            self._predict([configuration], arguments)
            [value] = self._last[2].values()
            return value
        return seconds[key]

    def _predict(
        self, configurations: Sequence[Mapping[str, Any]], arguments: Mapping[str, Any]
    ) -> Candidates:
        """Call the model once. Keeps what it was for: sizes, names, and the seconds by their values."""
        names = list(dict.fromkeys(name for values in configurations for name in values))
        columns = {name: [values.get(name) for values in configurations] for name in names}
        sizes = {
            name: value
            for name, value in arguments.items()
            if isinstance(value, Real) and name not in _OF_LAUNCH
        }
        candidates = self._candidates(columns, sizes, arguments)
        seconds = np.where(candidates.possible, np.exp(candidates.log_s), np.inf).tolist()
        keys = [tuple(str(values.get(name)) for name in names) for values in configurations]
        self._last = sizes, names, dict(zip(keys, seconds, strict=True))
        return candidates

    def _candidates(
        self, columns: Mapping[str, Sequence[Any]], sizes: Mapping[str, Any], arguments: Mapping[str, Any]
    ) -> Candidates:
        return self.predictor.candidates(columns, "configs", sizes, OPTIONS)


class CallPruner(Pruner):
    """The same for a kernel of which only the code is known: what the arguments of the launch are counts.

    **Raises:** DseError for what is missing.
    """

    def __init__(
        self,
        kernel: Any,
        gpu: str | Path | GpuFile,
        model: str | Model = "phase",
        *,
        risk: float = 0.05,
        within: float = 0.05,
        grid: Any = None,
        compiled: int | None = COMPILED,
    ) -> None:
        super().__init__(Predictor(None, gpu, model), self._settings, risk, within)
        self.given, self.grid, self.compiled = kernel, grid, compiled

    @property
    def kernel(self) -> Any:
        """The kernel, which a function may return that was given in its place."""
        return self.given() if isinstance(self.given, FunctionType) else self.given

    def _settings(self, config: Any) -> dict[str, Any]:
        """Return what a configuration sets, and no argument of the launch."""
        names = {*unwrapped(self.kernel).constexprs, *OPTIONS}
        return {name: value for name, value in settings(config).items() if name in names}

    def _candidates(
        self, columns: Mapping[str, Sequence[Any]], sizes: Mapping[str, Any], arguments: Mapping[str, Any]
    ) -> Candidates:
        passed = {name: value for name, value in arguments.items() if name not in (*_OF_LAUNCH, *columns)}
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        grid = arguments.get("grid") if self.grid is None else self.grid
        described = of_call(self.kernel, passed, grid, rows)
        counts = SourceKernel(described, self.compiled)
        parameters = {
            name: np.array([row.get(name, values[0]) for row in rows])
            for name, values in described.space.values.items()
        }
        file, model = self.predictor.file, get(self.predictor.model)
        return of_kernel(counts, file, model, parameters, dict(described.problem))
