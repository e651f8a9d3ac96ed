"""Studies that Optuna stores, which several processes may make and fill at the same time.

In a database (`sqlite:///study.db`, or another URL of SQLAlchemy), in a journal (`journal:study.log`), which
lives on network file systems where SQLite does not, or behind Optuna's gRPC proxy (`grpc://HOST:PORT`), which
spares a database thousands of connections. A study may be a stranger's: it is read as data, and nothing of it
is unpickled.
"""

import copy
import os
import random
import re
import time
import uuid
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import optuna
from optuna.storages import BaseStorage, GrpcStorageProxy, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial
from sqlalchemy.engine import make_url

from dse.core.files import can_lock, locked, open_own
from dse.core.optional import install, needs
from dse.errors import DseError
from dse.explore.search.values import Lists

ANSWER = 10  # seconds that a gRPC proxy has
ATTEMPTS = 50  # to make what another makes: a damaged database never lets us
PROCESS = "process"  # the attribute of a trial that says which process added it
WAIT = 60.0  # seconds that we wait for other processes: SQLite has one writer at a time


@dataclass
class StoredStudy:
    """A study in a database, which holds values where a search has places in `lists`.

    DseError of one line for whatever the database raises.
    """

    url: str
    study: optuna.Study
    lists: Lists
    process: str = field(default_factory=lambda: uuid.uuid4().hex[:12])  # marks our own trials
    read: set[int] = field(default_factory=set)  # numbers of trials that were read

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes from writing while we count and add; a server's studies have no such lock."""
        path = _file(self.url)
        if path is None:
            yield
            return
        with _one_line(self.url):
            lock = open_own(Path(f"{path}.dse-lock"))  # closed below: what the block raises is its own
        with lock:
            locked(lock, wait=True)
            yield

    def news(self) -> list[FrozenTrial]:
        """Read finished trials that are neither read nor ours. DseError for those of other lists."""
        with _one_line(self.url):
            trials = [
                trial
                for trial in self.study.get_trials(deepcopy=False)
                if trial.number not in self.read
                and trial.state.is_finished()
                and trial.user_attrs.get(PROCESS) != self.process
            ]
            self.read.update(trial.number for trial in trials)
            return [self.lists.with_places(_plain(trial)) for trial in trials]

    def fill(self, study: optuna.Study) -> None:
        """Put all trials of the database into a study in memory. DseError where they are no trials."""
        with _one_line(self.url):
            study.add_trials(self.news())

    def add(self, trials: Sequence[FrozenTrial]) -> None:
        """Write trials."""
        with _one_line(self.url):
            self.study.add_trials(_marked(self.lists.with_values(trial), self.process) for trial in trials)


def _marked(trial: FrozenTrial, process: str) -> FrozenTrial:
    trial = _plain(trial)
    trial.user_attrs = {**trial.user_attrs, PROCESS: process}
    return trial


def _plain(trial: FrozenTrial) -> FrozenTrial:
    """Return a trial without what samplers keep with it for themselves: Optuna unpickles some of that.

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
    """The file that a study is kept in, if it is one."""
    if url.startswith("journal:"):
        return url.removeprefix("journal:").removeprefix("//")
    return make_url(url).database if url.startswith("sqlite:") else None


def load(url: str, name: str, metrics: Sequence[str], lists: Lists) -> StoredStudy:
    """Load the study of that name, or make it; it keeps `metrics` low. DseError where that fails."""
    with _one_line(url):
        return StoredStudy(
            url, make(metrics, study_name=name, storage=_open(url), load_if_exists=True), lists
        )


def make(metrics: Sequence[str], **options: Any) -> optuna.Study:
    """Make a study that keeps named metrics low, with other options of Optuna's `create_study`."""
    study = optuna.create_study(directions=[StudyDirection.MINIMIZE] * len(metrics), **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study.set_metric_names(list(metrics))
    return study


def _open(url: str) -> BaseStorage:
    """Open what the URL names: a journal, a gRPC proxy, or a database."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        if url.startswith("journal:"):
            return _journal(url.removeprefix("journal:").removeprefix("//"))
        if url.startswith("grpc:"):
            return _proxy(url)
    return _tables(url)


def _journal(path: str) -> JournalStorage:
    """Open a journal, without the part of an entry that a process may have left when it had no room."""
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
    """A lock that goes with the process that has it: Optuna's own outlives one that is killed by 30 s."""

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
    """Connect to a server of `optuna.storages.run_grpc_proxy_server`; it has some seconds to answer."""
    parts = urlsplit(url)
    with needs("grpcio", install("grpc")):
        import_module("grpc")  # as Optuna will
    if not parts.hostname or not parts.port:
        raise DseError("found no host and port, expected grpc://HOST:PORT")
    proxy = GrpcStorageProxy(host=parts.hostname, port=parts.port)
    try:
        proxy.wait_server_ready(timeout=ANSWER)
    except Exception as problem:  # of grpc, which names no common base
        raise DseError(f"found no answer in {ANSWER} s, expected Optuna's gRPC proxy there") from problem
    return proxy


def _tables(url: str) -> RDBStorage:
    """Open the database, with Optuna's tables in it.

    Optuna looks whether a table is there, then makes it: of two processes that do so at once, one fails. It
    finds at its next attempt what the other has made.
    """
    options = {"connect_args": {"timeout": WAIT}} if url.startswith("sqlite") else {}
    end, attempts = time.monotonic() + WAIT, 0
    while True:
        try:
            return RDBStorage(url, engine_kwargs=options)
        except Exception as problem:  # each driver has errors of its own
            attempts += 1
            if not _made_meanwhile(problem) or attempts > ATTEMPTS or time.monotonic() > end:
                raise
        time.sleep(random.uniform(0.02, 0.2))


def _made_meanwhile(problem: Exception) -> bool:
    """Whether another process made, or makes, the table or the row that we were about to make."""
    text = f"{problem} {problem.__cause__}".lower()
    return re.search(r"already exists|unique constraint|duplicate (entry|key)|locked", text) is not None


@contextmanager
def _one_line(url: str) -> Iterator[None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # Optuna's, of what a damaged study holds
            yield
    except DseError as problem:
        raise DseError(f"storage: {url}: {problem}") from None
    except Exception as problem:  # SQLAlchemy and its drivers raise what they like
        if not re.match(r"\w+(\+\w+)?:", url):
            kinds = f"sqlite:///{url}, journal:{url}, another database's URL, or none"
            raise DseError(f"storage: found {url!r}, expected {kinds}") from None
        cause = problem.__cause__ or problem  # the driver's own words are shorter
        reason = next(iter(str(cause).splitlines()), type(cause).__name__)
        if isinstance(cause, (AssertionError, AttributeError, LookupError, TypeError)):  # Optuna's, reading
            found = f"found a damaged study ({type(cause).__name__}: {reason})"
            raise DseError(f"storage: {url}: {found}, expected one of Optuna") from None
        raise DseError(f"storage: {url}: cannot use: {reason}") from None
