"""Commands from end to end, as a user runs them: what they print and what they write."""

import csv
import io
import json
import subprocess
import sys
import time

import pytest

from dse.models import MODELS

T1 = {
    "General": {"BenchmarkName": "toy"},
    "ConfigurationSpace": {
        "TuningParameters": [
            {"Name": "block", "Type": "int", "Values": "[64, 128, 192]"},
            {"Name": "items", "Type": "int", "Values": "[1, 2, 4]"},
        ],
        "Conditions": [{"Expression": "block * items <= 256", "Parameters": ["block", "items"]}],
    },
    "KernelSpecification": {
        "Language": "CUDA",
        "KernelName": "toy",
        "LocalSize": {"X": "block", "Y": "1", "Z": "1"},
        "GridDivX": ["block", "items"],
        "ProblemSize": [1048576],
    },
}


def test_rank_as_table_json_and_csv(run_dse, answer, toy_kernel):
    options = f"rank {toy_kernel} --top 3 --model volkov --model roofline --gpu".split()
    assert "3 best of 23 configurations by volkov (" in run_dse(*options, "gtx-280").out
    rows = answer(*options, "a100")
    assert [row["rank"] for row in rows] == [1, 2, 3]
    assert rows[0]["time_s"] <= rows[1]["time_s"] <= rows[2]["time_s"]
    table = csv.DictReader(io.StringIO(run_dse(*options, "a100", "--csv").out))
    assert [float(row["time_s"]) for row in table] == [row["time_s"] for row in rows]


@pytest.mark.slow
def test_rank_by_simulation_depends_on_the_scheduler(answer, toy_kernel):
    command = ("rank", toy_kernel, "-g", "a100", "-m", "pipeline", "--top", "0", "--set", "n=65536")
    rows = answer(*command, "--scheduler", "gto", "--order", "program", "--groups", "40")
    other = answer(*command, "--scheduler", "rr")
    assert [row["time_s"] for row in rows] == sorted(row["time_s"] for row in rows)
    assert {row["time_s"] for row in rows} != {row["time_s"] for row in other}


@pytest.mark.slow
def test_rank_beside_the_library(run_dse, answer):
    command = ("rank", "matmul_tiled", "-g", "a100", "--set", "m=512", "--library")
    [seconds] = {row["library_s"] for row in answer(*command, "fp32:m,n,2*k")}
    assert seconds > 2 * 512 * 2048 * 4096 / 19.5e12  # at the peak of CUDA cores at least
    for product, words in (("fp32:m,n", "OPERANDS:"), ("fp3:m,n,k", "operands"), ("fp32:m,n,0", "from 1")):
        refused = run_dse(*command, product)
        assert (refused.code, words in refused.err) == (2, True)


def test_rank_beside_measured_times(answer, toy_kernel, tmp_path):
    (tmp_path / "m.csv").write_text("block,items,time_ms\n64,1,2.5\n")
    rows = answer("rank", toy_kernel, "-g", "a100", "--measured", tmp_path / "m.csv", "--top", "0")
    [row] = [row for row in rows if (row["block"], row["items"]) == (64, 1)]
    assert row["measured_s"] == pytest.approx(2.5e-3)


def test_rank_over_the_space_of_a_t1_problem(answer, toy_kernel, tmp_path):
    (tmp_path / "T1.json").write_text(json.dumps(T1))
    rows = answer("rank", toy_kernel, "-g", "a100", "--space", tmp_path / "T1.json", "--top", "0")
    assert sorted((row["block"], row["items"]) for row in rows) == [
        (64, 1), (64, 2), (64, 4), (128, 1), (128, 2), (192, 1),
    ]  # fmt: skip


def test_a_value_outside_the_space_is_pointed_out(run_dse, toy_kernel):
    ran = run_dse("rank", toy_kernel, "-g", "a100", "--set", "block=160")
    assert ran.code == 0
    assert "assumed: block may be 160, which is outside its space: 32, 48, 64" in ran.err
    assert "outside" not in run_dse("rank", toy_kernel, "-g", "a100", "--set", "block=128").err


