"""Configurations of Triton's autotuner, pruned before it compiles and times them.

    prune = dse.bridges.triton.pruner(kernel, gpu)
    @triton.autotune(configs, key=["n"], prune_configs_by={"early_config_prune": prune})

Triton passes the list of configurations and the kernel's arguments, and expects a list; all configurations
are predicted at once. A described kernel imports nothing of Triton. Without a description (`CallPruner`, of
`dse.triton.prune`) the kernel's code is compiled and read, also without a GPU. Checked with Triton 3.9.0.
"""

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from dse.data.tables import rows_of
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

COMPILED = 150  # configurations compiled of a larger number
_OF_LAUNCH = ("grid", "warmup")  # passed by Triton besides arguments
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")  # of a configuration, besides its `kwargs`


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
    """Make a function for `early_config_prune`; its attribute `perf_model` serves Triton's `perf_model`.

    `kernel` is a description of the Triton kernel. Its parameters are those of `config.kwargs`, `num_warps`,
    `num_stages`, `num_ctas` and `maxnreg` by name or by `rename`; or `parameters` maps a configuration to
    them. Its problem sizes are the arguments of those names, else its own. Options that it does not have
    change no prediction; rename other unknown names to None.
    """
    predictor = Predictor(kernel, gpu, model, fixed or {}, rename or {}, source)
    return Pruner(predictor, parameters or settings, risk, within)


def settings(config: Any) -> dict[str, Any]:
    """Return the settings of a `triton.Config`."""
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

        If all of them are impossible by the model, all are kept.
        """
        if not configs:
            return []
        candidates = self._predict([self.parameters(config) for config in configs], {**named_args, **kwargs})
        if not candidates.possible.any():
            return list(configs)
        return [configs[index] for index in keep(candidates, self.risk, self.within).index]

    def best_first(self, configs: Sequence[Any], named_args: Mapping[str, Any], **kwargs: Any) -> list[Any]:
        """Order all configurations: the fastest predicted first, last those that cannot be launched.

        Those with an estimated chance to run below a half are in between.
        """
        if not configs:
            return []
        candidates = self._predict([self.parameters(config) for config in configs], {**named_args, **kwargs})
        unlikely = np.broadcast_to(candidates.runs, len(candidates)) < 0.5
        order = np.lexsort((candidates.log_s, unlikely, ~candidates.possible))
        return [configs[index] for index in order]

    def perf_model(self, **arguments: Any) -> float:
        """Predict seconds of one configuration, infinite where it is impossible.

        Triton calls it for each configuration. Those of the last pruning are looked up; without
        `early_config_prune` each call evaluates the model.
        """
        options = {name: arguments.get(name) for name in OPTIONS}
        kwargs = {name: value for name, value in arguments.items() if name not in OPTIONS}
        configuration = self.parameters(SimpleNamespace(kwargs=kwargs, **options))
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
        """Call the model once, and keep sizes, names, and seconds by values for `perf_model`."""
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
    """A function for `early_config_prune` of `triton.autotune`, with a method for its `perf_model`.

    `function` is a kernel without a description, decorated or not, or a function that returns it, for use
    before the kernel is defined. With probability 1 - `risk`, one configuration kept is `within` this share
    of the fastest. Arguments and grid (unless stated here) are those of the launch that triggers autotuning.

    **Raises:** DseError for a missing argument.
    """

    def __init__(
        self,
        function: Any,
        gpu: str | Path | GpuFile,
        model: str | Model = "phase",
        *,
        risk: float = 0.05,
        within: float = 0.05,
        grid: Any = None,
        compiled: int | None = COMPILED,
    ) -> None:
        super().__init__(Predictor(None, gpu, model), self._settings, risk, within)
        self.function, self.grid, self.compiled = function, grid, compiled

    @property
    def kernel(self) -> Any:
        """The kernel; a decorator precedes it, and passes a function that returns it."""
        return self.function() if isinstance(self.function, FunctionType) else self.function

    def _settings(self, config: Any) -> dict[str, Any]:
        """Return a configuration's settings, without arguments of the launch."""
        names = {*unwrapped(self.kernel).constexprs, *OPTIONS}
        return {name: value for name, value in settings(config).items() if name in names}

    def _candidates(
        self, columns: Mapping[str, Sequence[Any]], sizes: Mapping[str, Any], arguments: Mapping[str, Any]
    ) -> Candidates:
        passed = {name: value for name, value in arguments.items() if name not in (*_OF_LAUNCH, *columns)}
        rows = rows_of(columns)
        grid = arguments.get("grid") if self.grid is None else self.grid
        described = of_call(self.kernel, passed, grid, rows)
        counts = SourceKernel(described, self.compiled)
        parameters = {
            name: np.array([row.get(name, values[0]) for row in rows])
            for name, values in described.space.values.items()
        }
        file, model = self.predictor.file, get(self.predictor.model)
        return of_kernel(counts, file, model, parameters, dict(described.problem))
