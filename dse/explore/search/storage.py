"""Optuna studies in storage, shared by concurrent processes.

Storage is a database (`sqlite:///study.db`, or another URL of SQLAlchemy), a journal (`journal:study.log`),
which works on network file systems where SQLite does not, or Optuna's gRPC proxy (`grpc://HOST:PORT`), which
saves a database thousands of connections. Studies are untrusted: they are read as data, never unpickled.

Samplers that use order and distance (TPE's kernels, CMA-ES, QMC) need evenly spaced numbers, not categories:
they search indices. People and dashboards need `block = 256`, which is what storage holds.
"""

import copy
import os
import random
import re
import time
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.storages import BaseStorage, GrpcStorageProxy, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial
from sqlalchemy.engine import make_url

from dse.core.files import can_lock, locked, open_own
from dse.core.optional import install, needs
from dse.errors import DseError
from dse.kernels.counts import Number

ANSWER = 10  # seconds for a gRPC proxy to answer
ATTEMPTS = 50  # to create tables that another process creates too; a damaged database always fails
PROCESS = "process"  # attribute of a trial: the process that added it
WAIT = 60.0  # seconds to wait for other processes: SQLite has one writer at a time


class Lists:
    """The values of a study's parameters, by their names in trials. Other parameters are unchanged."""

    def __init__(self, values: Mapping[str, Sequence[Number]]) -> None:
        self._values = values
        self._indices = {
            name: {value: i for i, value in enumerate(choices)} for name, choices in values.items()
        }
        self._of_values = {name: _distribution(choices) for name, choices in values.items()}
        self._of_indices = {name: IntDistribution(0, len(choices) - 1) for name, choices in values.items()}

    def with_values(self, trial: FrozenTrial) -> FrozenTrial:
        """Convert a trial of indices to values."""
        return _converted(trial, self._values, self._of_values)

    def with_indices(self, trial: FrozenTrial) -> FrozenTrial:
        """Convert a trial of values to indices. **Raises:** DseError for other lists of values."""
        for name, kind in trial.distributions.items():
            if kind != self._of_values.get(name, kind):
                raise DseError(f"{name}: found a list of other values; name another storage")
        return _converted(trial, self._indices, self._of_indices)


def _distribution(values: Sequence[Number]) -> BaseDistribution:
    """Optuna's distribution of values: integers if evenly spaced, else categories."""
    steps = {after - before for before, after in pairwise(values)}
    if isinstance(values[0], int) and len(steps) == 1 and min(steps) > 0:
        return IntDistribution(int(values[0]), int(values[-1]), step=int(min(steps)))
    return CategoricalDistribution(values)


def _converted(
    trial: FrozenTrial,
    table: Mapping[str, Any],  # name → value → converted value
    kinds: Mapping[str, BaseDistribution],
) -> FrozenTrial:
    new = copy.copy(trial)
    new.params = {name: table[name][x] if name in table else x for name, x in trial.params.items()}
    new.distributions = {name: kinds.get(name, kind) for name, kind in trial.distributions.items()}
    return new


