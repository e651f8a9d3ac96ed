"""Prior information on configurations from tables of the same kernel on other GPUs.

If a file's name states its GPU, its times are compared with the predictions for that GPU: a model repeats
part of its errors on GPUs of one vendor and warp size.
"""

import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from dse.data import measured
from dse.errors import DseError, InputWarning
from dse.explore.tune.candidates import Candidates
from dse.hardware import gpus
from dse.hardware.gpus import GpuFile
from dse.kernels.counts import Counts


def with_others(candidates: Candidates, kernel: Counts, paths: Iterable[str | Path]) -> Candidates:
    """Add the errors of the predictions on recorded tables, of any GPU, to the candidates.

    A table's scale does not count; missing configurations are as predicted, failed ones as its slowest.
    Tables of known GPUs of another vendor or warp size are left out, with a warning, if there is a model.

    **Raises:** DseError for a table that cannot be read, or that has none of the configurations.
    """
    off, alike = list[np.ndarray](), list[int]()
    for path in map(Path, paths):
        file = _gpu_of(path)
        same = _alike(candidates.file, file)
        if candidates.modelled and same is False:
            text = "left out: predictions do not repeat their errors on another vendor's GPU or warp size"
            warnings.warn(f"{path}: {text}", InputWarning, stacklevel=2)
            continue
        if same:
            alike.append(len(off))
        off.append(_off(candidates, kernel, path, file))
    return replace(candidates, others=np.column_stack(off), alike=tuple(alike)) if off else candidates


def _gpu_of(path: Path) -> GpuFile | None:
    """Return the GPU that a file's name states, if any."""
    try:
        return gpus.in_name(path)
    except DseError:
        return None


def _alike(file: GpuFile | None, other: GpuFile | None) -> bool | None:
    """Return whether errors of a model on one are likely to recur on the other; None if unknown."""
    if file is None or other is None:
        return None
    first, second = ((x.header.vendor, int(x.gpu.limits.warp_size)) for x in (file, other))
    return first == second


def _off(candidates: Candidates, kernel: Counts, path: Path, file: GpuFile | None) -> np.ndarray:
    """Return the log error of each candidate's prediction on a table, minus the median: [N]."""
    table = measured.load(path, kernel)
    places = candidates.places_of(table.parameters)
    there = candidates
    if candidates.modelled and candidates.elsewhere and file:
        there = candidates.elsewhere(file, table.problem)
    ran = table.ok & (places >= 0) & there.possible[places]
    if not ran.any():
        raise DseError(f"{path}: found none of the configurations of {kernel.name} that ran, expected some")
    off = np.zeros(len(candidates))
    logs = np.log(np.where(table.ok, table.time_s, np.nanmax(table.time_s[ran])))
    failed = ~table.ok & (places >= 0)
    for some in (failed, ran):
        off[places[some]] = logs[some] - there.log_s[places[some]]
    middle = np.median(off[places[ran]])
    known = np.unique(places[ran | failed])
    off[known] -= middle
    return off
