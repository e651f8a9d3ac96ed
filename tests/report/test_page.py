"""The page, in a real browser: what it drew, what a drag chooses, how large it is."""

import base64
import json
import re
import zlib

import numpy as np
import pytest

from dse.data.results.space import Results, ResultSpace, codes
from dse.evaluate.importance import importance
from dse.report.page import MOST, Roofline, divided, page
from dse.report.page.pack import KEPT_BITS, packed

BOTTLENECKS = ["dram", "fp32", "latency"]
DRAWN = (
    *("spread", "occupancy", "roofline", "pareto", "heat", "importance"),
    *("measured", "progress", "agreement", "two"),
)
NAMED = 'conv</script><b title="x">'  # nothing of a name may end a script or become an element
ROOFS = {"instructions_per_s": 19e12, "fp32_per_s": 9e12, "dram_bytes_per_s": 1.5e12, "l2_bytes_per_s": 5e12}


def space(kernel=NAMED, gpu="GPU A", block=8, tile=6, more=5):
    """A grid of three parameters whose time by `phase` is known: 1e-4 block**0.5 tile more**0.1."""
    blocks, tiles, words = np.meshgrid(2 ** np.arange(block), np.arange(1, tile + 1), np.arange(more))
    columns = {"block": blocks.ravel(), "tile": tiles.ravel()}
    count = len(columns["block"])
    names = np.array([f"w{i}" for i in range(more)], object)[words.ravel()]
    time = 1e-4 * columns["block"] ** 0.5 * columns["tile"] * (1.0 + words.ravel()) ** 0.1
    time[0] = np.nan  # cannot run
    noise = np.random.default_rng(0).normal(0, 0.2, count)
    facts = {
        "threads": columns["block"] * 32,
        "registers": 20 + columns["tile"],
        "shared_bytes": 1024 * columns["tile"],
        "occupancy": np.linspace(0.1, 1, count),
        "measured_s": time * np.exp(noise),
        "number": np.arange(count),
    }
    forecasts = {
        "phase": {
            "time_s": time,
            "low_s": 0.9 * time,
            "high_s": 1.1 * time,
            "bottleneck": np.array(BOTTLENECKS, object)[np.arange(count) % 3],
        },
        "roofline": {"time_s": time[::-1].copy()},
        "measured": {"time_s": facts["measured_s"]},
    }
    return ResultSpace(
        kernel, gpu, "sweep.parquet", columns | {"word": names}, {"size": 4096}, facts, forecasts
    )


def written(spaces, tmp_path, scores=(), most=MOST):
    shares = [
        importance(
            {name: codes(values)[0] for name, values in item.parameters.items()},
            {model: columns["time_s"] for model, columns in item.forecasts.items()},
        )
        for item in spaces
    ]
    rooflines = [
        Roofline(
            ROOFS,
            {"thread_instructions": np.full(item.count, 1e9), "dram_bytes": np.arange(1.0, item.count + 1)},
        )
        for item in spaces
    ]
    path = tmp_path / "report.html"
    path.write_text(page(Results(tuple(spaces), scores), shares, rooflines, "phase", most), encoding="utf-8")
    return path


def data_of(path):
    text = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), re.S)
    assert text
    return json.loads(text[1])


def unpacked(packed_times, count):
    """Columns as the page's script has them."""
    raw, columns, at = zlib.decompress(base64.b64decode(packed_times["blob"])), {}, 0
    for column in packed_times["columns"]:
        kind = np.dtype({"u1": "u1", "u2": "<u2", "i4": "<i4", "f4": "<f4"}[column["type"]])
        planes = np.frombuffer(raw, np.uint8, count * kind.itemsize, at).reshape(kind.itemsize, count)
        at += count * kind.itemsize
        values = np.ascontiguousarray(planes.T).view(kind).ravel()
        known = column.get("values")
        columns[column["name"]] = [known[i] for i in values] if known else values.tolist()
    assert at == len(raw)
    return columns


def test_every_figure_draws_all_that_it_is_given(browser, tmp_path):
    scores = ({"file": "c.csv", "model": "phase", "spearman": 0.8, "top_1": 0.9},)
    actual = browser.elements(written([space(), space(gpu="GPU B")], tmp_path, scores))
    assert actual["body"].get("data-failed") is None
    assert actual["body"]["data-drawn"] == "yes"
    marks = {name: int(actual[name]["data-marks"] or 0) for name in (*DRAWN, "table", "overview", "scores")}
    ran = 8 * 6 * 5 - 1
    both = ran - 1  # by one model the first cannot run, by the other the last
    assert marks.pop("table") >= 10
    assert marks == {
        **dict.fromkeys(("spread", "occupancy", "roofline", "pareto", "measured", "progress"), ran),
        "heat": 8 * 6,
        "importance": 3,
        "agreement": 9,
        "two": both,
        "overview": 2,
        "scores": 1,
    }
    assert not any("hidden" in actual[name] for name in DRAWN)