def test_names_of_the_catalogue_win_over_files_here(run_dse, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gemm").mkdir()
    (tmp_path / "Mat-Tiled").touch()
    for name in ("gemm", "Mat-Tiled"):
        assert run_dse("kernels", "show", name).code == 0
        refused = run_dse("kernels", "show", f"./{name}")
        assert (refused.code, name in refused.err) == (2, True)


@pytest.mark.slow
def test_sweep_of_sizes(run_dse, answer, toy_kernel, tmp_path):
    ask = ("sweep", toy_kernel, "-g", "a100", "-g", "mi250x", "--set", "n=65536,1048576")
    ask += ("--set", "block=64,128")
    rows = answer(*ask, "--top", "2", "--per", "gpu,size")
    places = [(row["rank"], row["n"]) for row in rows]
    assert places == [(1, 65536), (2, 65536)] * 2 + [(1, 1048576), (2, 1048576)] * 2
    ranked = answer("rank", toy_kernel, "-g", "a100", "--set", "n=65536", "--top", "0")
    best = min(row["time_s"] for row in ranked if row["block"] in (64, 128))
    assert rows[0]["time_s"] == pytest.approx(best)
    heads = run_dse(*ask, "--top", "2", "--per", "size").out.split()
    assert ("n" in heads, "kernel" in heads) == (True, False)  # the same in all rows

    out = tmp_path / "front.csv"
    ran = run_dse(*ask, "--pareto", "time_s,registers", "--where", "possible and items < 4", "-o", out)
    assert (ran.code, f"wrote {out}" in ran.out) == (0, True)
    assert [path.name for path in tmp_path.iterdir()] == ["front.csv"]
    counts, bins = (answer(*ask, option) for option in ("--counts", "--histogram"))
    assert sum(row["count"] for row in counts if row["possible"]) == sum(row["count"] for row in bins) > 0


def test_a_quantity_has_one_name(answer, toy_kernel):
    ask = ("sweep", toy_kernel, "-g", "a100", "-m", "roofline")
    assert answer(*ask, "--pareto", "time,shared") == answer(*ask, "--pareto", "time_s,shared_bytes")
    wheres = ("time < 1e-3 and shared < 1", "time_s < 1e-3 and shared_bytes < 1")
    short, full = (answer(*ask, "--top", "3", "--where", where) for where in wheres)
    assert short == full


@pytest.mark.slow
def test_a_sweep_that_is_killed_goes_on(run_dse, toy_kernel, tmp_path):
    sizes = ",".join(str(n) for n in range(1 << 16, 1 << 19, 1 << 12))
    code = "from dse.explore.sweep import run; run.EVERY, run.SHARE = 0.05, 1\n"
    code += "from dse.cli.entry import main; main()"
    ask = ["sweep", str(toy_kernel), "-g", "a100", "-m", "roofline"]
    ask += ["--set", f"n={sizes}", "--top", "2", "--per", "size", "-o"]
    whole, out = tmp_path / "whole.parquet", tmp_path / "out.parquet"
    assert run_dse(*ask, whole).code == 0
    running = subprocess.Popen([sys.executable, "-c", code, *ask, str(out)])
    while running.poll() is None and not (tmp_path / "out.parquet.parts" / "state.npz").exists():
        time.sleep(0.01)
    assert running.poll() is None
    running.kill()
    running.wait()
    assert run_dse(*ask, out).code == 0
    assert whole.read_bytes() == out.read_bytes()


@pytest.mark.parametrize("models", [("phase", "volkov"), pytest.param((), marks=pytest.mark.slow)])
def test_compare_with_times_that_the_default_model_predicted(answer, toy_kernel, tmp_path, models):
    predicted = answer("rank", toy_kernel, "-g", "a100", "--top", "0")
    lines = [f"{row['block']},{row['items']},{1e3 * row['time_s']!r}" for row in predicted]
    (tmp_path / "m.csv").write_text("\n".join(["block,items,time_ms", *lines]))
    options = [word for model in models for word in ("--model", model)]
    rows = answer("compare", toy_kernel, "-g", "a100", "--measured", tmp_path / "m.csv", *options)
    scores = {row["model"]: row for row in rows}
    assert set(scores) == {*(models or MODELS), "random choice"}
    assert scores["phase"]["spearman"] == pytest.approx(1)
    assert scores["phase"]["mape_percent"] == pytest.approx(0, abs=1e-4)
    assert 0 < scores["random choice"]["top_1"] < scores["phase"]["top_1"] == pytest.approx(1)


@pytest.mark.slow
def test_search_takes_the_name_of_the_work_and_goes_on(answer, tmp_path):
    command = ("search", "matmul", "-g", "a100", "-m", "volkov", "--trials", "40", "--seed", "1")
    rows = answer(*command, "--storage", f"sqlite:///{tmp_path / 'study.db'}")
    assert {row["kernel"] for row in rows} >= {"matmul_naive", "matmul_tiled"}
    assert answer(*command, "--storage", f"sqlite:///{tmp_path / 'study.db'}") == rows  # nothing left to do


@pytest.mark.parametrize("option", ["--quiet", "--verbose", "--version"])
def test_options_of_dse_itself_may_stand_anywhere(run_dse, option):
    before, after = run_dse(option, "models"), run_dse("models", option)
    assert (before.code, before.out) == (after.code, after.out) == (0, after.out)


def test_the_cache_is_shown_and_cleared(run_dse, answer, tmp_path, monkeypatch):
    monkeypatch.setenv("DSE_CACHE", str(tmp_path / "kept"))
    assert "kept 0 files" in run_dse("cache").out
    (tmp_path / "kept" / "numba").mkdir(parents=True)
    (tmp_path / "kept" / "numba" / "file").write_bytes(bytes(2048))
    assert answer("cache") == [{"part": "numba", "files": 1, "size_bytes": 2048}]
    assert "cleared 1 files" in run_dse("cache", "--clear").out
    assert not list((tmp_path / "kept").iterdir())
