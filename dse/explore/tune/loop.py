"""A tuning run with a journal: ask, measure, tell, until the budget is spent or the gain is too small.

The journal has one JSON object per line, written after each measurement; a run that is started again with it
continues where the last one ended.
"""

import json
import math
import os
import re
import shlex
import statistics
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from string import Formatter
from types import MappingProxyType
from typing import IO, Any, BinaryIO

import numpy as np

from dse.core.files import locked, parse_json_lines, read_text
from dse.core.processes import watched
from dse.data.tables import ConfigurationResult
from dse.errors import MOST_QUOTED, DseError, InputWarning, one_of
from dse.explore.tune.candidates import Candidates
from dse.explore.tune.tuner import Tuner
from dse.kernels.counts import Number

Measure = Callable[[Mapping[str, Any]], float | None]  # seconds of a configuration, None if it failed
MOST_SECONDS = 1e9  # of one measurement
NEAR = 1.05  # of the fastest time: configurations to measure again
LIMIT_SECONDS = 3600.0  # after which a command is killed
_MOST_PRINTED = 1 << 20  # bytes kept of a command's output
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


@dataclass(frozen=True)
class Trial:
    """One measurement of a run."""

    place: int  # among the candidates
    seconds: float | None  # None if it failed
    fastest: float | None  # of all until this one


@dataclass(frozen=True, repr=False)
class Run(ConfigurationResult):
    """The measurements of a run, in order, and the reason for its end."""

    tuner: Tuner
    measured: tuple[Trial, ...]
    ended: str

    @property
    def hidden(self) -> tuple[str, ...]:
        """Columns omitted from a printed table: constant parameters."""
        candidates = self.tuner.candidates
        return tuple(name for name in candidates.parameters if name not in candidates.varying)

    def rows(self, top: int | None = None) -> list[dict[str, Any]]:
        """Return one row per measurement, in order, with the columns of `dse.data.columns`."""
        parameters = self.tuner.candidates.parameters
        return [
            {"number": number}
            | {name: values[trial.place].item() for name, values in parameters.items()}
            | {"status": "failed" if trial.seconds is None else "ok"}
            | {"measured_s": trial.seconds, "fastest_s": trial.fastest}
            for number, trial in enumerate(self.measured[:top], 1)
        ]


def run(
    tuner: Tuner,
    measure: Measure,
    budget: int,
    batch: int | Callable[[int], int] = 1,
    journal: Path | None = None,
    pays: float = 0.0,
    advance: Callable[[int], None] = lambda measurements: None,
    *,
    limit_s: float = math.inf,
    parallel: int = 1,
    repeats: int = 1,
    about: Mapping[str, Any] = MappingProxyType({}),
) -> Run:
    """Measure up to `budget` configurations, including those of the journal.

    `batch` configurations are chosen at a time, or as many as run in `parallel`; it may be a function of the
    number measured. Configurations near the fastest are measured up to `repeats` times, and their median
    counts. The run ends early once measurements took `limit_s`, including the journal's, or no configuration
    is expected to improve on the fastest by more than `pays`, a share of its time. `about` is written with
    each measurement: kernel, GPU and problem sizes.

    **Raises:** DseError if the journal cannot be read or written, is of another space, differs in a value of
    `about`, or is of a run in progress.
    """
    candidates, done = tuner.candidates, list[Trial]()

    def tell(index: int, seconds: float | None) -> None:
        tuner.tell(index, seconds)
        times = [trial.seconds for trial in done if trial.seconds is not None]
        times += [] if seconds is None else [seconds]
        done.append(Trial(index, seconds, min(times, default=None)))
        advance(1)

    def timed(index: int) -> tuple[float | None, float]:
        """Measure one; return also its share of the elapsed time."""
        begin, fastest = time.monotonic(), done[-1].fastest if done else None
        times = [_seconds(measure(configuration(index)))]
        while len(times) < repeats and (times[-1] or math.inf) <= NEAR * (fastest or math.inf):
            times.append(_seconds(measure(configuration(index))))
        ran = [seconds for seconds in times if seconds is not None]
        middle = statistics.median(ran) if len(ran) == len(times) else None
        return middle, (time.monotonic() - begin) / parallel

    def configuration(index: int) -> dict[str, Any]:
        return {name: values[index].item() for name, values in candidates.parameters.items()}

    ended, spent = "the budget is spent", 0.0
    with _ours(journal) as kept, ThreadPoolExecutor(parallel) as pool:
        for index, seconds, took in _before(journal, candidates, about):
            tell(index, seconds)
            spent += took
        while len(done) < budget:
            if spent >= limit_s:
                ended = f"measuring took {spent:.0f} s"
                break
            if pays and tuner.best is not None and tuner.expected_gain() < pays:
                ended = f"no other is expected to be faster by {pays:.1%}"
                break
            wanted = max(parallel, batch(len(done)) if callable(batch) else batch)
            next_rows = tuner.ask(min(wanted, budget - len(done)))
            if not next_rows:
                ended = "all were measured"
                break
            results = pool.map(timed, next_rows) if parallel > 1 else map(timed, next_rows)
            for index, (seconds, took) in zip(next_rows, results, strict=True):
                spent += took
                row = {**about, "parameters": configuration(index), "seconds": seconds, "took_s": took}
                _keep(journal, kept, row)
                tell(index, seconds)
    return Run(tuner, tuple(done), ended)


