"""Whole runs: what is taken, what goes on after a break, in what time. A process plays the GPU."""

import multiprocessing
import sys
from contextlib import nullcontext
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dse import kernels
from dse.data import measured
from dse.errors import DseError
from dse.hardware import gpus
from dse.measure import journal as journals
from dse.measure import space as subject
from dse.measure.built import BuiltSpace, digest_of
from dse.measure.job import TimingJob
from dse.measure.journal import Journal
from dse.measure.space import SpacePlan, measure, plan, store
from dse.measure.timing import TimingSettings
from dse.source.contract import Failure
from dse.source.launches import Array
from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.sass.elf import Binary

GPU = gpus.load("a100").gpu

# Of the blocks of `reduction`: one breaks the GPU, one never answers, one ends the process.
WORKER = """
import os, time

def work(connection, settings, ordinal):
    while True:
        try:
            job = connection.recv()
        except EOFError:
            return
        place = job.parameters["block"], job.parameters["items"]
        if place == (64, 2):
            connection.send({"rows": [{"status": "runtime", "message": "broken"}], "lost": True, "error": ""})
            return
        if place == (64, 4):
            time.sleep(60)
        if place == (64, 8):
            os._exit(1)
        row = {"status": "ok", "time_ms": 0.5 * place[1], "min_ms": 0.4, "process": os.getpid()}
        connection.send({"rows": [row] * (2 if settings.sweep else 1), "lost": False, "error": ""})
"""


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module that the process can import too."""
    (tmp_path / "stands_in.py").write_text(WORKER)
    monkeypatch.syspath_prepend(tmp_path)
    import stands_in  # type: ignore[import-not-found]

    yield stands_in
    del sys.modules["stands_in"]


@pytest.fixture
def ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled."""
    binary = Binary("reduction", 80, b"", False, 24, 0, 0, 1, None, (), {}, (), {})
    made = Compiled(binary, b"", None, "", "NVRTC 13.0", 0)
    monkeypatch.setattr(subject, "compiled", lambda source, arch, wanted: (made for _ in wanted))
    monkeypatch.setattr(subject, "_FIRST", 20.0)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[TimingJob]:
    """What is to be measured from here on: each takes 1 ms, and the third is interrupted by its user."""
    jobs: list[TimingJob] = []

    def rows(hand: Any, job: TimingJob, until: float | None) -> list[dict[str, Any]]:
        if len(jobs) == 2:
            raise KeyboardInterrupt
        jobs.append(job)
        return [{"status": "ok", "time_ms": 1.0}]

    monkeypatch.setattr(subject._Hand, "rows", rows)
    monkeypatch.setattr(subject._Hand, "start", lambda hand: None)
    return jobs


