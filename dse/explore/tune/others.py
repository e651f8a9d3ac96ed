"""Prior information on configurations from tables of the same kernel on other GPUs."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from dse.data import measured
from dse.errors import DseError
from dse.explore.tune.candidates import Candidates
from dse.kernels.counts import Counts


def with_others(candidates: Candidates, kernel: Counts, paths: Iterable[str | Path]) -> Candidates:
    """Add the errors of the predictions on recorded tables, of any GPU, to the candidates.

    A table's scale does not count; missing configurations are as predicted, failed ones as its slowest.

    **Raises:** DseError for a table that cannot be read, or that has none of the configurations.
    """
    off = [_off(candidates, kernel, path) for path in paths]
    if not off:
        return candidates
    return replace(candidates, others=np.column_stack(off))


def _off(candidates: Candidates, kernel: Counts, path: str | Path) -> np.ndarray:
    """Return the log error of each candidate's prediction on a table, minus the median: [N]."""
    table = measured.load(path, kernel)
    places = candidates.places_of(table.parameters)
    ran = table.ok & (places >= 0)
    if not ran.any():
        raise DseError(f"{path}: found none of the configurations of {kernel.name} that ran, expected some")
    off = np.zeros(len(candidates))
    logs = np.log(np.where(table.ok, table.time_s, np.nanmax(table.time_s[ran])))
    failed = ~table.ok & (places >= 0)
    for some in (failed, ran):
        off[places[some]] = logs[some] - candidates.log_s[places[some]]
    middle = np.median(off[places[ran]])
    known = np.unique(places[ran | failed])
    off[known] -= middle
    return off