def _seconds(answer: Any) -> float | None:
    """Check a measurement: None, and what is not finite, for one that failed."""
    if answer is None or (isinstance(answer, Real) and not math.isfinite(answer)):
        return None
    if not isinstance(answer, Real) or answer <= 0:
        raise DseError(f"measure: found {answer!r}, expected seconds above 0, or None for a failure")
    return float(answer)


def replayed(candidates: Candidates, seconds: np.ndarray) -> Measure:
    """Replay recorded measurements: times of the candidates, NaN or infinite for failures."""

    def measure(configuration: Mapping[str, Any]) -> float | None:
        time = float(seconds[candidates.place(configuration)])
        return time if math.isfinite(time) else None

    return measure


def commanded(command: str, unit_s: float, limit_s: float = LIMIT_SECONDS) -> Measure:
    """Measure by a command: each `{name}` in it is replaced by a value; the last printed number is the time.

    A command fails, with a warning of each reason, if its exit code is not 0, or it prints no number above 0,
    or it exceeds `limit_s` and is killed.
    """
    parts, warned = shlex.split(command), set[str]()

    def measure(configuration: Mapping[str, Number]) -> float | None:
        try:
            filled = [part.format_map(dict(configuration)) for part in parts]
        except ValueError as error:
            raise DseError(
                f"command: cannot write {dict(configuration)} as {command!r} says: {error}"
            ) from None
        printed, failure = _printed(filled, limit_s)
        numbers = NUMBER.findall(printed)
        seconds = float(numbers[-1]) * unit_s if numbers else 0.0
        if not failure and 0 < seconds < MOST_SECONDS:
            return seconds
        failure = failure or f"found {_last_line(printed)}, expected a time above 0 as its last number"
        if failure not in warned:
            warned.add(failure)
            warnings.warn(f"command: {failure}", InputWarning, stacklevel=2)
        return None

    return measure


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2].strip()[-MOST_QUOTED:] or "no output"


def _printed(command: Sequence[str], limit_s: float) -> tuple[str, str]:
    """Run a command; return the end of its output, and why it failed, empty if it did not."""
    try:
        program = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # so that its child processes can be killed
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise DseError(f"command: cannot run {command[0]}: {reason}") from None

    def end(pipe: IO[bytes]) -> str:
        text = b""
        while part := os.read(pipe.fileno(), _MOST_PRINTED):
            text = (text + part)[-_MOST_PRINTED:]
        return text.decode("utf-8", errors="replace")

    assert program.stdout is not None
    assert program.stderr is not None
    # The readers end after an interrupted program is killed.
    with ThreadPoolExecutor(2) as readers, watched(program, limit_s) as late, program:
        printed, complaint = readers.map(end, (program.stdout, program.stderr))
    if late:
        return printed, f"{shlex.join(command)} was ended after {limit_s:g} s"
    code = program.returncode
    return printed, f"failed with exit code {code}: {_last_line(complaint or printed)}" if code else ""