def test_a_drag_in_one_figure_filters_the_others_and_the_table(browser, tmp_path):
    probe = """
      const box = document.querySelector("#occupancy .plot"), r = box.getBoundingClientRect();
      const at = (type, target, x, y) => target.dispatchEvent(new PointerEvent(type,
        { clientX: r.left + x, clientY: r.top + y, bubbles: true, button: 0 }));
      const half = 62 + (r.width - 62 - 14) * 50 / 104;  // 50 % on an axis from 0 to 104 %
      at("pointerdown", box, half, 1);
      at("pointermove", window, r.width, r.height);
      at("pointerup", window, r.width, r.height);
      await new Promise((go) => setTimeout(go, 60));
      const body = document.body.dataset;
      body.dragged = state.count; body.rows = table.rows.length;
      body.marks = document.getElementById("heat").dataset.marks;
      document.querySelector('#table input[aria-label="Filter block"]').value = "<=4";
      document.querySelector('#table input[aria-label="Filter block"]').dispatchEvent(new Event("input"));
      await new Promise((go) => setTimeout(go, 60));
      body.both = state.count; body.chips = document.querySelectorAll(".chip").length;
      body.said = document.getElementById("chosen").textContent;
      body.hash = location.hash;
    """
    arguments = space()
    body = browser.elements(written([arguments], tmp_path), probe)["body"]
    busy = (arguments.facts["occupancy"] >= 0.5) & np.isfinite(arguments.forecasts["phase"]["time_s"])
    small = busy & (arguments.parameters["block"] <= 4)
    assert int(body["data-dragged"]) == int(body["data-rows"]) == busy.sum()
    assert 0 < int(body["data-both"]) == small.sum() < busy.sum()
    cells = {
        (b, t)
        for b, t in zip(arguments.parameters["block"][busy], arguments.parameters["tile"][busy], strict=True)
    }
    assert int(body["data-marks"]) == len(cells)
    assert body["data-chips"] == "2"
    assert body["data-said"] == f"{small.sum()} of 240 configurations chosen"
    assert "model=phase" in str(body["data-hash"])


def test_the_link_chooses_kernel_gpu_and_model(browser, tmp_path):
    path = written([space(), space("other", "GPU B", block=3)], tmp_path)
    probe = "document.body.dataset.shown = [state.space.gpu, state.model, state.count].join()"
    actual = browser.elements(path, probe, "#kernel=other&gpu=GPU+B&model=roofline")
    assert actual["body"]["data-shown"] == "GPU B,roofline,90"


def test_files_of_one_measured_column_or_of_parameters_only_draw_what_they_can(browser, tmp_path):
    whole = space()
    bare = ResultSpace("bare", "GPU A", "kept.csv", whole.parameters, {}, {}, {})
    actual = browser.elements(written([bare], tmp_path))
    assert actual["body"]["data-drawn"] == "yes"
    assert all("hidden" in actual[name] for name in DRAWN)
    assert int(actual["table"]["data-marks"] or 0) >= 10


def test_columns_come_back():
    arguments = space()
    messages = packed(arguments, {"dram_bytes": np.arange(240) * 1e10})
    columns = unpacked(messages, arguments.count)
    for name in ("block", "tile", "word"):
        assert columns[name] == arguments.parameters[name].tolist()
    for name in ("threads", "occupancy", "number"):
        np.testing.assert_allclose(columns[name], arguments.facts[name], rtol=2.0**-KEPT_BITS)
    time = np.array(columns["time_s|phase"], float)
    np.testing.assert_allclose(time, arguments.forecasts["phase"]["time_s"], rtol=2.0 ** -(KEPT_BITS + 1))
    assert columns["bottleneck|phase"] == arguments.forecasts["phase"]["bottleneck"].tolist()
    units = {column["name"]: column["unit"] for column in messages["columns"]}
    assert (units["time_s|phase"], units["shared_bytes"], units["block"]) == ("s", "B", None)


@pytest.mark.slow
def test_a_hundred_thousand_rows_stay_below_five_megabytes(tmp_path):
    large = space(block=20, tile=50, more=100)
    rng = np.random.default_rng(1)
    times = {
        f"model {i}": {
            "time_s": rng.lognormal(-8, 1, large.count),
            "bottleneck": np.array(BOTTLENECKS, object)[rng.integers(0, 3, large.count)],
        }
        for i in range(6)
    }
    noisy = ResultSpace("k", "g", "s", large.parameters, {}, large.facts, times)
    assert noisy.count == 100_000 == MOST
    path = written([noisy], tmp_path)
    assert path.stat().st_size < 5_000_000


def test_of_more_rows_than_a_page_shows_the_fastest_are_kept_and_it_is_said(tmp_path):
    arguments = space()
    data = data_of(written([arguments], tmp_path, most=100))
    [shown] = data["spaces"]
    assert (shown["count"], shown["shown"]) == (240, 100)
    assert any("100 of 240 configurations are shown" in note for note in data["notes"])
    times = np.array(unpacked(shown, 100)["time_s|phase"], float)
    fastest = np.sort(arguments.forecasts["phase"]["time_s"])[:50]
    np.testing.assert_allclose(np.sort(times)[:50], fastest, rtol=1e-4)
    assert divided([10, 500, 900], 400) == [10, 195, 195]
    assert divided([10, 500, 900], 2000) == [10, 500, 900]
    assert divided([], 5) == []


def test_names_cannot_end_the_script(tmp_path):
    path = written([space()], tmp_path)
    text = path.read_text()
    assert text.count("</script>") == 3  # of the theme, of the data, and of the page
    assert data_of(path)["spaces"][0]["kernel"] == NAMED
    assert "<b title" not in text
    assert not re.search(r"(?:src|href)\s*=|@import|https?://(?!www\.w3\.org)", text)  # no network
