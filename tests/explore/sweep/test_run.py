"""A sweep that is interrupted goes on where it stopped and ends with the same bytes, whatever it makes."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dse.core.cluster import in_threads
from dse.errors import DseError
from dse.explore.sweep import plan as plans
from dse.explore.sweep import run
from dse.explore.sweep.plan import Plan
from dse.explore.sweep.reductions import Histogram, Pareto, Top
from dse.explore.sweep.sweep import Sweep

PER = frozenset({"kernel", "gpu", "size", "model"})
REDUCTIONS = [Top(3, PER), Pareto(("time_s", "registers"), PER), Histogram(PER)]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(plans, "CONFIGURATIONS", 6)


def breaking(after, seen):
    """Threads that are interrupted when so many units were done."""
    real = in_threads(1)

    def spread(function, units):
        for number, (some, result) in enumerate(real(function, units)):
            if number == after:
                raise KeyboardInterrupt
            seen.extend(some)
            yield some, result

    return spread


@pytest.mark.quick("Top")
@pytest.mark.parametrize("reduction", REDUCTIONS, ids=lambda each: type(each).__name__)
def test_a_reduction_goes_on_after_an_interruption(product, reduction, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "EVERY", 0.0)
    monkeypatch.setattr(run, "SHARE", 1e9)
    plan, folder = Plan(product, reduction), tmp_path / "out.parts"
    whole = run.reduced(plan, in_threads(2))
    seen = []
    for after in (2, 3, 1):
        with pytest.raises(KeyboardInterrupt):
            run.reduced(Plan(product, reduction), breaking(after, seen), folder)
    again = run.reduced(Plan(product, reduction), breaking(1000, seen), folder)
    assert seen == list(range(plan.units))  # each unit once
    assert whole is not None
    assert again is not None
    assert whole.keys() == again.keys()
    assert all(whole[name].tobytes() == again[name].tobytes() for name in whole)


@pytest.mark.slow
def test_rows_go_on_after_an_interruption(product, tmp_path):
    """Its unfinished work may lie where a link leads, as to a larger disk."""
    whole, out, seen = tmp_path / "whole.parquet", tmp_path / "out.parquet", []
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out.parquet.parts").symlink_to(tmp_path / "elsewhere")
    assert run.written(Plan(product, None), whole, in_threads(2)) == pq.read_table(whole).num_rows
    for after in (2, 3):
        with pytest.raises(KeyboardInterrupt):
            run.written(Plan(product, None), out, breaking(after, seen))
        assert not out.exists()
    run.written(Plan(product, None), out, breaking(1000, seen))
    assert len(seen) == len(set(seen)) == Plan(product, None).units
    assert whole.read_bytes() == out.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"whole.parquet", "out.parquet"}


@pytest.mark.slow
@pytest.mark.parametrize("last", ["000000000.parquet", "job.json"])
def test_ended_while_it_tidies_up(product, tmp_path, monkeypatch, last):
    """The file is there before what it was made of goes, and what is left of that is no obstacle."""
    out, unlink = tmp_path / "out.parquet", Path.unlink

    def unlinked(path, **options):
        if path.name == last:
            raise SystemExit
        unlink(path, **options)

    with monkeypatch.context() as killed:
        killed.setattr(run.shutil, "rmtree", lambda folder: unlinked(folder / "job.json"))
        killed.setattr(Path, "unlink", unlinked)
        with pytest.raises(SystemExit):
            run.written(Plan(product, None), out, in_threads(1))
    rows = pq.read_table(out).num_rows
    (tmp_path / "out.parquet.parts" / ".12345678-out.parquet").touch()  # of a process that was killed
    assert run.written(Plan(product, None), out, in_threads(1)) == rows > 0
    assert [path.name for path in tmp_path.iterdir()] == ["out.parquet"]


def test_rows_are_those_of_single_evaluations(product, expected, tmp_path):
    out = tmp_path / "out.parquet"
    assert Sweep(product).to_parquet(out) == len(expected)
    actual = pq.read_table(out).to_pylist()

    def order(row):
        return str([row.get(name) for name in ("kernel", "n", "gpu", "model", "block", "items", "threads")])

    for row, wanted in zip(sorted(actual, key=order), sorted(expected, key=order), strict=True):
        assert {name: row[name] for name in wanted} == wanted
    assert next(row for row in actual if row["kernel"] == "example")["items"] is None


def test_another_job_starts_anew(product, tmp_path):
    folder = tmp_path / "out.parquet.parts"
    folder.mkdir()
    (folder / "job.json").write_text(json.dumps({"job": "another"}))
    (folder / "000000000.parquet").write_text("not of this job")
    count = Sweep(product).to_parquet(tmp_path / "out.parquet")
    assert count == pq.read_table(tmp_path / "out.parquet").num_rows
    plan = Plan(product, Top(3, PER))
    changed = [
        replace(plan, reduction=Top(4, PER)),
        replace(plan, reduction=None),
        replace(plan, where=Sweep(product).filtered("possible").where),
        replace(plan, product=replace(product, gpus=product.gpus[:1])),
        replace(plan, product=replace(product, sizes=product.sizes[::-1])),
        replace(plan, product=replace(product, models=product.models[::-1])),
    ]
    assert len({run.key(item) for item in (plan, *changed)}) == 7
    assert run.key(plan, columns=["gpu"]) != run.key(plan)


def test_folders_of_another_origin_or_process_are_left_alone(product, tmp_path):
    folder = tmp_path / "out.parquet.parts"
    folder.mkdir()
    (folder / "mine.txt").write_text("kept")
    with pytest.raises(DseError, match="another origin"):
        Sweep(product).to_parquet(tmp_path / "out.parquet")
    with pytest.raises(DseError, match="another origin"):
        Sweep(product).top(1, checkpoint=folder)
    with pytest.raises(DseError, match=r"expected \.parquet"):
        Sweep(product).to_parquet(tmp_path / "out.csv")
    assert (folder / "mine.txt").read_text() == "kept"
    folder = tmp_path / "other.parts"
    with run.begun(folder, "a"):
        with (
            pytest.raises(DseError, match=r"parts: found a sweep that has not ended, expected its end first"),
            run.begun(folder, "a"),
        ):
            pass
        assert (folder / "job.json").exists()
    (folder / ".3f2a-job.json").write_text("half of a")  # as a kill leaves it
    (folder / "job.json").unlink()
    with run.begun(folder, "a"):
        assert json.loads((folder / "job.json").read_text()) == {"job": "a"}


@pytest.mark.parametrize("note", ["{", "{}", "[" * 10**5, '{"job": "a", "more": 1}', "\xff"])
def test_a_note_of_something_else_is_left_alone(tmp_path, note):
    (tmp_path / "job.json").write_text(note, encoding="latin-1")
    with pytest.raises(DseError, match=r"job\.json: found no note"), run.begun(tmp_path, "a"):
        pass
    assert (tmp_path / "job.json").read_text(encoding="latin-1") == note
