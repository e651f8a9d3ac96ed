"""The Parquet file of a sweep: complete, the same after an interruption, never half written."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from dse import gpus, kernels
from dse.errors import DseError
from dse.evaluate import table
from dse.evaluate.chunks import evaluate
from dse.evaluate.table import SweepJob, sweep


@pytest.fixture
def job(toy_kernel):
    toy = kernels.load(toy_kernel)
    example = kernels.load("example")
    files = (gpus.load("a100"), gpus.load("gtx-280"))
    return SweepJob((toy, example), (toy.sizes(), example.sizes()), files, ("roofline", "volkov"))


def test_one_row_a_kernel_gpu_model_and_configuration(job, tmp_path):
    count = sweep(job, tmp_path / "out.parquet")
    found = pq.read_table(tmp_path / "out.parquet")
    sizes = [len(next(iter(d.space.configurations(d.sizes()).values()))) for d in job.kernels]
    assert count == found.num_rows == sum(sizes) * 2 * 2
    assert not list(tmp_path.glob("*.parts"))

    rows = [row for row in found.to_pylist() if row["kernel"] == "toy" and row["model"] == "volkov"]
    toy = job.kernels[0]
    parameters = toy.space.configurations(toy.sizes())
    expected = evaluate(toy, job.models, gpus.stack([file.gpu for file in job.gpus]), parameters)
    for g, file in enumerate(job.gpus):
        mine = [row for row in rows if row["gpu"] == file.name]
        assert [row["block"] for row in mine] == parameters["block"].tolist()
        np.testing.assert_allclose(
            [row["seconds"] for row in mine], expected.forecasts["volkov"].seconds[g], rtol=1e-6
        )
        assert [row["limited_by"] for row in mine] == expected.limited_by()[g].tolist()
    other = next(row for row in found.to_pylist() if row["kernel"] == "example")
    assert other["items"] is None  # a parameter of the toy kernel only


def test_goes_on_after_an_interruption(job, tmp_path, monkeypatch):
    sweep(job, tmp_path / "whole.parquet")
    calls = []
    real = table.evaluate

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(table, "CHUNK", 16)
    monkeypatch.setattr(table, "evaluate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sweep(job, tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()
    sweep(job, tmp_path / "out.parquet")
    blocks = sum(-(-len(next(iter(d.space.configurations(d.sizes()).values()))) // 16) for d in job.kernels)
    assert len(calls) == blocks + 1  # each block once, and the interrupted one twice
    whole, out = (pq.read_table(tmp_path / name).to_pylist() for name in ("whole.parquet", "out.parquet"))
    key = str
    assert sorted(map(key, whole)) == sorted(map(key, out))


def test_another_job_starts_anew(job, tmp_path):
    folder = tmp_path / "out.parquet.parts"
    folder.mkdir()
    (folder / "job.json").write_text(json.dumps({"job": "another"}))
    (folder / "000-000000.parquet").write_text("not of this job")
    assert sweep(job, tmp_path / "out.parquet") == pq.read_table(tmp_path / "out.parquet").num_rows


def test_files_of_another_origin_are_left_alone(job, tmp_path):
    folder = tmp_path / "out.parquet.parts"
    folder.mkdir()
    (folder / "mine.txt").write_text("kept")
    with pytest.raises(DseError, match="another origin"):
        sweep(job, tmp_path / "out.parquet")
    assert (folder / "mine.txt").read_text() == "kept"


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 100_000])
def test_a_note_that_cannot_be_read_is_left_alone(job, tmp_path, content):
    folder = tmp_path / "out.parquet.parts"
    folder.mkdir()
    (folder / "job.json").write_bytes(content)
    with pytest.raises(DseError, match=r"job\.json: found no note of a sweep, expected one; move the folder"):
        sweep(job, tmp_path / "out.parquet")
    assert (folder / "job.json").read_bytes() == content


def test_wants_parquet(job, tmp_path):
    with pytest.raises(DseError, match=r"expected \.parquet"):
        sweep(job, tmp_path / "out.csv")