@dataclass
class StoredStudy:
    """A study in storage, which holds values where a search has indices into `lists`.

    All errors of the storage become one-line DseErrors.
    """

    url: str
    study: optuna.Study
    lists: Lists
    process: str = field(default_factory=lambda: uuid.uuid4().hex[:12])  # marks this process's trials
    read: set[int] = field(default_factory=set)  # numbers of trials already read

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes from writing during the block; not for studies on a server."""
        path = _file(self.url)
        if path is None:
            yield
            return
        with _one_line(self.url):
            lock = open_own(Path(f"{path}.dse-lock"))  # closed below, outside of _one_line
        with lock:
            locked(lock, wait=True)
            yield

    def news(self) -> list[FrozenTrial]:
        """Read new finished trials of other processes. **Raises:** DseError for other lists of values."""
        with _one_line(self.url):
            trials = [
                trial
                for trial in self.study.get_trials(deepcopy=False)
                if trial.number not in self.read
                and trial.state.is_finished()
                and trial.user_attrs.get(PROCESS) != self.process
            ]
            self.read.update(trial.number for trial in trials)
            return [self.lists.with_indices(_plain(trial)) for trial in trials]

    def fill(self, study: optuna.Study) -> None:
        """Copy all trials into a study in memory. **Raises:** DseError if they are damaged."""
        with _one_line(self.url):
            study.add_trials(self.news())

    def add(self, trials: Sequence[FrozenTrial]) -> None:
        """Write trials to the storage."""
        with _one_line(self.url):
            self.study.add_trials(_marked(self.lists.with_values(trial), self.process) for trial in trials)


def _marked(trial: FrozenTrial, process: str) -> FrozenTrial:
    trial = _plain(trial)
    trial.user_attrs = {**trial.user_attrs, PROCESS: process}
    return trial


def _plain(trial: FrozenTrial) -> FrozenTrial:
    """Drop samplers' private attributes of a trial, some of which Optuna would unpickle.

    Numbers stay: constraints, and the generations of genetic algorithms.
    """
    trial = copy.copy(trial)
    trial.system_attrs = {
        name: value
        for name, value in trial.system_attrs.items()
        if _KEPT.fullmatch(name) and isinstance(value, (int, float))
    }
    return trial


_KEPT = re.compile(r"constraints:.*|NSGAI+Sampler:generation")


def _file(url: str) -> str | None:
    """The file of a study, if it is in one."""
    if url.startswith("journal:"):
        return url.removeprefix("journal:").removeprefix("//")
    return make_url(url).database if url.startswith("sqlite:") else None


def load(url: str, name: str, metrics: Sequence[str], lists: Lists) -> StoredStudy:
    """Load or create a study that minimizes `metrics`. **Raises:** DseError if that fails."""
    with _one_line(url):
        study = make(metrics, study_name=name, storage=_open(url), load_if_exists=True)
        return StoredStudy(url, study, lists)


def make(metrics: Sequence[str], **options: Any) -> optuna.Study:
    """Create a study that minimizes named metrics, with further options of Optuna's `create_study`."""
    study = optuna.create_study(directions=[StudyDirection.MINIMIZE] * len(metrics), **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study.set_metric_names(list(metrics))
    return study


def _open(url: str) -> BaseStorage:
    """Open a journal, a gRPC proxy, or a database, by URL."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        if url.startswith("journal:"):
            return _journal(url.removeprefix("journal:").removeprefix("//"))
        if url.startswith("grpc:"):
            return _proxy(url)
    return _tables(url)


def _journal(path: str) -> JournalStorage:
    """Open a journal, after removing a partial entry that a process left on a full disk."""
    if os.path.exists(path) and not os.path.isfile(path):  # a device may have no end
        raise DseError("found no file but a folder, pipe or device, expected a file, or none yet")
    with open(path, "ab+") as file:
        if not can_lock(file):
            return JournalStorage(JournalFileBackend(path))
        locked(file, wait=True)
        end = file.seek(max(0, file.seek(0, os.SEEK_END) - _LONGEST))
        tail = file.read()
        if tail and not tail.endswith(b"\n") and b"\n" in tail:
            file.truncate(end + tail.rindex(b"\n") + 1)
    return JournalStorage(JournalFileBackend(path, lock_obj=_Lock(path)))


class _Lock(JournalFileOpenLock):
    """A lock released when its process dies; Optuna's own outlives a killed process by 30 s."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._path = path

    def acquire(self) -> bool:
        self._file = open(self._path, "ab")  # noqa: SIM115 (closed by release)
        return locked(self._file, wait=True)

    def release(self) -> None:
        self._file.close()


_LONGEST = 1 << 24  # bytes of an entry


def _proxy(url: str) -> GrpcStorageProxy:
    """Connect to a server of `optuna.storages.run_grpc_proxy_server`."""
    parts = urlsplit(url)
    with needs("grpcio", install("grpc")):
        import_module("grpc")  # used by Optuna
    if not parts.hostname or not parts.port:
        raise DseError("found no host and port, expected grpc://HOST:PORT")
    proxy = GrpcStorageProxy(host=parts.hostname, port=parts.port)
    try:
        proxy.wait_server_ready(timeout=ANSWER)
    except Exception as problem:  # grpc's errors have no common base
        raise DseError(f"found no answer in {ANSWER} s, expected Optuna's gRPC proxy there") from problem
    return proxy


def _tables(url: str) -> RDBStorage:
    """Open a database with Optuna's tables.

    Optuna checks for a table, then creates it, so one of two concurrent processes fails; it retries and finds
    the other's table.
    """
    options = {"connect_args": {"timeout": WAIT}} if url.startswith("sqlite") else {}
    end, attempts = time.monotonic() + WAIT, 0
    while True:
        try:
            return RDBStorage(url, engine_kwargs=options)
        except Exception as problem:  # errors depend on the driver
            attempts += 1
            if not _is_race(problem) or attempts > ATTEMPTS or time.monotonic() > end:
                raise
        time.sleep(random.uniform(0.02, 0.2))


def _is_race(problem: Exception) -> bool:
    """Whether another process created the same table or row at the same time."""
    text = f"{problem} {problem.__cause__}".lower()
    return re.search(r"already exists|unique constraint|duplicate (entry|key)|locked", text) is not None


@contextmanager
def _one_line(url: str) -> Iterator[None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # Optuna's, on damaged studies
            yield
    except DseError as problem:
        raise DseError(f"storage: {url}: {problem}") from None
    except Exception as problem:  # SQLAlchemy and its drivers can raise anything
        if not re.match(r"\w+(\+\w+)?:", url):
            kinds = f"sqlite:///{url}, journal:{url}, another database's URL, or none"
            raise DseError(f"storage: found {url!r}, expected {kinds}") from None
        cause = problem.__cause__ or problem  # the driver's own message is shorter
        reason = next(iter(str(cause).splitlines()), type(cause).__name__)
        if isinstance(cause, (AssertionError, AttributeError, LookupError, TypeError)):  # in Optuna's reader
            damage = f"found a damaged study ({type(cause).__name__}: {reason})"
            raise DseError(f"storage: {url}: {damage}, expected one of Optuna") from None
        raise DseError(f"storage: {url}: cannot use: {reason}") from None