@pytest.fixture
def sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalogue of two kernels, `sum` and `scan`."""
    for name in ("sum", "scan"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(subject.kernels, "find", lambda name: tmp_path / name / "kernel.toml")
    monkeypatch.setattr(subject.kernels, "load", lambda name: SimpleNamespace(sizes=lambda: {"n": 5, "m": 7}))


def small(**values: tuple[int, ...]) -> SpacePlan:
    from dataclasses import replace

    description = kernels.load("reduction")
    description = replace(description, space=description.space.with_values(values))
    return plan(description, description.sizes(), GPU, None, 0)


def about(*plans: SpacePlan) -> dict[str, Any]:
    return {
        "gpu": "NVIDIA Something",
        "sweep": False,
        "kernels": {each.name: {"digest": each.source.digest, "sizes": each.sizes} for each in plans},
    }


def test_a_plan():
    description = kernels.load("prefix_sum")
    found = plan(description, description.sizes(), GPU, 5, 3)
    assert (found.valid, len(found.parameters), len(found.configurations)) == (50, 5, 5)
    assert plan(description, description.sizes(), GPU, 9, 3).parameters[:5] == found.parameters
    assert plan(description, description.sizes(), GPU, 5, 4).parameters != found.parameters
    for parameters, configuration in zip(found.parameters, found.configurations, strict=True):
        assert configuration.block == (parameters["block"], 1, 1)
        blocks = -(-67108864 // int(parameters["block"] * parameters["items"]))
        big = Array(67108864, "float32", "", ())
        assert configuration.arguments == (big, big, Array(blocks, "float32", "", ()), 0, 67108864)
    with pytest.raises(DseError, match="kernel: found svm, expected one that can be checked: convolution"):
        plan(kernels.load("svm"), {}, GPU, None, 0)


@pytest.mark.slow
def test_what_breaks_the_gpu_does_not_end_the_run(worker: Any, ready: None, tmp_path: Path):
    wanted = small(block=(64,), shuffle=(0,))
    path = tmp_path / "reduction.parquet"
    journal = Journal(path, about(wanted))
    told: list[int] = []
    # The first of a process has longer: so that 4 is not one, it stands behind another.
    wished = [1, 2, 16, 4, 32, 8]
    order = sorted(range(6), key=lambda place: wished.index(int(wanted.parameters[place]["items"])))
    wanted = SpacePlan(
        **{
            **vars(wanted),
            "parameters": [wanted.parameters[place] for place in order],
            "configurations": [wanted.configurations[place] for place in order],
        }
    )
    assert measure([wanted], 80, journal, TimingSettings(), None, told.append, worker.work, patience=1.0)
    journal.close(done=True)
    assert sum(told) == 6
    by_items = {row["items"]: row for row in journal.rows}
    assert {items: row["status"] for items, row in by_items.items()} == {
        1: "ok",
        2: "runtime",
        4: "timeout",
        8: "runtime",
        16: "ok",
        32: "ok",
    }
    assert by_items[4]["message"] == "no answer in 1 s"
    processes = [by_items[items]["process"] for items in (1, 16, 32)]
    assert len(set(processes)) == 3

    # What `dse compare` reads
    table = measured.load(path, wanted.description)
    assert table.ok.tolist() == [True, False, True, False, True, False]
    np.testing.assert_allclose(table.time_s[table.ok], [0.5e-3, 8e-3, 16e-3])
    assert table.problem == {"count": 67108864}


def test_it_goes_on_where_it_stopped(ready: None, tmp_path: Path, played: list[TimingJob]):
    wanted = small(block=(128,), shuffle=(0,), items=(1, 2, 4, 8))
    path = tmp_path / "reduction.parquet"

    def sent() -> list[dict[str, Any]]:
        return [dict(job.parameters) for job in played]

    with pytest.raises(KeyboardInterrupt):
        measure([wanted], 80, Journal(path, about(wanted)), TimingSettings())
    assert sent() == wanted.parameters[:2]

    journal = Journal(path, about(wanted))
    assert not measure([wanted], 80, journal, TimingSettings(), budget=0.0)  # no time: nothing is begun
    assert len(journal.rows) == 2
    del played[0]
    told: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        measure([wanted], 80, journal, TimingSettings(), None, told.append)
    assert sent() == wanted.parameters[1:3]
    played.clear()
    assert measure([wanted], 80, journal, TimingSettings(), None, told.append)
    assert sent() == wanted.parameters[3:]
    assert told == [2, 1, 3, 1]


def test_cases_of_what_was_built_go_into_one_table(tmp_path: Path, played: list[TimingJob]):
    """Each is known by its sizes where a run goes on, and nothing is compiled."""
    description = kernels.load("reduction")
    names, parameters = description.space.names, ((64, 1, 0), (64, 2, 0))
    none = Failure("compile error", "no")
    plans = []
    for count in (67108864, 1024):
        built = BuiltSpace(
            "reduction", digest_of(description), "C", {"count": count}, names, parameters, (none, none)
        )
        plans.append(plan(description, built.sizes, GPU, None, 0, built))
    assert [configuration.grid[0] for configuration in plans[1].configurations] == [
        1024 // int(row["block"] * row["items"]) for row in plans[1].parameters
    ]
    told = {"gpu": "G", "sweep": False, "kernels": {"reduction": {"digest": plans[0].source.digest}}}
    journal = Journal(tmp_path / "all.parquet", told)
    for some, count in ((plans[:1], 67108864), (plans, 1024)):  # what was measured is not measured again
        assert measure(some, 90, journal, TimingSettings())
        assert [(job.sizes["count"], job.made) for job in played] == [(count, none)] * 2
        played.clear()
    assert len({tuple(row.items()) for row in journal.rows}) == 4


def test_what_is_not_done_in_time_is_no_failure(monkeypatch: pytest.MonkeyPatch):
    hand = subject._Hand(subject.work, TimingSettings(), 0, 60.0)
    answers: list[float] = []

    class Silent:
        def send(self, job: TimingJob) -> None: ...

        def poll(self, timeout: float) -> bool:
            answers.append(timeout)
            return False

        def close(self) -> None: ...

    def start() -> None:
        connection: Any = Silent()
        process: Any = SimpleNamespace(join=lambda timeout: 0, is_alive=lambda: False)
        hand.connection, hand.process = connection, process

    monkeypatch.setattr(hand, "start", start)
    monkeypatch.setattr(subject, "_FIRST", 60.0)
    wanted = small(block=(128,), shuffle=(0,), items=(1,))
    job = TimingJob(
        "reduction",
        wanted.parameters[0],
        wanted.sizes,
        wanted.configurations[0],
        Failure("compile error", ""),
    )
    assert hand.rows(job, until=0.0) is None
    assert hand.process is None
    found = hand.rows(job)
    assert found == [{"status": "timeout", "message": "no answer in 60 s"}]
    assert answers == [subject._GRACE, 60.0]


def test_no_gpu_is_told_at_once():
    here, there = multiprocessing.Pipe()
    here.send("a configuration")
    subject.work(there, TimingSettings(), 99)
    answer = here.recv()
    assert answer["lost"]
    assert answer["error"].startswith("GPU: found ")


def test_an_error_of_one_configuration_is_its_row(monkeypatch: pytest.MonkeyPatch):
    class Fails:
        def __init__(self, *arguments: Any) -> None:
            pass

        def rows(self, job: str) -> list[dict[str, str]]:
            if job == "bad":
                raise DseError("k: filter: found 8 B, expected 900 B")
            return [{"status": "ok"}]

    monkeypatch.setattr(subject, "TimingBench", Fails)
    monkeypatch.setattr(
        subject, "Device", lambda ordinal: nullcontext(SimpleNamespace(driver_version="99.0"))
    )
    ours, theirs = multiprocessing.Pipe()
    thread = Thread(target=subject.work, args=(theirs, TimingSettings(), 0))
    thread.start()
    answers = []
    for job in ("bad", "good"):
        ours.send(job)
        answers.append(ours.recv())
    ours.close()
    theirs.close()
    thread.join(timeout=10)
    failed = {"status": "runtime", "message": "k: filter: found 8 B, expected 900 B"}
    assert [answer["rows"] for answer in answers] == [[failed], [{"status": "ok"}]]
    assert not any(answer["lost"] or answer["error"] for answer in answers)


def test_rows_of_several_kernels_are_parted(tmp_path: Path, sums: None):
    path = tmp_path / "all.parquet"
    rows = [
        {"kernel": "sum", "block": 32, "time_ms": 1.0},
        {"kernel": "scan", "tile": 8, "time_ms": 2.0},
        {"kernel": "sum", "block": 64, "time_ms": 3.0},
    ]
    told = {"gpu": "G", "sweep": False, "kernels": {"sum": {"digest": "a"}, "scan": {"digest": "b"}}}
    journals.write(path, told, rows)
    stored = store(path, "g")
    assert sorted(stored.values()) == [1, 2]
    parted, own = journals.read(tmp_path / "sum" / "measured" / "g.parquet")
    assert own == [{"block": 32, "time_ms": 1.0}, {"block": 64, "time_ms": 3.0}]
    assert parted["kernels"] == {"sum": {"digest": "a"}}
    journals.write(path, {**told, "sweep": True}, rows)
    assert (tmp_path / "scan" / "measured" / "g_occupancy.parquet").as_posix() in store(path, "g")


def test_rows_of_several_cases_are_parted(tmp_path: Path, sums: None):
    """Those of the usual sizes have the GPU's name alone."""
    path = tmp_path / "all.parquet"
    cases = [(5, 7), (5, 1), (6, 7), (5, 7)]
    rows = [{"kernel": "sum", "block": block, "n": n, "m": m} for block, (n, m) in enumerate(cases)]
    journals.write(path, {"gpu": "G", "sweep": False, "kernels": {"sum": {"digest": "a"}}}, rows)
    stored = {Path(name).name: count for name, count in store(path, "g").items()}
    assert stored == {"g.parquet": 2, "g-m1.parquet": 1, "g-n6.parquet": 1}
    own = journals.read(tmp_path / "sum" / "measured" / "g-n6.parquet")[1]
    assert own == [{"block": 2, "n": 6, "m": 7}]
