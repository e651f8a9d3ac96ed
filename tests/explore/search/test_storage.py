"""Studies in SQLite: several processes at once, and databases that cannot be used."""

import socket
import subprocess
import sys
import threading
import time

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, IntDistribution
from optuna.trial import create_trial

from dse.errors import DseError
from dse.explore.search import storage
from dse.explore.search.storage import Lists

STUDY = "study", ["time [s]"], Lists({"x": (1, 2, 4, 8, 16)})


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'study.db'}"


@pytest.mark.slow
def test_commands_that_make_and_fill_one_study_at_the_same_time_all_live(toy_kernel, url):
    words = ["search", str(toy_kernel), "-g", "a100", "-m", "roofline", "--trials", "20", "--storage", url]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    begun = [subprocess.Popen([sys.executable, "-m", "dse", "-q", *words], **pipes) for _ in range(2)]
    assert [(process.communicate()[1], process.returncode) for process in begun] == [("", 0)] * 2
    [study] = optuna.get_all_study_names(url)
    trials = optuna.load_study(study_name=study, storage=url).trials
    assert sorted(trial.number for trial in trials) == list(range(20))


def at(place):
    """A trial at a place of the list of x."""
    return create_trial(params={"x": place}, distributions={"x": IntDistribution(0, 4)}, value=1.0)


@pytest.mark.parametrize("kind", ["sqlite:///", "journal:"])
def test_a_study_in_a_file_is_written_by_one_process_at_a_time(kind, tmp_path):
    first, second = (storage.load(f"{kind}{tmp_path / 'study'}", *STUDY) for _ in range(2))
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


@pytest.mark.parametrize(
    ("message", "failures", "attempts"),
    [
        ("table trials already exists", 1, 2),  # made by another process meanwhile
        ("database is locked", 1, 2),
        ("database is locked", 10**9, None),  # waiting has an end
        ("malformed database schema (trials) - duplicate column name: tULL", 10**9, 1),
    ],
)
def test_what_another_process_does_meanwhile_is_waited_for(url, monkeypatch, message, failures, attempts):
    calls = []

    def failing(*arguments, **options):
        calls.append(1)
        if len(calls) <= failures:
            raise RuntimeError(message)
        return optuna.storages.RDBStorage(*arguments, **options)

    monkeypatch.setattr(storage, "RDBStorage", failing)
    monkeypatch.setattr(storage, "WAIT", 0.5)
    if failures == 1:
        assert storage.load(url, *STUDY).news() == []
    else:
        with pytest.raises(DseError, match=rf"^storage: .*study.db: cannot use: {message[:20]}"):
            storage.load(url, *STUDY)
    assert attempts is None or len(calls) == attempts


