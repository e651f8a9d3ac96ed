"""The script that scores the models on our own measurements, on tables made up from what a model says."""

import json
import runpy
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from dse import catalogue, gpus, kernels
from dse.fitting.launches import of_kernel
from dse.measure import journal

SCRIPT = Path(__file__).parents[1] / "scripts" / "accuracy_measured.py"
SIZES = {"count": 67108864}
CLOCK = 0.8  # of the catalogue's: what the made-up GPU runs at


@pytest.fixture
def script(tmp_path, monkeypatch):
    """What the script defines, with a catalogue of one GPU and one kernel without measurements."""
    (tmp_path / "gpus").mkdir()
    shutil.copy(gpus.find("h100-sxm"), tmp_path / "gpus")
    kernel = tmp_path / "kernels" / "reduction"
    shutil.copytree(kernels.find("reduction").parent, kernel, ignore=shutil.ignore_patterns("measured"))
    (kernel / "measured").mkdir()
    monkeypatch.setattr(catalogue, "folder", lambda name: tmp_path / name)
    return runpy.run_path(str(SCRIPT))


@pytest.fixture
def run(script, monkeypatch):
    """The script with arguments, its exit code."""

    def with_arguments(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *arguments])
        return script["main"]()

    return with_arguments


def launched(parameters):
    return of_kernel(kernels.load("reduction"), gpus.load("h100-sxm").gpu, parameters, SIZES)


@pytest.fixture
def measured(script, tmp_path):
    """Times by Volkov's model: a space on a slower clock, and a sweep over the occupancy."""
    folder = tmp_path / "kernels" / "reduction" / "measured"
    columns = kernels.load("reduction").space.configurations(SIZES)
    seconds = script["predicted"](launched(columns), "volkov") / CLOCK
    rows = [
        {**dict(zip(columns, map(int, values), strict=True)), **SIZES, "status": "ok", "time_ms": 1e3 * time}
        for *values, time in zip(*columns.values(), seconds, strict=True)
        if np.isfinite(time)
    ]
    rows.append({**rows[0], "status": "correctness", "time_ms": None})
    journal.write(folder / "h100_sxm.parquet", {}, rows)
    steps = [{**rows[0], "resident_blocks": blocks} for blocks in (8, 6, 4, 2)]
    steps += [{**rows[1], "resident_blocks": blocks} for blocks in (2, 1)]  # two steps are no curve
    one = next(script["stored"](""))
    seconds = script["predicted"](script["limited"](one, steps), "volkov")
    steps = [{**row, "time_ms": 1e3 * time} for row, time in zip(steps, seconds.tolist(), strict=True)]
    journal.write(folder / "h100_sxm_occupancy.parquet", {}, steps)
    return len(rows)


def test_scores(run, script, measured, capsys):
    assert run("--model", "volkov", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    [space] = found["spaces"]
    [volkov] = space["rows"]
    assert (volkov["configurations"], volkov["failed"]) == (measured, 1)
    assert volkov["spearman"] == pytest.approx(1)
    assert volkov["mape_percent"] == pytest.approx(100 * (1 - CLOCK), rel=1e-4)
    assert volkov["fitted_mape_percent"] < 3
    assert script["space_table"](space).startswith("### reduction on NVIDIA H100")
    [[swept]] = found["curves"].values()
    assert (swept["configurations"], swept["steps"]) == (1, 4)
    assert swept["errors"]["volkov"]["mape_percent"] == pytest.approx(0, abs=1e-4)


def test_page(run, measured, tmp_path):
    (tmp_path / "kernels" / "reduction" / "measured" / "h100_sxm.parquet").unlink()
    page = tmp_path / "page.md"
    page.write_text("<!-- own measurements: begin -->\n<!-- own measurements: end -->\n")
    assert run("--model", "volkov", "-o", str(page)) == 0
    text = page.read_text()
    assert "### Over occupancy on NVIDIA H100" in text
    assert "| mean | 0.0 / 0.0 |" in text


def test_what_cannot_be_scored_is_left_out(run, measured, tmp_path, capsys):
    folder = tmp_path / "kernels" / "reduction" / "measured"
    (folder / "h100_sxm.parquet").unlink()
    about, rows = journal.read(folder / "h100_sxm_occupancy.parquet")
    journal.write(folder / "h100_sxm_occupancy.parquet", about, rows[-2:])
    assert run() == 2
    said = capsys.readouterr().err
    assert "h100_sxm_occupancy.parquet: found no configuration with three steps of occupancy" in said
    assert "that ran: left out" in said


def test_nothing_measured(run, capsys):
    assert run() == 2
    assert "found no table, expected what `dse measure store` puts there" in capsys.readouterr().err
