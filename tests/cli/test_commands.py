"""Each command as a user runs it: what it prints, what it writes."""

import csv
import io
import json
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest

from dse.models import MODELS


def test_rank_as_table_json_and_csv(run_dse, toy_kernel):
    options = f"rank {toy_kernel} --top 3 --model volkov --model roofline --gpu".split()
    shown = run_dse(*options, "gtx-280").out
    for part in ("3 best of 23 configurations by volkov (", "cannot run)", "bottleneck", "occupancy"):
        assert part in shown
    rows = json.loads(run_dse(*options, "a100", "--json").out)
    assert [row["rank"] for row in rows] == [1, 2, 3]
    assert rows[0]["time_s"] <= rows[1]["time_s"] <= rows[2]["time_s"]
    table = list(csv.DictReader(io.StringIO(run_dse(*options, "a100", "--csv").out)))
    assert [float(row["time_s"]) for row in table] == [row["time_s"] for row in rows]


def test_rank_by_simulation(run_dse, toy_kernel):
    command = f"rank {toy_kernel} -g a100 -m pipeline -m volkov --top 0 --json".split()
    rows = json.loads(run_dse(*command, "--scheduler", "gto", "--order", "program", "--groups", "40").out)
    other = json.loads(run_dse(*command, "--scheduler", "rr").out)
    assert [row["time_s"] for row in rows] == sorted(row["time_s"] for row in rows)
    assert {row["time_s"] for row in rows} != {row["time_s"] for row in other}
    assert all(0.9 * row["volkov_s"] < row["time_s"] < 4 * row["volkov_s"] for row in rows)


def test_rank_fixes_parameters_and_changes_sizes(run_dse, toy_kernel):
    command = f"rank {toy_kernel} -g a100 --set items=2 --set n=2048 --top 0 --json".split()
    rows = json.loads(run_dse(*command).out)
    assert all(row["items"] == 2 for row in rows)
    assert {row["blocks"] * row["threads"] * 2 for row in rows} == {2048}


def test_rank_beside_the_library(run_dse):
    command = ("rank", "matmul_tiled", "-g", "a100", "--set", "m=512", "--json", "--library")
    rows = json.loads(run_dse(*command, "fp32:m,n,2*k").out)
    assert len({row["library_s"] for row in rows}) == 1
    # at the peak of CUDA cores at least
    assert rows[0]["library_s"] > 2 * 512 * 2048 * 4096 / 19.5e12
    for product, words in (
        ("fp32:m,n", "expected OPERANDS:"),
        ("fp3:m,n,k", "operands"),
        ("fp32:m,n,0", "from 1"),
    ):
        refused = run_dse(*command, product)
        assert (refused.code, words in refused.err) == (2, True)


def test_rank_beside_measured_times(run_dse, toy_kernel, tmp_path):
    path = tmp_path / "m.csv"
    path.write_text("block,items,time_ms\n64,1,2.5\n")
    rows = json.loads(
        run_dse("rank", str(toy_kernel), "-g", "a100", "--measured", str(path), "--top", "0", "--json").out
    )
    assert [row["measured_s"] for row in rows if (row["block"], row["items"]) == (64, 1)] == [
        pytest.approx(2.5e-3)
    ]


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


def test_rank_over_the_space_of_a_t1_problem(run_dse, toy_kernel, tmp_path):
    path = tmp_path / "T1.json"
    path.write_text(json.dumps(T1))
    rows = json.loads(
        run_dse("rank", str(toy_kernel), "-g", "a100", "--space", str(path), "--top", "0", "--json").out
    )
    assert sorted((row["block"], row["items"]) for row in rows) == [
        (64, 1), (64, 2), (64, 4), (128, 1), (128, 2), (192, 1),
    ]  # fmt: skip


def test_sweep(run_dse, toy_kernel, tmp_path):
    out = tmp_path / "sweep.parquet"
    ran = run_dse(
        "sweep", str(toy_kernel), "example", "-g", "a100", "-g", "mi250x", "-m", "volkov", "-o", str(out)
    )
    assert (ran.code, ran.err) == (0, "")
    assert {row["kernel"] for row in pq.read_table(out).to_pylist()} == {"toy", "example"}


