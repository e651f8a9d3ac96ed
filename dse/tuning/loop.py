"""A tuning run: ask, measure, tell, until the budget is spent or more would not pay; all is kept.

The journal has one JSON object a line, written as soon as a measurement is there; a run that is started again
with it goes on where the last one ended.
"""

import json
import math
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any

import numpy as np

from dse.counts import Number
from dse.errors import DseError
from dse.files import replacing
from dse.tuning.candidates import Candidates
from dse.tuning.tuner import Tuner

Measure = Callable[[Mapping[str, Any]], float | None]  # seconds of a configuration, None where it failed
MOST_SECONDS = 1e9  # of one measurement
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


@dataclass(frozen=True)
class Trial:
    """One measurement of a run."""

    place: int  # among the candidates
    seconds: float | None  # None where it failed
    fastest: float | None  # of all until then


@dataclass(frozen=True)
class Run:
    """The measurements of a run, in order, and why it ended."""

    tuner: Tuner
    measured: tuple[Trial, ...]
    ended: str

    @property
    def hidden(self) -> tuple[str, ...]:
        """Columns that a table for people can do without: parameters that never vary."""
        candidates = self.tuner.candidates
        return tuple(name for name in candidates.parameters if name not in candidates.varying)

    def rows(self) -> list[dict[str, Any]]:
        """Return one row a measurement, with the columns of `dse.columns`."""
        parameters = self.tuner.candidates.parameters
        return [
            {"number": number}
            | {name: values[trial.place].item() for name, values in parameters.items()}
            | {"status": "failed" if trial.seconds is None else "ok"}
            | {"measured_s": trial.seconds, "fastest_s": trial.fastest}
            for number, trial in enumerate(self.measured, 1)
        ]


def run(
    tuner: Tuner,
    measure: Measure,
    budget: int,
    batch: int | Callable[[int], int] = 1,
    journal: Path | None = None,
    pays: float = 0.0,
    advance: Callable[[int], None] = lambda measurements: None,
) -> Run:
    """Measure up to `budget` configurations, those of the journal included.

    `batch` are chosen at a time; it may hang on how many were measured. The run ends early once no
    configuration is expected to improve on the fastest by more than `pays`, a share of its time.

    **Raises:** DseError if the journal cannot be read or written or is of another space.
    """
    candidates, done = tuner.candidates, list[Trial]()

    def tell(index: int, seconds: float | None) -> None:
        tuner.tell(index, seconds)
        times = [trial.seconds for trial in done if trial.seconds is not None]
        times += [] if seconds is None else [seconds]
        done.append(Trial(index, seconds, min(times, default=None)))
        advance(1)

    for index, seconds in _before(journal, candidates):
        tell(index, seconds)
    ended = "the budget is spent"
    while len(done) < budget:
        if pays and tuner.best is not None and tuner.expected_gain() < pays:
            ended = f"no other is expected to be faster by {pays:.1%}"
            break
        chosen = tuner.ask(min(batch(len(done)) if callable(batch) else batch, budget - len(done)))
        if not chosen:
            ended = "all were measured"
            break
        for index in chosen:
            configuration = {name: values[index].item() for name, values in candidates.parameters.items()}
            seconds = measure(configuration)
            _keep(journal, configuration, seconds)
            tell(index, seconds)
    return Run(tuner, tuple(done), ended)


def replayed(candidates: Candidates, seconds: np.ndarray) -> Measure:
    """Replay measurements made before: times of the candidates, NaN or infinite where one failed."""

    def measure(configuration: Mapping[str, Any]) -> float | None:
        time = float(seconds[candidates.place(configuration)])
        return time if math.isfinite(time) else None

    return measure


def commanded(command: str, unit_s: float) -> Measure:
    """Measure by a command: `{name}` in it becomes a value, and its last printed number is the time.

    One that ends with another exit code than 0, or prints no number above 0, failed.
    """
    parts = shlex.split(command)

    def measure(configuration: Mapping[str, Number]) -> float | None:
        filled = [part.format_map(dict(configuration)) for part in parts]
        try:
            ended = subprocess.run(filled, capture_output=True, text=True, errors="replace", check=False)
        except OSError as error:
            raise DseError(f"command: cannot run {filled[0]}: {error.strerror}") from None
        numbers = NUMBER.findall(ended.stdout)
        seconds = float(numbers[-1]) * unit_s if numbers else 0.0
        return seconds if ended.returncode == 0 and 0 < seconds < MOST_SECONDS else None

    return measure


def check_command(command: str, names: Mapping[str, Any]) -> None:
    """Refuse a command that has a `{name}` that is no parameter, or none at all. **Raises:** DseError."""
    try:
        shlex.split(command)
        fields = [(name, spec) for _, name, spec, _ in Formatter().parse(command) if name is not None]
        for _, spec in fields:
            format(1, spec or "")
    except ValueError as error:
        raise DseError(f"command: cannot read {command!r}: {error}") from None
    asked = {name for name, _ in fields}
    for name in sorted(asked - set(names)):
        raise DseError(f"command: found {{{name}}}, expected one of {', '.join(names)}")
    if not asked:
        raise DseError(f"command: found no parameter in {command!r}, expected {{NAME}} where a value goes")


def _before(journal: Path | None, candidates: Candidates) -> list[tuple[int, float | None]]:
    """Read the measurements of earlier runs."""
    if journal is None or not journal.exists():
        return []
    try:
        text = journal.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DseError(f"{journal}: cannot read: {error}") from None
    lines, measurements = text.splitlines(), []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            index, seconds = candidates.place(row["parameters"]), row["seconds"]
        except (ValueError, RecursionError):  # no JSON, a number of too many digits, nested too deep
            if number == len(lines) and line.startswith("{") and not text.endswith("\n"):
                del lines[-1]  # cut off while it was written
                break
            raise DseError(f"{journal}: line {number}: found {line[:40]!r}, expected JSON") from None
        except (KeyError, TypeError):
            expected = f"values of {', '.join(candidates.parameters)}"
            raise DseError(
                f"{journal}: line {number}: found no configuration of this space, expected {expected}"
            ) from None
        if seconds is not None and not (isinstance(seconds, int | float) and 0 < seconds < MOST_SECONDS):
            found = repr(seconds)[:40]
            raise DseError(
                f"{journal}: line {number}: found {found} seconds, expected a number above 0 or null"
            )
        measurements.append((index, seconds))
    whole = "".join(f"{line}\n" for line in lines)
    if whole != text:  # the next measurement is to begin a line of its own
        with replacing(journal) as temporary:
            temporary.write_text(whole, encoding="utf-8")
    return measurements


def _keep(journal: Path | None, configuration: Mapping[str, Any], seconds: float | None) -> None:
    if journal is None:
        return
    try:
        with journal.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"parameters": dict(configuration), "seconds": seconds}) + "\n")
    except OSError as error:
        raise DseError(f"{journal}: cannot write: {error.strerror}") from None
