"""Occupancy curves of many models: none flattened, none hidden, no colour twice."""

import numpy as np
import pytest

from dse.report import measured
from dse.report.curves import COLUMNS, FEW, LABEL, OWN, apart, occupancy_curves


def curve(models, warps=range(1, 9)):
    return [
        {"model": model, "warps": np.int64(w), "throughput": np.float64(height * w / (w + 3))}
        for model, height in models.items()
        for w in warps
    ]


def test_lines_that_coincide_are_one_that_has_all_names():
    spec = occupancy_curves(curve({"a": 1, "b": 1.005, "c": 1.02})).to_dict()
    assert spec["layer"][0]["encoding"]["color"]["scale"]["domain"] == ["a, b", "c"]
    assert "within 1%" in " ".join(spec["title"]["subtitle"])
    assert {point["line"] for point in spec["data"]["values"]} == {"a, b", "c"}
    rows = [{"model": "a", "warps": i, "throughput": y} for i, y in enumerate([1, np.nan, np.inf, 0, 0.5])]
    spec = occupancy_curves(rows).to_dict()
    assert [point["throughput"] for point in spec["data"]["values"]] == [1.0, 0.5]
    assert occupancy_curves([]).to_dict()["data"]["values"] == []


@pytest.mark.slow
def test_many_lines_get_a_panel_each_on_one_scale():
    models = {f"m{i}": 1.2**i for i in range(FEW)} | {"far": 1000.0}
    spec = occupancy_curves(curve(models)).to_dict()
    assert spec["columns"] == COLUMNS
    assert [panel["title"]["text"] for panel in spec["concat"]] == [[name] for name in models]
    domains = {tuple(x["encoding"]["y"]["scale"]["domain"]) for p in spec["concat"] for x in p["layer"]}
    assert len(domains) == 1
    for panel, (name, height) in zip(spec["concat"], models.items(), strict=True):
        behind, own, _, label = panel["layer"]
        assert own["mark"]["color"] == OWN != behind["mark"]["color"]
        assert {point["line"] for point in own["data"]["values"]} == {name}
        [end] = label["data"]["values"]
        assert float(end["label"]) == pytest.approx(height * 8 / 11, rel=1e-3)
        assert label["mark"]["dy"] == (11 if name == "far" else -9)  # inside the panel


def test_labels_keep_clear_of_one_another_and_move_as_little_as_need_be():
    assert apart([10, 200, 100], LABEL) == [10, 200, 100]
    placed = apart([100, 101, 102, 300], LABEL)
    assert placed == [101 - LABEL, 101, 101 + LABEL, 300]
    many = apart(np.random.default_rng(0).uniform(0, 60, 12).tolist(), LABEL)
    assert np.diff(sorted(many)).min() >= LABEL - 1e-9


def test_many_measured_series_all_look_different():
    names = [f"m{i}" for i in range(60)]
    rows = [{"chart": "gpu", "series": name, "x": x, "y": x} for name in names for x in (1, 2)]
    [panel] = measured.curves(rows, {"gpu": ("warps", "throughput")}).to_dict()["vconcat"]
    scales = [panel["encoding"][channel]["scale"] for channel in ("color", "strokeDash")]
    assert [scale["domain"] for scale in scales] == [names, names]
    assert len(set(zip(scales[0]["range"], map(tuple, scales[1]["range"]), strict=True))) == 60