def test_sweep_of_sizes(run_dse, toy_kernel, tmp_path):
    ask = ("sweep", str(toy_kernel), "-g", "a100", "-g", "mi250x")
    ask += ("--set", "n=65536,1048576", "--set", "block=64,128")
    rows = json.loads(run_dse(*ask, "--top", "2", "--per", "gpu,size", "--json").out)
    places = [(row["rank"], row["n"]) for row in rows]
    assert places == [(1, 65536), (2, 65536)] * 2 + [(1, 1048576), (2, 1048576)] * 2
    assert {row["block"] for row in rows} <= {64, 128}
    assert {row["model"] for row in rows} == {"phase"}
    ranking = ("rank", str(toy_kernel), "-g", "a100", "--set", "n=65536", "--top", "0", "--json")
    ranked = json.loads(run_dse(*ranking).out)
    best = min(row.get("time_s", row.get("time")) for row in ranked if row["block"] in (64, 128))
    assert rows[0]["time_s"] == pytest.approx(best)
    table = run_dse(*ask, "--top", "2", "--per", "size").out
    assert "n" in table.split()
    assert "kernel" not in table.split()  # the same in all rows

    out = tmp_path / "front.csv"
    ran = run_dse(*ask, "--pareto", "time_s,registers", "--where", "possible and items < 4", "-o", str(out))
    assert ran.code == 0
    assert f"wrote {out}" in ran.out
    assert [path.name for path in tmp_path.iterdir()] == ["front.csv"]
    names = set(out.read_text().splitlines()[0].split(","))
    assert {"kernel", "gpu", "model", "n", "items", "registers", "time_s"} <= names
    counts = json.loads(run_dse(*ask, "--counts", "--json").out)
    bins = json.loads(run_dse(*ask, "--histogram", "--json").out)
    assert sum(row["count"] for row in counts if row["possible"]) == sum(row["count"] for row in bins) > 0


@pytest.mark.slow
def test_a_sweep_that_is_killed_goes_on(toy_kernel, tmp_path):
    sizes = ",".join(str(n) for n in range(1 << 16, 1 << 20, 1 << 12))
    code = "from dse.explore.sweep import run; run.EVERY, run.SHARE = 0.05, 1\n"
    code += "from dse.cli.entry import main; main()"
    ask = [sys.executable, "-c", code, "sweep", str(toy_kernel), "-g", "a100", "-m", "roofline"]
    ask += ["--set", f"n={sizes}", "--top", "2", "--per", "size", "-o"]
    whole, out = tmp_path / "whole.parquet", tmp_path / "out.parquet"
    subprocess.run([*ask, str(whole)], check=True)
    for _ in range(3):
        running = subprocess.Popen([*ask, str(out)])
        parts = tmp_path / "out.parquet.parts" / "state.npz"
        before = parts.stat().st_mtime_ns if parts.exists() else 0
        while running.poll() is None and not (parts.exists() and parts.stat().st_mtime_ns > before):
            time.sleep(0.01)
        assert running.poll() is None
        running.kill()
        running.wait()
    subprocess.run([*ask, str(out)], check=True)
    assert whole.read_bytes() == out.read_bytes()


@pytest.mark.parametrize(
    "models", [("phase", "volkov", "pipeline"), pytest.param((), id="all", marks=pytest.mark.slow)]
)
def test_compare(run_dse, toy_kernel, tmp_path, models):
    predicted = json.loads(run_dse("rank", str(toy_kernel), "-g", "a100", "--top", "0", "--json").out)
    path = tmp_path / "m.csv"
    lines = [f"{row['block']},{row['items']},{1e3 * row['time_s']!r}" for row in predicted]
    path.write_text("\n".join(["block,items,time_ms", *lines]))
    chosen = [x for model in models for x in ("--model", model)]
    ran = run_dse("compare", str(toy_kernel), "-g", "a100", "--measured", str(path), *chosen, "--json")
    scores = {row["model"]: row for row in json.loads(ran.out)}
    assert set(scores) == {*(models or MODELS), "random choice"}
    default = scores["phase"]
    assert default["spearman"] == pytest.approx(1)
    assert default["mape_percent"] == pytest.approx(0, abs=1e-4)
    assert default["top_1"] == pytest.approx(1)
    assert 0 < scores["random choice"]["top_1"] < 1
    assert scores["pipeline"]["spearman"] > 0.5


@pytest.mark.slow
def test_search_ranks_variants(run_dse, tmp_path):
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    command = ("search", "matmul_naive", "matmul_tiled", "-g", "a100", "-m", "volkov", "--trials", "60")
    command += ("--seed", "1")
    ran = run_dse(*command, "--storage", storage)
    assert ran.code == 0
    assert "matmul_naive" in ran.out
    assert "matmul_tiled" in ran.out
    assert "optimum" in ran.out
    rows = json.loads(run_dse(*command, "--storage", storage, "--json").out)  # goes on: nothing left to do
    assert rows[0]["time_s"] <= rows[1]["time_s"]


def test_search_takes_the_name_of_the_work(run_dse):
    ran = run_dse(
        "search", "matmul", "-g", "a100", "-m", "volkov", "--trials", "40", "--storage", "none",
        "--seed", "1", "--json",
    )  # fmt: skip
    assert {row["kernel"] for row in json.loads(ran.out)} >= {"matmul_naive", "matmul_tiled"}