def check_command(command: str, names: Mapping[str, Any]) -> None:
    """Check that a command has a `{name}`, and all are parameters. **Raises:** DseError."""
    try:
        shlex.split(command)
        fields = [field[1:] for field in Formatter().parse(command) if field[1] is not None]
        for _, spec, conversion in fields:
            if conversion is not None and conversion not in "sra":
                raise ValueError(f"found the conversion !{conversion}")
            if re.search(r"\d{4}", spec or ""):
                raise ValueError(f"found the width {spec}, expected one below 1000")
            format(1, spec or "")
    except ValueError as error:
        raise DseError(f"command: cannot read {command!r}: {error}") from None
    asked = {name or "" for name, _, _ in fields}
    for name in sorted(asked - set(names)):
        raise DseError(f"command: found {{{name}}}, {one_of(name, names)}")
    if not asked:
        raise DseError(f"command: found no parameter in {command!r}, expected {{NAME}} where a value goes")


def _before(
    journal: Path | None, candidates: Candidates, about: Mapping[str, Any]
) -> list[tuple[int, float | None, float]]:
    """Read the measurements of earlier runs, and the duration of each."""
    if journal is None or not journal.exists():
        return []
    text, measurements = read_text(journal), []
    for number, row in enumerate(rows := parse_json_lines(text, str(journal)), 1):
        try:
            index, seconds = candidates.place(row["parameters"]), row["seconds"]
            took = float(row.get("took_s", 0.0))
        except (KeyError, TypeError, ValueError, AttributeError):
            expected = f"values of {', '.join(candidates.parameters)}"
            raise DseError(
                f"{journal}: line {number}: found no configuration of this space, expected {expected}"
            ) from None
        if seconds is not None and not (isinstance(seconds, int | float) and 0 < seconds < MOST_SECONDS):
            actual = repr(seconds)[:40]
            raise DseError(
                f"{journal}: line {number}: found {actual} seconds, expected a number above 0 or null"
            )
        for name in about.keys() & row.keys():
            if row[name] != about[name]:
                raise DseError(
                    f"{journal}: line {number}: {name}: found {row[name]}, expected {about[name]}; "
                    "name another journal for another run"
                )
        measurements.append((index, seconds, took))
    if text and not text.endswith("\n"):  # the next measurement begins a new line
        lines = text.splitlines(keepends=True)
        cut_off = len(rows) < sum(map(bool, text.splitlines()))
        whole = "".join(lines[:-1] if cut_off else [*lines, "\n"]).encode()
        try:
            with journal.open("r+b") as file:  # not replaced: the lock is on this file
                file.write(whole)
                file.truncate()
        except OSError as error:
            raise DseError(f"{journal}: cannot write: {error.strerror}") from None
    return measurements


@contextmanager
def _ours(journal: Path | None) -> Iterator[BinaryIO | None]:
    """Open a journal to append, with an exclusive lock: other runs would measure the same."""
    if journal is None:
        yield None
        return
    try:
        if journal.is_fifo():  # which waits for a reader
            raise DseError(f"{journal}: found a pipe, expected a file, or none yet")
        file = journal.open("ab", buffering=0)
    except OSError as error:
        raise DseError(f"{journal}: cannot write: {error.strerror}") from None
    with file:
        if journal.is_file() and not locked(file):
            raise DseError(f"{journal}: found a run that has not ended, expected its end first")
        yield file


def _keep(journal: Path | None, kept: BinaryIO | None, row: Mapping[str, Any]) -> None:
    if kept is None:
        return
    try:
        kept.write(f"{json.dumps(row)}\n".encode())
    except OSError as error:
        raise DseError(f"{journal}: cannot write: {error.strerror}") from None
