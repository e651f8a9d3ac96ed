"""Throughput against occupancy, and over pairs of occupancy and group size."""

import struct

import numpy as np
import pytest

from dse.report.chart import COLOURS, DASHES, MEASURED, WIDTH, occupancy_curve, steps
from dse.report.save import save_chart


def curve(models, warps=range(1, 9)):
    return [
        {"model": model, "warps": np.int64(w), "throughput": np.float64(w / (w + 3 + k))}
        for k, model in enumerate(models)
        for w in warps
    ]


def looks(layer):
    """What colour and dash each series has, in the order of the legend."""
    stroke, dash = layer["encoding"]["stroke"]["scale"], layer["encoding"]["strokeDash"]["scale"]
    assert stroke["domain"] == dash["domain"]
    return {
        name: (colour, tuple(d))
        for name, colour, d in zip(stroke["domain"], stroke["range"], dash["range"], strict=True)
    }


def test_a_line_with_points_for_each_series():
    rows = curve(["volkov", "wfg", "transit"])
    spec = occupancy_curve(rows, title="Curves", y_title="warps a cycle").to_dict()
    line, points = spec["layer"]
    assert (line["mark"]["type"], points["mark"]["type"]) == ("line", "circle")
    drawn = [(p["series"], p["x"], p["y"]) for p in spec["data"]["values"]]
    assert drawn == [(row["model"], int(row["warps"]), float(row["throughput"])) for row in rows]
    assert list(looks(line)) == ["volkov", "wfg", "transit"]  # as they come
    assert points["encoding"]["fill"]["scale"] == line["encoding"]["stroke"]["scale"]
    assert (spec["title"], line["encoding"]["y"]["title"]) == ("Curves", "warps a cycle")
    for axis in "xy":
        assert line["encoding"][axis]["scale"]["zero"] is True
    assert line["encoding"]["stroke"]["legend"]["orient"] == "right"


def test_many_series_all_look_different():
    names = [f"m{i}" for i in range(60)]
    spec = occupancy_curve(curve(names, range(1, 2))).to_dict()
    found = looks(spec["layer"][0])
    assert list(found) == names
    assert len(set(found.values())) == 60
    assert len({colour for colour, _ in list(found.values())[:12]}) == len(set(COLOURS)) == 12
    assert MEASURED not in COLOURS


def test_the_measured_series_is_black_first_in_the_legend_and_drawn_last():
    rows = curve(["measured", "volkov", "wfg"])
    for each in (rows, rows[::-1]):
        spec = occupancy_curve(each, measured="measured").to_dict()
        found = looks(spec["layer"][0])
        assert next(iter(found.items())) == ("measured", (MEASURED, DASHES[0]))
        assert next(look for name, look in found.items() if name != "measured") == (COLOURS[0], DASHES[0])
        assert spec["data"]["values"][-1]["series"] == "measured"
    without = occupancy_curve(curve(["volkov"]), measured="measured").to_dict()  # nothing is measured
    assert list(looks(without["layer"][0])) == ["volkov"]


def test_what_is_not_finite_is_a_gap():
    rows = [{"n": i, "ipc": y, "by": "a"} for i, y in enumerate([1.0, np.nan, np.inf, np.float32(0.5)])]
    spec = occupancy_curve(rows, x="n", y="ipc", series="by").to_dict()
    assert [p["y"] for p in spec["data"]["values"]] == [1.0, None, None, 0.5]
    assert occupancy_curve([]).to_dict()["data"]["values"] == []


def test_a_picture(tmp_path):
    path = tmp_path / "a.png"
    save_chart(occupancy_curve(curve(["a", "b"])), path)
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])
    assert 2 * WIDTH < width < 2 * 1000
    assert 700 < height < 1100


PAIRS = {"fermi": [(2, 32), (1, 32), (2, 64), (4, 128), (4, 32), (4, 64)], "pascal": [(8, 256), (8, 32)]}


def stairs(models=("pipeline", "measured")):
    return [
        {"gpu": gpu, "model": model, "warps": np.int32(w), "group_size": g, "throughput": w + g / 1000}
        for gpu, pairs in PAIRS.items()
        for w, g in pairs
        for model in models
    ]


def test_steps_rise_by_occupancy_then_group_size():
    spec = steps(stairs(), title="Barriers", measured="measured").to_dict()
    assert [panel["title"] for panel in spec["vconcat"]] == list(PAIRS)
    for panel, pairs in zip(spec["vconcat"], PAIRS.values(), strict=True):
        lines = panel["layer"][1]
        line = lines["layer"][0]
        assert next(iter(looks(line))) == "measured"
        for model in ("pipeline", "measured"):
            drawn = sorted(
                (p["x"], p["occupancy"], p["group"], p["y"])
                for p in lines["data"]["values"]
                if p["series"] == model
            )
            assert drawn == [(i, w, g, w + g / 1000) for i, (w, g) in enumerate(sorted(pairs))]
        assert line["encoding"]["x"]["scale"]["domain"] == [-0.5, len(pairs) - 0.5]


def test_bands_cover_every_other_occupancy():
    shades, _, labels = steps(stairs()).to_dict()["vconcat"][0]["layer"]
    assert [(b["from"], b["to"]) for b in shades["data"]["values"]] == [(-0.5, 0.5), (2.5, 5.5)]
    assert [(b["label"], b["middle"]) for b in labels["data"]["values"]] == [("1", 0), ("2", 1.5), ("4", 4)]


@pytest.mark.parametrize("most", [16, 64])
def test_labels_of_bands_keep_clear_of_one_another(most):
    rows = [
        {"gpu": "x", "model": "m", "warps": w, "group_size": 32 * g, "throughput": 1.0}
        for g in range(1, 33)
        for w in range(g, most + 1, g)
    ]
    labels = steps(rows).to_dict()["vconcat"][0]["layer"][2]["data"]["values"]
    pairs = len({(row["warps"], row["group_size"]) for row in rows})
    at = np.array([b["middle"] for b in labels]) * WIDTH / pairs
    assert np.diff(at).min() > 20  # pixels
    assert len(at) > 12
