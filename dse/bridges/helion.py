"""Helion: configurations of any kernel in predicted order, and none that cannot be launched.

    bound = matmul.bind((x, y))
    matmul.settings.autotune_seed_configs = Predictions("h100-sxm", bound, (x, y)).best_first(configs)[:5]
    matmul.settings.autotune_config_filter = Predictions("h100-sxm", bound, (x, y)).filter
    @helion.kernel(autotuner_fn=finite_search("h100-sxm"))

Helion writes a Triton kernel for a configuration, and a function that launches it. That function is called
with a launcher that launches nothing; the kernel is then compiled and read as any of Triton's, where Triton's
own cache keeps it for Helion. Tried with Helion 1.5.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
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
from dse.source.nvidia.source import architecture, resources, source_of
from dse.source.profiles import Job, compiled
from dse.source.readers.triton_call import of_call

HELION = "helion==1.5.*"
DRAWN, FIRST = 30, 5  # of Helion's candidates, predicted; and of these, timed


def configuration(row: Row) -> dict[str, Any]:
    """One configuration of a product whose tiles are those of rows and columns, then of the depth."""
    blocks = [row[f"BLOCK_SIZE_{axis}"] for axis in "MNK"]
    options = {name: row[name] for name in ("num_warps", "num_stages")}
    return {"block_sizes": blocks, "l2_groupings": [row["GROUP_SIZE_M"]], **options}


@dataclass
class Predictions:
    """What becomes of a bound kernel's configurations on a GPU, for the arguments of a launch.

    **Raises:** DseError for another version of Helion.
    """

    gpu: str | Path | GpuFile
    bound: Any  # helion.runtime.kernel.BoundKernel
    arguments: Sequence[Any]
    model: str = DEFAULT

    @cached_property
    def file(self) -> GpuFile:
        """The GPU."""
        return self.gpu if isinstance(self.gpu, GpuFile) else load(self.gpu)

    def seconds(self, config: Any) -> float:
        """Predict the time of all that a configuration launches.

        Infinite where one of it cannot be launched; NaN where its code cannot be read.
        """
        try:
            return sum(map(self._seconds, launched(self.bound, self.arguments, config)))
        except DseError:
            return np.nan if self.filter(config) else np.inf

    def filter(self, config: Any) -> Any:
        """For `autotune_config_filter`: the configuration, or None if it cannot be launched.

        It is compiled, and no more: registers and shared memory say it.
        """
        try:
            return config if all(map(self._possible, launched(self.bound, self.arguments, config))) else None
        except DseError:  # it does not compile
            return None

    def best_first(self, configs: Sequence[Any]) -> list[Any]:
        """Order configurations: what cannot be launched is left out, what cannot be read comes last."""
        seconds = np.array([self.seconds(config) for config in configs])
        return [configs[place] for place in np.argsort(seconds, kind="stable") if seconds[place] != np.inf]

    def _seconds(self, launch: Description) -> float:
        ranking = rank(SourceKernel(launch), self.file.gpu, (self.model,), gpu_name=self.file.name)
        return ranking.rows(1)[0]["time_s"]

    def _possible(self, launch: Description) -> bool:
        gpu, source = self.file.gpu, source_of(launch)
        [wanted] = configurations(launch, launch.space.configurations(), dict(launch.problem), gpu)
        job = Job(source, architecture(gpu, source), gpu, Cache(), {launch.name: wanted})
        made = compiled(job, Compiled)[launch.name]
        if isinstance(made, Failure):
            return False
        asked = resources(made, as_launched(made, wanted))
        return bool(occupancy.possible(occupancy.resident_blocks(gpu.limits, asked)[1]))


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
    """What a configuration launches, kernel after kernel."""
    import_tested(HELION, "helion", "helion")
    function, launches = bound.compile_config(config), []

    def launcher(kernel: Any, grid: tuple[int, ...], *values: Any, **options: Any) -> None:
        inside = dict(zip(kernel.arg_names, values, strict=False))
        own = {name: options[name] for name in OPTIONS if name in options}
        launches.append(of_call(kernel, inside, grid, [own]))

    function(*arguments, _launcher=launcher)
    return launches
