"""Result files of every command, read back."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from dse.data.results.read import read, read_table
from dse.data.results.space import MEASURED, NO_GPU
from dse.data.tables import write_table
from dse.errors import DseError

MODELS = ("phase", "roofline")


def sweep(order=None):
    """Two kernels, one GPU, two models; the second kernel lacks `tile`, and one launch cannot run."""
    rows = [
        {"kernel": k, "gpu": "A", "model": m, "block": b, "tile": t, "threads": 32 * b}
        | {"time_s": s * b * (t or 1), "bottleneck": "dram" if b == 1 else None}
        for k, tiles in (("one", (1, 2)), ("two", (None,)))
        for m, s in (("phase", 1e-3), ("roofline", 2e-3))
        for b in (1, 2, 4)
        for t in tiles
    ]
    rows[2]["time_s"] = float("inf")
    rows = rows if order is None else [rows[i] for i in order]
    return {name: [row[name] for row in rows] for name in rows[0]}


def table(path, columns):
    pyarrow.parquet.write_table(pa.table(columns), path)
    return path


def test_a_sweep_becomes_a_space_a_kernel_with_a_forecast_a_model(tmp_path):
    single, two = read([table(tmp_path / "s.parquet", sweep())], MODELS).spaces
    assert (single.kernel, two.kernel, single.gpu, single.source) == ("one", "two", "A", "s.parquet")
    assert {name: values.tolist() for name, values in single.parameters.items()} == {
        "block": [1, 1, 2, 2, 4, 4],
        "tile": [1, 2, 1, 2, 1, 2],
    }
    assert single.parameters["tile"].dtype == np.int64  # the empty cells are another kernel's
    assert list(two.parameters) == ["block"]
    np.testing.assert_allclose(single.forecasts["roofline"]["time_s"], [2e-3, 4e-3, 4e-3, 8e-3, 8e-3, 16e-3])
    assert np.isnan(single.forecasts["phase"]["time_s"]).tolist() == [False, False, True, False, False, False]
    assert single.forecasts["phase"]["bottleneck"].tolist() == ["dram", "dram", None, None, None, None]
    assert single.facts["threads"].tolist() == [32, 32, 64, 64, 128, 128]


def times(spaces):
    """Seconds by kernel, model and parameters, of what can run."""
    return {
        (space.kernel, model, *(values[row] for values in space.parameters.values())): seconds
        for space in spaces
        for model, columns in space.forecasts.items()
        for row, seconds in enumerate(columns["time_s"].tolist())
        if np.isfinite(seconds)
    }


def test_rows_in_any_order_and_models_that_lack_some(tmp_path):
    every = times(read([table(tmp_path / "s.parquet", sweep())], MODELS).spaces)
    order = np.random.default_rng(3).permutation(len(sweep()["block"]))[:-1].tolist()
    some = times(read([table(tmp_path / "t.parquet", sweep(order))], MODELS).spaces)
    assert some.items() < every.items()
    assert len(some) == len(every) - 1
    kept = table(tmp_path / "kept.parquet", {"block": [2, 4], "tile": [1, 1]})
    single, two = read([table(tmp_path / "s.parquet", sweep()), kept], MODELS).spaces
    assert single.facts["kept"].tolist() == ["no", "no", "yes", "no", "yes", "no"]
    assert "kept" not in two.facts


@pytest.mark.parametrize("suffix", [".csv", ".json", ".parquet"])
def test_a_ranking_by_two_models_with_an_interval(tmp_path, suffix):
    path = tmp_path / f"ranking{suffix}"
    facts = {"rank": [1, 2], "shared": [2, 1], "shared_bytes": [0, 64], "limited_by": ["warps", "warps"]}
    forecasts = {"time_s": [1e-3, 2e-3], "bottleneck": ["dram", "l1"], "roofline": [5e-4, 6e-4]}
    refit = {"refitted_s": [1e-3, 3e-3], "low_s": [9e-4, 2e-3], "high_s": [2e-3, 4e-3]}
    write_table(path, facts | forecasts | {"measured_s": [1.1e-3, 2.1e-3]} | refit)
    [space] = read([path], MODELS, kernel="mine", gpu="A").spaces
    assert (space.kernel, space.gpu, list(space.parameters)) == ("mine", "A", ["shared"])
    times = {"refitted": [1e-3, 3e-3], "predicted": [1e-3, 2e-3], "roofline": [5e-4, 6e-4]}
    times[MEASURED] = [1.1e-3, 2.1e-3]
    assert {name: columns["time_s"].tolist() for name, columns in space.forecasts.items()} == times
    assert space.forecasts["refitted"]["low_s"].tolist() == [9e-4, 2e-3]
    assert "low_s" not in space.forecasts["predicted"]
    assert space.facts["shared_bytes"].tolist() == [0, 64]
    assert (space.facts["limited_by"].tolist(), space.fixed) == (["warps", "warps"], {})


def test_a_journal_of_tuning_is_shown_with_the_space_that_it_fits(tmp_path):
    journal = tmp_path / "run.jsonl"
    lines = [{"parameters": {"block": b, "tile": 2}, "seconds": s} for b, s in ((4, 7e-3), (1, None))]
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    results = read([table(tmp_path / "s.parquet", sweep()), journal], MODELS)
    single, two, run = results.spaces
    times = single.forecasts[MEASURED]["time_s"]
    assert times[5] == 7e-3
    assert np.isnan(times[:5]).all()
    assert MEASURED not in two.forecasts  # it has no `tile`
    assert (run.gpu, run.fixed, run.facts["number"].tolist()) == (NO_GPU, {"tile": 2}, [1, 2])
    assert any("run.jsonl were added to the predictions of one" in note for note in results.notes)


def test_two_rankings_of_the_same_configurations_are_one_space(tmp_path):
    paths = []
    for model, order in (("phase", [1, 2, 4]), ("roofline", [4, 1, 2])):
        rows = {"kernel": ["k"] * 3, "gpu": ["A"] * 3, "model": [model] * 3, "block": order}
        paths.append(table(tmp_path / f"{model}.parquet", rows | {"time_s": [b * 1e-3 for b in order]}))
    [space] = read(paths).spaces
    assert times([space]) == {("k", model, b): b * 1e-3 for model in MODELS for b in (1, 2, 4)}
    assert space.source == "phase.parquet, roofline.parquet"


def test_two_runs_of_a_model_are_compared(tmp_path):
    def run(name, block, time_ms):
        rows = {"kernel": ["k"] * len(block), "gpu": ["A"] * len(block), "model": ["phase"] * len(block)}
        times = [t * 1e-3 for t in time_ms]
        return table(tmp_path / f"{name}.parquet", rows | {"block": block, "time_s": times})

    before = run("before", [1, 2, 4, 8], [3.0, 2.0, 4.0, 5.0])
    results = read([before, run("after", [4, 1, 2], [1.0, 3.0, 2.2])])
    [space] = results.spaces
    assert space.forecasts["phase"]["time_s"].tolist() == [3e-3, 2e-3, 4e-3, 5e-3]
    assert space.forecasts["phase (after.parquet)"]["time_s"][:3].tolist() == [3e-3, 2.2e-3, 1e-3]
    assert np.isnan(space.forecasts["phase (after.parquet)"]["time_s"][3])
    assert results.notes == (
        "phase, after.parquet beside before.parquet: 3 configurations are in both (1 in before.parquet "
        "alone); 2 times differ, by -32.5% in the median; the fastest configuration is another, -50.0%.",
    )
    assert "; all times are the same." in read([before, run("again", [1, 2], [3.0, 2.0])]).notes[0]
    apart = read([before, run("other", [8, 16, 32], [1.0, 1.0, 1.0])])
    assert (len(apart.spaces), apart.notes) == (2, ())


def test_scores_of_models(tmp_path):
    path = tmp_path / "scores.json"
    path.write_text('[{"model": "phase", "spearman": 0.8}, {"model": "random choice", "spearman": null}]')
    results = read([path])
    assert results.spaces == ()
    assert [row["model"] for row in results.scores] == ["phase", "random choice"]
    rows = [{"parameters": 3, "at": {"x": 1}, "b": [1], "kernel": None, "bottleneck": 5, "time_s": 1.0}]
    (tmp_path / "r.json").write_text(json.dumps([*rows, {**rows[0], "at": {"x": 2}, "time_s": 2.0}]))
    [space] = read([tmp_path / "r.json"]).spaces
    assert space.kernel == "r"
    assert space.parameters["at"].tolist() == ["{'x': 1}", "{'x': 2}"]
    assert space.forecasts["predicted"]["bottleneck"].tolist() == ["5", "5"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "block,time\n", r"a\.csv: rows: found none"),
        ("a.csv", "block,block\n1,2\n", r"a\.csv: columns: found block twice"),
        ("a.json", "{", r"a\.json: is not JSON"),
        ("a.json", '{"block": 1}', r"a\.json: top level: found block, expected a list"),
        ("a.json", "[1]", r"a\.json: row 1: found '1', expected an object"),
        ("a.parquet", "no", r"a\.parquet: cannot read: "),
        ("a.html", "", r"a\.html: suffix: found '\.html', expected \.parquet"),
        ("a", "", r"a: suffix: found no suffix"),
    ],
)
def test_mistakes(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(DseError, match=message):
        read([tmp_path / name])


def test_a_space_of_several_sizes_is_cut_into_one_for_each(tmp_path):
    rows = {"n": [1024, 1024, 2048, 2048], "block": [1, 2, 1, 2], "time_s": [1.0, 2.0, 3.0, 4.0]}
    [whole] = read([table(tmp_path / "s.parquet", {"kernel": ["k"] * 4} | rows)]).spaces
    small, large = whole.by_size(["m", "n"])
    assert (small.size, large.size) == ("n 1,024", "n 2,048")
    assert (small.fixed, list(small.parameters)) == ({"n": 1024}, ["block"])
    assert large.forecasts["predicted"]["time_s"].tolist() == [3.0, 4.0]
    assert whole.by_size(["m"]) == [whole]
    path = table(tmp_path / "s.parquet", {"block": [1, 2, 3, 4], "time_s": [1.0, 2.0, 3.0, 4.0]})
    with pytest.raises(DseError, match=r"s\.parquet: rows: found 4, expected at most 3$"):
        read_table(path, most_rows=3)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"time_s": ["1", "x"], "threads": [1, 2]}, "time_s: found 'x', expected numbers"),
        ({"time_s": [1.0, 2.0], "threads": ["1", "many"]}, "threads: found 'many', expected numbers"),
    ],
)
def test_words_in_the_place_of_numbers(tmp_path, columns, message):
    with pytest.raises(DseError, match=rf"r\.parquet: {message}"):
        read([table(tmp_path / "r.parquet", columns)])
