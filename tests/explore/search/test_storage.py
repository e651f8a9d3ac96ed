"""Studies in SQLite: several processes at once, and databases that cannot be used."""

import socket
import subprocess
import sys
import threading
import time

import optuna
import pytest
from optuna.distributions import IntDistribution
from optuna.trial import create_trial

from dse.errors import DseError
from dse.explore.search import storage
from dse.explore.search.values import Lists

METRICS, LISTS = ["time [s]"], Lists({"x": (1, 2, 4, 8, 16)})

WORKER = """
import sys
import optuna
from optuna.distributions import IntDistribution
from optuna.trial import create_trial
from dse.explore.search import storage
from dse.explore.search.values import Lists

optuna.logging.set_verbosity(optuna.logging.WARNING)
study = "study", ["time [s]"], Lists({"x": (1, 2, 4, 8, 16)})
storage.load("sqlite://", *study)  # in memory: imports what Optuna puts off
for url in sys.argv[1:]:
    print("ready", flush=True)
    sys.stdin.readline()
    kept = storage.load(url, *study)
    for i in range(5):
        trial = create_trial(params={"x": i}, distributions={"x": IntDistribution(0, 4)}, value=float(i))
        kept.add([trial])
"""


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'study.db'}"


def together(urls, processes):
    """Have processes make and fill some studies at the same time; return what they say on stderr."""
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, *urls],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(processes)
    ]
    for _ in urls:
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        for worker in workers:  # all have imported what they need: off they go together
            assert worker.stdin is not None
            worker.stdin.write("\n")
            worker.stdin.flush()
    said = [worker.communicate(timeout=60)[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * processes
    return said


@pytest.mark.parametrize("kind", ["sqlite:///", pytest.param("journal:", marks=pytest.mark.slow)])
def test_processes_that_make_and_fill_one_study_at_the_same_time_all_live(kind, tmp_path):
    url = f"{kind}{tmp_path / 'study.db'}"
    assert together([url], 2) == [""] * 2
    trials = storage.load(url, "study", METRICS, LISTS).news()
    assert sorted(trial.params["x"] for trial in trials) == sorted([*range(5)] * 2)
    assert sorted(trial.number for trial in trials) == list(range(10))


@pytest.mark.slow
def test_of_twenty_pairs_on_a_fresh_study_none_dies(tmp_path):
    urls = [f"sqlite:///{tmp_path / f'{i}.db'}" for i in range(20)]
    assert together(urls, 2) == [""] * 2
    for url in urls:
        assert len(storage.load(url, "study", METRICS, LISTS).news()) == 10


def test_news_are_what_others_added(url):
    ours, others = (storage.load(url, "study", METRICS, LISTS) for _ in range(2))
    trial = create_trial(params={"x": 1}, distributions={"x": IntDistribution(0, 4)}, value=1.0)
    ours.add([trial, trial])
    assert ours.news() == []
    assert len(others.news()) == 2
    assert others.news() == []
    others.add([trial])
    assert [each.number for each in ours.news()] == [2]


@pytest.mark.parametrize("kind", ["sqlite:///", "journal:"])
def test_a_study_in_a_file_is_written_by_one_process_at_a_time(kind, tmp_path):
    first, second = (storage.load(f"{kind}{tmp_path / 'study'}", "study", METRICS, LISTS) for _ in range(2))
    entered = []

    def enter():
        with second.alone():
            entered.append(1)

    with first.alone():
        first.add([create_trial(params={}, distributions={}, value=1.0)])  # Optuna's own lock is another
        waiting = threading.Thread(target=enter)
        waiting.start()
        waiting.join(0.1)
        assert not entered
    waiting.join(10)
    assert entered


@pytest.mark.parametrize("message", ["table trials already exists", "database is locked"])
def test_what_another_process_does_meanwhile_is_waited_for(url, monkeypatch, message):
    calls = []

    def once(*arguments, **options):
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError(message)
        return optuna.storages.RDBStorage(*arguments, **options)

    monkeypatch.setattr(storage, "RDBStorage", once)
    assert storage.load(url, "study", METRICS, LISTS).news() == []
    assert len(calls) == 2


def test_waiting_has_an_end(url, monkeypatch):
    def never(*arguments, **options):
        raise RuntimeError("database is locked")

    monkeypatch.setattr(storage, "RDBStorage", never)
    monkeypatch.setattr(storage, "WAIT", 0.1)
    with pytest.raises(DseError, match=r"^storage: .*study.db: cannot use: database is locked$"):
        storage.load(url, "study", METRICS, LISTS)


def test_a_file_that_is_no_database_is_one_line(tmp_path):
    (tmp_path / "study.db").write_text("not a database" * 100)
    with pytest.raises(DseError, match=r"^storage: .*: cannot use: .*not a database$"):
        storage.load(f"sqlite:///{tmp_path / 'study.db'}", "study", METRICS, LISTS)


def test_a_database_that_vanishes_is_one_line(url, tmp_path, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between Optuna's attempts
    kept = storage.load(url, "study", METRICS, LISTS)
    (tmp_path / "study.db").unlink()
    trial = create_trial(params={"x": 1}, distributions={"x": IntDistribution(0, 4)}, value=1.0)
    with pytest.raises(DseError, match=r"^storage: .*: cannot use: "):
        kept.add([trial])


def test_values_are_stored_and_places_come_back(url):
    kept = storage.load(url, "study", METRICS, LISTS)
    trial = create_trial(params={"x": 3}, distributions={"x": IntDistribution(0, 4)}, value=1.0)
    kept.add([trial])
    read = optuna.load_study(study_name="study", storage=url)
    assert [each.params for each in read.trials] == [{"x": 8}]
    assert read.metric_names == METRICS
    [back] = storage.load(url, "study", METRICS, LISTS).news()
    assert (back.params, back.distributions) == (trial.params, trial.distributions)


def test_a_study_of_other_lists_is_one_line(url):
    old = optuna.create_study(study_name="study", storage=url)
    old.add_trial(create_trial(params={"x": 3}, distributions={"x": IntDistribution(0, 4)}, value=1.0))
    with pytest.raises(DseError, match=r"^storage: sqlite.*: x: found a list of other values; name .*$"):
        storage.load(url, "study", METRICS, LISTS).news()


@pytest.mark.slow
def test_a_study_behind_a_proxy(tmp_path):
    pytest.importorskip("grpc")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    database = f"sqlite:///{tmp_path / 'study.db'}"
    code = (
        "import optuna; optuna.storages.run_grpc_proxy_server("
        f"optuna.storages.RDBStorage({database!r}), host='localhost', port={port})"
    )
    with subprocess.Popen([sys.executable, "-W", "ignore", "-c", code], stderr=subprocess.DEVNULL) as server:
        try:
            kept = storage.load(f"grpc://localhost:{port}", "study", METRICS, LISTS)
            kept.add([create_trial(params={"x": 2}, distributions={"x": IntDistribution(0, 4)}, value=1.0)])
            again = storage.load(database, "study", METRICS, LISTS)
            assert [trial.params for trial in again.news()] == [{"x": 2}]
            assert [trial.params for trial in kept.study.get_trials()] == [{"x": 4}]
        finally:
            server.terminate()


@pytest.mark.parametrize("url", ["grpc:", "grpc://localhost"])
def test_a_proxy_without_a_place(url):
    pytest.importorskip("grpc")
    with pytest.raises(DseError, match=f"storage: {url}: found no host and port, expected grpc://HOST:PORT"):
        storage.load(url, "study", METRICS, LISTS)


def test_a_proxy_that_does_not_answer(monkeypatch):
    pytest.importorskip("grpc")
    monkeypatch.setattr(storage, "ANSWER", 0.2)
    with pytest.raises(DseError, match=r"found no answer in 0\.2 s"):
        storage.load("grpc://localhost:9", "study", METRICS, LISTS)


def test_a_damaged_database_is_told_at_once(url, monkeypatch):
    calls = []

    def malformed(*arguments, **options):
        calls.append(1)
        raise RuntimeError("malformed database schema (trials) - duplicate column name: tULL")

    monkeypatch.setattr(storage, "RDBStorage", malformed)
    with pytest.raises(DseError, match=r"cannot use: malformed database schema"):
        storage.load(url, "study", METRICS, LISTS)
    assert len(calls) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="has no such devices")
def test_a_journal_without_an_end(tmp_path):
    (tmp_path / "endless").symlink_to("/dev/zero")
    with pytest.raises(DseError, match=r"endless: found no file but a folder, pipe or device"):
        storage.load(f"journal:{tmp_path / 'endless'}", "study", METRICS, LISTS)


@pytest.mark.parametrize("entry", ['{"op_code": 99, "worker_id": "a"}', '{"op_code": 0}', "{}"])
def test_a_damaged_journal(entry, tmp_path):
    (tmp_path / "s.log").write_text(f"{entry}\n")
    with pytest.raises(DseError, match=r"s\.log: found a damaged study \(\w+: .*\), expected one of Optuna"):
        storage.load(f"journal:{tmp_path / 's.log'}", "study", METRICS, LISTS)


def test_a_journal_goes_on_after_a_process_was_killed_amid_an_entry(tmp_path):
    """Nor is there a lock to wait for, which such a process has left."""
    path = tmp_path / "s.log"
    study = f"journal:{path}", "s", METRICS, LISTS
    storage.load(*study).study.add_trial(create_trial(value=1.0))
    with path.open("ab") as file:
        file.write(b'{"op_code":4,"st')
    (tmp_path / "s.log.lock").symlink_to(path)
    begun = time.monotonic()
    storage.load(*study).study.add_trial(create_trial(value=2.0))
    assert [trial.value for trial in storage.load(*study).study.trials] == [1.0, 2.0]
    assert time.monotonic() - begun < 25  # Optuna's own lock is waited for for 30 s
