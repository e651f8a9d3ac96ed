"""Helion: configurations of any kernel in predicted order, and none that cannot be launched.

    bound = matmul.bind((x, y))
    matmul.settings.autotune_seed_configs = Predictions("h100-sxm", bound, (x, y)).best_first(configs)[:5]
    matmul.settings.autotune_config_filter = Predictions("h100-sxm", bound, (x, y)).filter
    @helion.kernel(autotuner_fn=finite_search("h100-sxm"))

Helion writes a Triton kernel for a configuration, and a function that launches it. That function is called
with a launcher that launches nothing; the kernel is then compiled and read as any of Triton's, where Triton's
own cache keeps it for Helion. Tried with Helion 1.5.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dse.bridges.tables import Row, Table, by_problem
from dse.core.optional import tried
from dse.errors import DseError
from dse.evaluate.rank import rank
from dse.hardware.gpus import GpuFile, load
from dse.models import DEFAULT
from dse.source.kernel import SourceKernel
from dse.source.readers.triton_call import of_call

HELION = "helion==1.5.*"
DRAWN, FIRST = 30, 5  # of Helion's candidates, predicted; and of these, timed
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")


def configuration(row: Row) -> dict[str, Any]:
    """One configuration of a product whose tiles are those of rows and columns, then of the depth."""
    blocks = [row[f"BLOCK_SIZE_{axis}"] for axis in "MNK"]
    options = {name: row[name] for name in ("num_warps", "num_stages")}
    return {"block_sizes": blocks, "l2_groupings": [row["GROUP_SIZE_M"]], **options}


def text(table: Table) -> str:
    """For each problem its sizes and its configurations, as JSON."""
    return by_problem(table, configuration)


@dataclass
class Predictions:
    """Times of a bound kernel's configurations on a GPU, for the arguments of a launch."""

    gpu: str | Path | GpuFile
    bound: Any  # helion.runtime.kernel.BoundKernel
    arguments: Sequence[Any]
    model: str = DEFAULT
    known: dict[str, float] = field(default_factory=dict)

    def seconds(self, config: Any) -> float:
        """Predict the time of all that a configuration launches; infinite where one cannot be.

        **Raises:** DseError for another version of Helion.
        """
        key = repr(config)
        if key not in self.known:
            file = self.gpu if isinstance(self.gpu, GpuFile) else load(self.gpu)
            launches = launched(self.bound, self.arguments, config)
            self.known[key] = sum(_seconds(file, self.model, *launch) for launch in launches) or np.inf
        return self.known[key]

    def best_first(self, configs: Sequence[Any]) -> list[Any]:
        """Order configurations, those that cannot be launched left out."""
        possible = [config for config in configs if np.isfinite(self.seconds(config))]
        return sorted(possible, key=self.seconds)

    def filter(self, config: Any) -> Any:
        """For `autotune_config_filter`: the configuration, or None if it cannot be launched."""
        return config if np.isfinite(self.seconds(config)) else None


def finite_search(
    gpu: str | Path | GpuFile, drawn: int = DRAWN, first: int = FIRST, model: str = DEFAULT
) -> Callable[..., Any]:
    """Make an `autotuner_fn` that times the `first` of `drawn` of Helion's own candidates, as predicted."""

    def autotuner(bound: Any, arguments: Sequence[Any], **others: Any) -> Any:
        search = tried(HELION, "helion.autotuner", "helion").FiniteSearch
        generation = bound.config_spec.create_config_generation()
        configs = [generation.unflatten(flat) for flat in generation.random_population_flat(drawn)]
        return search(bound, arguments, Predictions(gpu, bound, arguments, model).best_first(configs)[:first])

    return autotuner


def launched(
    bound: Any, arguments: Sequence[Any], config: Any
) -> list[tuple[Any, tuple[int, ...], Mapping[str, Any]]]:
    """What a configuration launches: kernels of Triton, their grids, arguments and options by name."""
    tried(HELION, "helion", "helion")
    function, found = bound.compile_config(config), []

    def launcher(kernel: Any, grid: tuple[int, ...], *values: Any, **options: Any) -> None:
        found.append((kernel, grid, dict(zip(kernel.arg_names, values, strict=False)) | options))

    function(*arguments, _launcher=launcher)
    return found


def _seconds(
    file: GpuFile, model: str, kernel: Any, grid: tuple[int, ...], values: Mapping[str, Any]
) -> float:
    options = {name: value for name, value in values.items() if name in OPTIONS}
    inside = {name: value for name, value in values.items() if name in kernel.arg_names}
    try:
        read = SourceKernel(of_call(kernel, inside, grid, [options]))
        return rank(read, file.gpu, (model,), gpu_name=file.name).rows(1)[0]["time_s"]
    except DseError:
        return np.inf
