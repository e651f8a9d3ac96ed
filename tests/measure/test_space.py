"""Whole runs: what is taken, what goes on after a break, in what time. A process plays the GPU."""

import multiprocessing
import sys
from collections.abc import Callable
from dataclasses import replace
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
from dse.measure.arguments import TimingJob
from dse.measure.built import BuiltSpace, digest_of
from dse.measure.journal import Journal
from dse.measure.space import GpuProcess, SpacePlan, answer, measure, plan, store, work
from dse.measure.timing import TimingSettings
from dse.source.contract import Failure
from dse.source.launches import Array

GPU = gpus.load("a100").gpu
NONE = Failure("compile error", "no")

# Of the blocks of `reduction`: one breaks the GPU, one never answers, one ends the process.
WORKER = """
import os, time

def work(connection, settings, ordinal):
    while True:
        try:
            job = connection.recv()
        except EOFError:
            return
        items = job.parameters["items"]
        if items == 2:
            connection.send({"rows": [{"status": "runtime", "message": "broken"}], "lost": True, "error": ""})
            return
        if items == 4:
            time.sleep(60)
        if items == 8:
            os._exit(1)
        row = {"status": "ok", "time_ms": 0.5 * items, "min_ms": 0.4, "process": os.getpid()}
        connection.send({"rows": [row], "lost": False, "error": ""})
"""


def built_plan(items: tuple[int, ...], count: int = 67108864) -> SpacePlan:
    """Some configurations of `reduction`, in this order. Nothing is compiled: they were built."""
    description = kernels.load("reduction")
    rows = tuple((64, item, 0) for item in items)
    built = BuiltSpace("reduction", digest_of(description), "C", {"count": count},
                       description.space.names, rows, (NONE,) * len(rows))  # fmt: skip
    planned = plan(description, built.sizes, GPU, None, 0, built)
    order = sorted(range(len(rows)), key=lambda place: items.index(int(planned.parameters[place]["items"])))
    columns = {"parameters": planned.parameters, "configurations": planned.configurations}
    return replace(planned, **{name: [values[n] for n in order] for name, values in columns.items()})


def journal_of(path: Path, planned: SpacePlan) -> Journal:
    about = {"gpu": "NVIDIA Something", "sweep": False}
    return Journal(path, about | {"kernels": {planned.name: {"digest": planned.source.digest}}})


class Played(GpuProcess):
    """A GPU on which each configuration takes 1 ms, and the third is interrupted by its user."""

    def __init__(self) -> None:
        super().__init__(TimingSettings())
        self.jobs: list[TimingJob] = []

    def start(self) -> None: ...

    def rows(self, job: TimingJob, until: float | None = None) -> list[dict[str, Any]] | None:
        if len(self.jobs) == 2:
            raise KeyboardInterrupt
        self.jobs.append(job)
        return [{"status": "ok", "time_ms": 1.0}]


def test_a_plan():
    description = kernels.load("prefix_sum")
    planned = plan(description, description.sizes(), GPU, 5, 3)
    assert (planned.valid, len(planned.parameters), len(planned.configurations)) == (50, 5, 5)
    assert plan(description, description.sizes(), GPU, 9, 3).parameters[:5] == planned.parameters
    assert plan(description, description.sizes(), GPU, 5, 4).parameters != planned.parameters
    for parameters, configuration in zip(planned.parameters, planned.configurations, strict=True):
        assert configuration.block == (parameters["block"], 1, 1)
        blocks = -(-67108864 // int(parameters["block"] * parameters["items"]))
        big = Array(67108864, "float32", "", ())
        assert configuration.arguments == (big, big, Array(blocks, "float32", "", ()), 0, 67108864)
    with pytest.raises(DseError, match="kernel: found svm, expected one that can be checked: convolution"):
        plan(kernels.load("svm"), {}, GPU, None, 0)


@pytest.mark.slow
def test_what_breaks_the_gpu_does_not_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "stands_in.py").write_text(WORKER)  # a module that the process can import, too
    monkeypatch.syspath_prepend(tmp_path)
    import stands_in  # type: ignore[import-not-found]

    planned = built_plan((1, 2, 16, 4, 32, 8))
    journal = journal_of(tmp_path / "reduction.parquet", planned)
    done: list[int] = []
    gpu = GpuProcess(TimingSettings(), worker=stands_in.work, patience=1.0, first_patience=20.0)
    assert measure([planned], 80, journal, gpu, None, done.append)
    journal.close(done=True)
    del sys.modules["stands_in"]
    assert sum(done) == 6
    by_items = {row["items"]: row for row in journal.rows}
    statuses = dict.fromkeys((1, 16, 32), "ok") | {2: "runtime", 4: "timeout", 8: "runtime"}
    assert {items: row["status"] for items, row in by_items.items()} == statuses
    assert by_items[4]["message"] == "no answer in 1 s"
    assert len({by_items[items]["process"] for items in (1, 16, 32)}) == 3

    table = measured.load(tmp_path / "reduction.parquet", planned.description)  # as `dse compare` reads it
    assert table.ok.tolist() == [True, False, True, False, True, False]
    np.testing.assert_allclose(table.time_s[table.ok], [0.5e-3, 8e-3, 16e-3])
    assert table.problem == {"count": 67108864}


