"""Helion: configurations of any kernel in predicted order, without those that cannot be launched.

    bound = matmul.bind((x, y))
    matmul.settings.autotune_seed_configs = Predictions("h100-sxm", bound, (x, y)).best_first(configs)[:5]
    matmul.settings.autotune_config_filter = Predictions("h100-sxm", bound, (x, y)).filter
    @helion.kernel(autotuner_fn=finite_search("h100-sxm"))

For a configuration Helion writes a Triton kernel and a function that launches it. That function is called
with a launcher that only records; the kernel is then compiled and read like any Triton kernel, and Triton's
cache keeps it for Helion. Tried with Helion 1.5.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dse.bridges.tables import Row
from dse.bridges.triton import OPTIONS
from dse.core.optional import import_tested
from dse.errors import DseError
from dse.evaluate.rank import rank
from dse.hardware import occupancy
from dse.hardware.gpus import GpuFile, load
from dse.kernels.description import Description
from dse.models import DEFAULT
from dse.source.cache import Cache
from dse.source.contract import Failure
from dse.source.kernel import SourceKernel
from dse.source.launches import configurations
from dse.source.nvidia.arguments import as_launched
from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.profiled import resources
from dse.source.nvidia.source import architecture, source_of
from dse.source.profiles import Job, compiled
from dse.source.readers.triton_call import of_call

HELION = "helion==1.5.*"
DRAWN, FIRST = 30, 5  # of Helion's candidates, predicted; of these, timed


def configuration(row: Row) -> dict[str, Any]:
    """One configuration of a product with tiles of rows, columns and depth, in this order."""
    blocks = [row[f"BLOCK_SIZE_{axis}"] for axis in "MNK"]
    options = {name: row[name] for name in ("num_warps", "num_stages")}
    return {"block_sizes": blocks, "l2_groupings": [row["GROUP_SIZE_M"]], **options}


@dataclass
class Predictions:
    """Predictions for a bound kernel's configurations on a GPU, with the arguments of a launch.

    **Raises:** DseError for another version of Helion, or an unknown GPU.
    """

    gpu: str | Path | GpuFile
    bound: Any  # helion.runtime.kernel.BoundKernel
    arguments: Sequence[Any]
    model: str = DEFAULT

    def __post_init__(self) -> None:
        import_tested(HELION, "helion", "helion")  # here, since an error is a configuration that cannot run
        self.file = load(self.gpu)

    def seconds(self, config: Any) -> float:
        """Predict the total time of a configuration's launches.

        Infinite if one of them is impossible; NaN if the code cannot be read.
        """
        try:
            return sum(map(self._seconds, launched(self.bound, self.arguments, config)))
        except DseError:
            return np.nan if self.filter(config) else np.inf

    def filter(self, config: Any) -> Any:
        """For `autotune_config_filter`: the configuration, or None if it cannot be launched.

        It is only compiled: registers and shared memory decide.
        """
        try:
            return config if all(map(self._possible, launched(self.bound, self.arguments, config))) else None
        except DseError:  # it does not compile
            return None

    def best_first(self, configs: Sequence[Any]) -> list[Any]:
        """Order configurations by time, unreadable ones last, without impossible ones."""
        seconds = np.array([self.seconds(config) for config in configs])
        return [configs[index] for index in np.argsort(seconds, kind="stable") if seconds[index] != np.inf]

    def _seconds(self, launch: Description) -> float:
        ranking = rank(SourceKernel(launch), self.file.gpu, (self.model,), gpu_name=self.file.name)
        return ranking.rows(1)[0]["time_s"]

    def _possible(self, launch: Description) -> bool:
        gpu, source = self.file.gpu, source_of(launch)
        [configuration] = configurations(launch, launch.space.configurations(), dict(launch.problem), gpu)
        job = Job(source, architecture(gpu, source), gpu, Cache(), {launch.name: configuration})
        binary = compiled(job, Compiled)[launch.name]
        if isinstance(binary, Failure):
            return False
        block = resources(binary, as_launched(binary, configuration))
        return bool(occupancy.possible(occupancy.resident_blocks(gpu.limits, block)[1]))


def finite_search(
    gpu: str | Path | GpuFile, drawn: int = DRAWN, first: int = FIRST, model: str = DEFAULT
) -> Callable[..., Any]:
    """Make an `autotuner_fn` that times the `first` of `drawn` of Helion's own candidates, as predicted."""

    def autotuner(bound: Any, arguments: Sequence[Any], **others: Any) -> Any:
        search = import_tested(HELION, "helion.autotuner", "helion").FiniteSearch
        generation = bound.config_spec.create_config_generation()
        configs = [generation.unflatten(flat) for flat in generation.random_population_flat(drawn)]
        return search(bound, arguments, Predictions(gpu, bound, arguments, model).best_first(configs)[:first])

    return autotuner


def launched(bound: Any, arguments: Sequence[Any], config: Any) -> list[Description]:
    """The kernels that a configuration launches, in order."""
    function, launches = bound.compile_config(config), []

    def launcher(kernel: Any, grid: tuple[int, ...], *values: Any, **options: Any) -> None:
        inside = dict(zip(kernel.arg_names, values, strict=False))
        settings = {name: options[name] for name in OPTIONS if name in options}
        launches.append(of_call(kernel, inside, grid, [settings]))

    function(*arguments, _launcher=launcher)
    return launches
