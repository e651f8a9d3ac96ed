"""`dse occupancy-curve`: a table, rows, a chart."""

import csv
import io
import json

import pytest

WARPS = [4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 64]
FIELDS = ["model", "warps", "throughput", "instructions", "time_s"]


@pytest.fixture
def curve(run_dse, toy_kernel):
    """`curve(...)`: of the toy kernel with blocks of 4 warps, by two closed forms."""

    def curve(*arguments, models=("volkov", "roofline")):
        of = [x for model in models for x in ("--model", model)]
        where = ("occupancy-curve", str(toy_kernel), "--gpu", "a100", "--set", "block=128")
        return run_dse(*where, *of, *(str(x) for x in arguments))

    return curve


def test_as_a_table(curve):
    ran = curve("--set", "items=4")
    assert (ran.code, ran.err) == (0, "")
    title, _, table = ran.out.partition("warps")
    *table, conclusion = table.splitlines()
    assert title.strip() == "toy on NVIDIA A100-PCIE-40GB: block=128, items=4"
    head, _, *lines = [line.split() for line in table if line.strip()]
    assert head == ["volkov", "roofline"]
    assert "warps an SM give 95 % of the highest throughput by volkov" in conclusion
    rows = [[float(x) for x in line] for line in lines]
    assert [row[0] for row in rows] == WARPS
    assert all(0 < row[1] <= row[2] for row in rows)
    exact = json.loads(curve("--set", "items=4", "--json").out)
    volkov = [1e6 * row["throughput"] for row in exact if row["model"] == "volkov"]
    assert [row[1] for row in rows] == pytest.approx(volkov, rel=1e-3)


def test_as_json_and_csv(curve):
    rows = json.loads(curve("--set", "items=4", "--json").out)
    assert [list(row) for row in rows] == [FIELDS] * 32
    assert [row["warps"] for row in rows] == WARPS * 2
    assert {row["model"] for row in rows} == {"volkov", "roofline"}
    table = list(csv.DictReader(io.StringIO(curve("--set", "items=4", "--csv").out)))
    assert [float(row["throughput"]) for row in table] == [row["throughput"] for row in rows]


@pytest.mark.slow
def test_of_the_fastest_configuration_by_all_models(run_dse, toy_kernel):
    from dse.models import MODELS

    ran = run_dse("occupancy-curve", str(toy_kernel), "-g", "a100", "--set", "n=65536", "--json")
    assert ran.code == 0
    rows = json.loads(ran.out)
    assert {row["model"] for row in rows} == set(MODELS)
    assert len(rows) % len(MODELS) == 0


def test_settings_of_the_simulator(curve, monkeypatch):
    import numpy as np

    from dse.simulator import pipeline

    asked = []

    def predict(warp, launch, settings, advance):
        asked.append(settings)
        return np.ones(16), np.zeros(16, int)

    monkeypatch.setattr(pipeline, "predict", predict)
    options = ("--scheduler", "gto", "--order", "dataflow", "--groups", "9", "--json")
    assert curve(*options, models=("pipeline",)).code == 0
    assert asked == [pipeline.Settings("gto", "dataflow", 9)]


def test_as_a_chart(curve, tmp_path, monkeypatch):
    drawn = []

    def convert(spec):
        drawn.append(json.loads(spec))
        return "<svg></svg>"

    monkeypatch.setattr("vl_convert.vegalite_to_svg", convert)
    path = tmp_path / "curve.SVG"
    ran = curve("--set", "items=4", "-o", path)
    assert (ran.code, ran.err) == (0, "")
    assert f"wrote {path}" in ran.out
    assert path.read_text() == "<svg></svg>"
    [spec] = drawn
    assert "block=128" in json.dumps(spec["title"])
    rows = json.loads(curve("--set", "items=4", "--json").out)
    expected = [(row["model"], row["warps"], pytest.approx(1e6 * row["throughput"])) for row in rows]
    assert [(each["line"], each["warps"], each["throughput"]) for each in spec["data"]["values"]] == expected


def test_as_a_file(curve, tmp_path):
    assert curve("--set", "items=4", "-o", tmp_path / "curve.csv").code == 0
    assert (tmp_path / "curve.csv").read_text().splitlines()[0] == ",".join(FIELDS)
