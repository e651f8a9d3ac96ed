"""Times of a matrix kernel's configurations: read from a file, or measured by a tuner."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from dse.data.measured.formats import read as read_table
from dse.data.table import SECONDS, Table
from dse.errors import DseError
from dse.explore.fit.surrogate import positions
from dse.explore.matrix.refine import Correction, Timed
from dse.explore.matrix.table import Kernel, Predictor
from dse.explore.tune import loop
from dse.explore.tune.candidates import bare
from dse.explore.tune.tuner import RUNS, Tuner, chance, expected_improvement
from dse.hardware.gpus import GpuFile
from dse.models.matrix.configuration import NAMES

ALL_RUN = ("GROUP_SIZE_M",)  # irrelevant to whether a configuration runs

# Columns, in seconds.
TIMES = {"seconds": 1.0} | {name: scale for unit, scale in SECONDS.items() for name in (f"time_{unit}", unit)}


def read(path: Path, kernel: Kernel, file: GpuFile) -> Timed:
    """Read measured times: columns M, the parameters and a time; infinite for failures.

    **Raises:** DseError, one line with column and row, for a missing column, a value outside the kernel's
    space, or a time that is no number above 0.
    """
    table, configurations = read_table(path), kernel.configurations(file)
    parameters = NAMES[: configurations.shape[1]]
    for name in ("M", *parameters):
        if name not in table.names:
            table.fail("columns", f"found no {name}, expected M, {', '.join(parameters)} and a time")
    timed = next((name for name in TIMES if name in table.names), None)
    if timed is None:
        table.fail("columns", f"found no time, expected one of {', '.join(TIMES)}")
    tokens = table.complete("M")
    _refuse(table, "M", (tokens < 1) | (tokens != np.floor(tokens)), "a whole number of at least 1")
    columns = []
    for name, allowed in zip(parameters, configurations.T, strict=True):
        column, values = table.complete(name), np.unique(allowed)
        expected = f"one of {', '.join(map(str, values))}, as the tuner of {kernel.name} tries"
        _refuse(table, name, ~np.isin(column, values), expected)
        columns.append(column.astype(int))
    seconds = table.numbers(timed).astype(float) * TIMES[timed]
    _refuse(table, timed, ~(seconds > 0), "a time above 0, or inf where it did not run")
    known = {tuple(row): place for place, row in enumerate(configurations.tolist())}
    places = np.array([known[row] for row in zip(*(column.tolist() for column in columns), strict=True)])
    return Timed(tokens.astype(int), places, seconds)


class InTurn(Tuner):
    """A tuner of several numbers of tokens in sequence, each with all previous measurements.

    Candidates are all configurations for each number of tokens. The first of each is the best by corrected
    predictions (`dse.explore.matrix.refine`); the next have the largest expected improvement. A configuration
    that failed for one number of tokens is not tried for another, and similar tiles are tried later.
    """

    def __init__(self, predictor: Predictor, tokens: Sequence[int], budget: int, timed: Timed) -> None:
        table = predictor.configurations
        columns = {"M": np.repeat(tokens, len(table))}
        parameters = NAMES[: table.shape[1]]
        columns |= {name: np.tile(table[:, place], len(tokens)) for place, name in enumerate(parameters)}
        super().__init__(bare(columns))
        self.predictor, self.tokens, self.budget, self.before = predictor, tuple(tokens), budget, timed
        self.taken = predictor.taken(tokens)
        self.position = positions(
            {name: columns[name][: len(table)] for name in parameters if name not in ALL_RUN}
        )

    @property
    def timed(self) -> Timed:
        """Return all times so far."""
        turns, places = np.divmod(np.array(list(self.times), int), len(self.predictor.configurations))
        measured = Timed(np.array(self.tokens)[turns], places, np.array(list(self.times.values()), float))
        return self.before.and_(measured)

    def ask(self, count: int = 1) -> list[int]:
        """Return the configuration to measure next, one for any count; none if the budget is spent."""
        size = len(self.predictor.configurations)
        spent = np.bincount(np.array(list(self.times), int) // size, minlength=len(self.tokens))
        for turn in np.flatnonzero(spent < self.budget).tolist():
            gain = self._gain_in(turn)
            if gain.max() > -np.inf:
                return [turn * size + int(np.argmax(gain))]
        return []

    def _gain_in(self, turn: int) -> np.ndarray:
        tokens, timed = self.tokens[turn], self.timed
        corrected = Correction(self.predictor, self.predictor.configurations, timed)
        log_s, deviation = corrected(tokens)
        tried, runs = np.unique(timed.places), np.ones(len(log_s))
        if len(timed.failed):
            ran = ~np.isin(tried, timed.failed)
            runs = chance(RUNS[True], self.position, tried, ran)
        places, seconds = timed.of(tokens)
        possible = np.isfinite(log_s)
        possible[places] = possible[timed.failed] = False
        if len(places) and np.isfinite(seconds[0]):
            better = np.log(seconds[0]) - np.where(possible, log_s, 0.0)
            gain = expected_improvement(better, deviation) * runs
        else:
            gain = np.log(runs) - log_s - np.where(possible, self.taken[turn], 0.0)
        return np.where(possible, gain, -np.inf)


def tuned(
    file: GpuFile,
    kernel: Kernel,
    tokens: Sequence[int],
    measure: loop.Measure,
    budget: int,
    journal: Path | None = None,
    timed: Timed | None = None,
    advance: Callable[[int], None] = lambda measurements: None,
) -> Timed:
    """Measure up to `budget` configurations per number of tokens; return these times and the given ones.

    Measurements of the journal count. **Raises:** DseError if none ran, or for the journal as `loop.run`.
    """
    tuner = InTurn(Predictor.of(file, kernel), tokens, budget, timed or Timed.none())
    loop.run(tuner, measure, len(tuner.candidates), journal=journal, advance=advance)
    if tuner.times and not np.isfinite(list(tuner.times.values())).any():
        raise DseError(f"command: found no time in {len(tuner.times)} runs, expected a last number above 0")
    return tuner.timed


def _refuse(table: Table, name: str, wrong: np.ndarray, expected: str) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        cell = table.table.column(name)[row].as_py()
        actual = "no number" if cell in (None, "") else repr(cell)
        table.fail(f"{name}, row {row + 1}", f"found {actual}, expected {expected}")
