"""Prune a kernel's space on a GPU, by predictions, times on other GPUs and some measurements."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from dse.core.progress import Progress, silent
from dse.data import measured
from dse.data.tables import Columns
from dse.errors import DseError
from dse.evaluate.rank import configurations
from dse.explore.prune.keep import PrunedSpace, check, keep
from dse.explore.tune.candidates import Candidates, of_kernel
from dse.explore.tune.others import with_others
from dse.hardware.gpus import GpuFile
from dse.kernels.counts import Counts, Number
from dse.models.protocol import Model


class Pruned(Columns):
    """The parameters of the configurations kept, [kept] each, the most promising first."""

    def __init__(self, candidates: Candidates, kept: PrunedSpace, measurements: int) -> None:
        super().__init__({name: values[kept.index] for name, values in candidates.parameters.items()})
        self.candidates, self.kept, self.measurements = candidates, kept, measurements


def prune(
    kernel: Counts,
    gpu: GpuFile,
    model: str | Model,
    problem: Mapping[str, Number] | None = None,
    risk: float = 0.05,
    within: float = 0.05,
    prior: Iterable[str | Path] = (),
    times: str | Path | None = None,
    progress: Progress = silent,
) -> Pruned:
    """Keep the configurations worth measuring, by `keep`. `times` is a file of measurements in this space.

    **Raises:** DseError as `keep`, and for a file that cannot be read or has no configuration of the space.
    """
    check(risk, within)  # before the work
    table = measured.load(times, kernel) if times else None
    sizes = {**(problem or {}), **(table.problem if table else {})}
    candidates = of_kernel(kernel, gpu, model, configurations(kernel, sizes), sizes, progress)
    candidates = with_others(candidates, kernel, prior)
    recorded = {}
    if table is not None:
        index, seconds = candidates.places_of(table.parameters), np.where(table.ok, table.time_s, np.inf)
        recorded = {i: time for i, time in zip(index.tolist(), seconds.tolist(), strict=True) if i >= 0}
        if not recorded:
            missing = f"{times}: found no configuration of {kernel.name}'s space"
            raise DseError(f"{missing}, expected at least one")
    return Pruned(candidates, keep(candidates, risk, within, recorded), len(recorded))