def test_a_study_that_cannot_be_used_is_one_line(url, tmp_path, monkeypatch):
    """One that vanishes, is no database or journal, has other lists, or is where nothing can be."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between Optuna's attempts
    monkeypatch.setattr(storage, "ANSWER", 0.2)
    optuna.create_study(study_name="study", storage=url).add_trial(at(3))
    with pytest.raises(DseError, match=r"^storage: sqlite.*: x: found a list of other values; name .*$"):
        storage.load(url, *STUDY).news()
    (tmp_path / "study.db").unlink()
    kept = storage.load(url, *STUDY)
    (tmp_path / "study.db").unlink()
    with pytest.raises(DseError, match=r"^storage: .*: cannot use: "):
        kept.add([at(1)])
    (tmp_path / "study.db").write_text("not a database" * 100)
    (tmp_path / "endless").symlink_to("/dev/zero")
    damaged = r"\.log: found a damaged study \(\w+: .*\), expected one of Optuna"
    for n, entry in enumerate(('{"op_code": 99, "worker_id": "a"}', '{"op_code": 0}', "{}")):
        (tmp_path / f"{n}.log").write_text(f"{entry}\n")
    for bad, message in (
        *((f"journal:{tmp_path / f'{n}.log'}", damaged) for n in range(3)),
        ("grpc:", "storage: grpc:: found no host and port, expected grpc://HOST:PORT"),
        ("grpc://localhost", "storage: grpc://localhost: found no host and port"),
        ("grpc://localhost:9", r"found no answer in 0\.2 s"),
        (url, r"^storage: .*: cannot use: .*not a database$"),
        ("sqlite:////nonexistent/folder/x.db", r"^storage: .*: cannot use: "),
        (f"journal:{tmp_path / 'endless'}", r"endless: found no file but a folder, pipe or device"),
    ):
        with pytest.raises(DseError, match=message):
            storage.load(bad, *STUDY)


def test_values_are_stored_and_places_come_back(url):
    kept = storage.load(url, *STUDY)
    kept.add([at(3)])
    read = optuna.load_study(study_name="study", storage=url)
    assert [item.params for item in read.trials] == [{"x": 8}]
    assert read.metric_names == ["time [s]"]
    assert kept.news() == []  # only what others added
    other = storage.load(url, *STUDY)
    [back] = other.news()
    assert (back.params, back.distributions) == (at(3).params, at(3).distributions)
    assert other.news() == []


@pytest.mark.slow
def test_a_study_behind_a_proxy(tmp_path):
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
            kept = storage.load(f"grpc://localhost:{port}", *STUDY)
            kept.add([at(2)])
            again = storage.load(database, *STUDY)
            assert [trial.params for trial in again.news()] == [{"x": 2}]
            assert [trial.params for trial in kept.study.get_trials()] == [{"x": 4}]
        finally:
            server.terminate()


def test_a_journal_goes_on_after_a_process_was_killed_amid_an_entry(tmp_path):
    """Nor is there a lock to wait for, which such a process has left."""
    path = tmp_path / "s.log"
    study = f"journal:{path}", *STUDY
    storage.load(*study).study.add_trial(create_trial(value=1.0))
    with path.open("ab") as file:
        file.write(b'{"op_code":4,"st')
    (tmp_path / "s.log.lock").symlink_to(path)
    begun = time.monotonic()
    storage.load(*study).study.add_trial(create_trial(value=2.0))
    assert [trial.value for trial in storage.load(*study).study.trials] == [1.0, 2.0]
    assert time.monotonic() - begun < 25  # Optuna's own lock is waited for for 30 s


PLACED = Lists({"k.block": (32, 64, 128), "k.tile": (4, 8, 12), "k.ratio": (0.5, 1.0), "k.down": (3, 2, 1)})

PLACES = create_trial(
    params={"variant": "k", "k.block": 2, "k.tile": 1, "k.ratio": 0, "k.down": 1},
    distributions={
        "variant": CategoricalDistribution(["j", "k"]),
        **{f"k.{name}": IntDistribution(0, 2) for name in ("block", "tile", "down")},
        "k.ratio": IntDistribution(0, 1),
    },
    value=1.0,
    user_attrs={"note": "kept"},
)


def test_values_stand_in_the_place_of_places_and_back():
    trial = PLACED.with_values(PLACES)
    assert trial.params == {"variant": "k", "k.block": 128, "k.tile": 8, "k.ratio": 0.5, "k.down": 2}
    assert trial.distributions == {
        "variant": CategoricalDistribution(["j", "k"]),
        "k.block": CategoricalDistribution([32, 64, 128]),
        "k.tile": IntDistribution(4, 12, step=4),
        "k.ratio": CategoricalDistribution([0.5, 1.0]),
        "k.down": CategoricalDistribution([3, 2, 1]),
    }
    trial._validate()  # what Optuna asks of a trial that is added to a study
    assert (trial.values, trial.user_attrs) == (PLACES.values, PLACES.user_attrs)
    assert PLACES.params["k.block"] == 2  # the sampler's own trial stays
    assert PLACED.with_indices(trial) == PLACES
    with pytest.raises(DseError, match=r"k\.block: found a list"):  # places are not taken for values
        PLACED.with_indices(PLACES)