def test_it_goes_on_where_it_stopped(tmp_path: Path):
    planned, path = built_plan((1, 2, 4, 8)), tmp_path / "reduction.parquet"

    def run(journal: Journal, advance: Callable[[int], None] = print) -> list[dict[str, Any]]:
        gpu = Played()
        if len(planned.parameters) - len(journal.rows) > 2:
            with pytest.raises(KeyboardInterrupt):
                measure([planned], 80, journal, gpu)
        else:
            assert measure([planned], 80, journal, gpu, None, advance)
        return [dict(job.parameters) for job in gpu.jobs]

    assert run(journal_of(path, planned)) == planned.parameters[:2]
    journal = journal_of(path, planned)
    assert not measure([planned], 80, journal, Played(), budget=0.0)  # no time: nothing is begun
    assert len(journal.rows) == 2
    done: list[int] = []
    assert run(journal, done.append) == planned.parameters[2:]
    assert done == [2, 1, 1]


def test_cases_go_into_one_table_by_their_sizes(tmp_path: Path):
    plans = [built_plan((1, 2), count) for count in (67108864, 1024)]
    assert [configuration.grid[0] for configuration in plans[1].configurations] == [16, 8]
    journal = journal_of(tmp_path / "all.parquet", plans[0])
    for some, count in ((plans[:1], 67108864), (plans, 1024)):  # what was measured is not measured again
        gpu = Played()
        assert measure(some, 90, journal, gpu)
        assert [(job.sizes["count"], job.outcome) for job in gpu.jobs] == [(count, NONE)] * 2
    assert len({tuple(row.items()) for row in journal.rows}) == 4


class Silent(GpuProcess):
    """A process that never answers; how long it was waited for is kept."""

    def start(self) -> None:
        self.waited: list[float] = [*getattr(self, "waited", ())]

        def poll(timeout: float) -> bool:
            self.waited.append(timeout)
            return False

        self.connection: Any = SimpleNamespace(send=lambda job: None, poll=poll, close=lambda: None)
        self.process = SimpleNamespace(join=lambda timeout: 0, is_alive=lambda: False)
        self.case = None


def test_what_is_not_done_in_time_is_no_failure():
    planned, gpu = built_plan((1,)), Silent(TimingSettings(), first_patience=60.0)
    job = TimingJob("reduction", planned.parameters[0], planned.sizes, planned.configurations[0], NONE)
    assert gpu.rows(job, until=0.0) is None
    assert gpu.process is None
    assert gpu.rows(job) == [{"status": "timeout", "message": "no answer in 60 s"}]
    assert gpu.waited == [gpu.grace, 60.0]
    here, there = multiprocessing.Pipe()
    here.send("a configuration")
    work(there, TimingSettings(), 99)
    message = here.recv()
    assert (message["lost"], message["error"][:11]) == (True, "GPU: found ")


def test_an_error_of_one_configuration_is_its_row():
    def timed(job: Any) -> list[dict[str, Any]]:
        if job == "bad":
            raise DseError("k: filter: found 8 B, expected 900 B")
        return [{"status": "ok"}]

    def serve(connection: Any) -> None:
        with pytest.raises(EOFError):
            answer(connection, timed)

    ours, theirs = multiprocessing.Pipe()
    thread = Thread(target=serve, args=(theirs,))
    thread.start()
    rows = []
    for job in ("bad", "good"):
        ours.send(job)
        message = ours.recv()
        assert (message["lost"], message["error"]) == (False, "")
        rows += message["rows"]
    ours.close()
    thread.join(timeout=10)
    broken = {"status": "runtime", "message": "k: filter: found 8 B, expected 900 B"}
    assert rows == [broken, {"status": "ok"}]


def test_rows_are_stored_by_kernel_and_case(tmp_path: Path, own_catalogue: Callable[..., Path]):
    """Those of the usual sizes have the GPU's name alone."""
    folder, path = own_catalogue(kernels=["reduction", "transpose"]) / "kernels", tmp_path / "all.parquet"
    usual = {"width": 8192, "height": 8192}
    rows = [
        {"kernel": "reduction", "block": 64, "count": 67108864},
        {"kernel": "transpose", "tile": 8, **usual},
        {"kernel": "transpose", "tile": 16, **usual, "height": 5},
        {"kernel": "transpose", "tile": 32, **usual},
    ]
    digests = {"reduction": {"digest": "a"}, "transpose": {"digest": "b"}}
    journals.write(path, {"gpu": "G", "sweep": False, "kernels": digests}, rows)
    stored = {Path(name).relative_to(folder).as_posix(): count for name, count in store(path, "g").items()}
    expected = {"reduction/measured/g": 1, "transpose/measured/g": 2, "transpose/measured/g-height5": 1}
    assert stored == {f"{name}.parquet": count for name, count in expected.items()}
    about, own = journals.read(folder / "transpose" / "measured" / "g.parquet")
    assert own == [{"tile": 8, **usual}, {"tile": 32, **usual}]
    assert about["kernels"] == {"transpose": {"digest": "b"}}
    journals.write(path, {"gpu": "G", "sweep": True, "kernels": digests}, rows)
    assert str(folder / "reduction" / "measured" / "g_occupancy.parquet") in store(path, "g")
