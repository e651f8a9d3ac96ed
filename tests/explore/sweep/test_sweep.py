"""A lazy sweep against every row evaluated and sorted in Python."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dse.errors import DseError
from dse.explore.sweep import dense, plan
from dse.explore.sweep.sweep import Sweep

GROUP = ("kernel", "gpu", "model")
COLUMNS = {"kernel": "kernel", "gpu": "gpu", "model": "model", "size": "n"}


def by_groups(rows, per):
    """Rows that can run, by the columns that `per` and the model stand for."""
    actual = {}
    for row in rows:
        if row["possible"]:
            actual.setdefault(tuple(row.get(COLUMNS[name]) for name in per), []).append(row)
    return actual


def shown(rows, names):
    return [{name: row.get(name) for name in names} for row in rows]


@pytest.fixture
def way(request, monkeypatch):
    """Configurations one by one, in units of few; or along axes, in small parts."""
    if request.param != "one by one":
        monkeypatch.setattr(plan, "DENSE", 0)
        monkeypatch.setattr(plan, "FEW", 0 if request.param == "dense and alike" else 1 << 20)
        monkeypatch.setattr(dense, "WIDTH", 40)
    else:
        monkeypatch.setattr(plan, "CONFIGURATIONS", 5)
    return request.param


@pytest.mark.quick("per0")
@pytest.mark.parametrize(
    ("way", "per"),
    [
        ("one by one", ("gpu", "size", "kernel", "model")),
        ("dense", ("gpu", "size", "kernel", "model")),
        ("dense and alike", ("size", "model")),
    ],
    indirect=["way"],
)
def test_the_fastest_of_each_group(product, expected, way, per):
    actual = by_groups(Sweep(product).top(7, per), per)
    wanted = by_groups(expected, per)
    assert actual.keys() == wanted.keys()
    for group, rows in wanted.items():
        best = sorted(rows, key=lambda row: row["time_s"])[:7]  # stable: of equals the first
        names = [name for name in best[0] if name not in ("time_s",)]
        assert shown(actual[group], names) == shown(best, names)
        np.testing.assert_allclose(
            [row["time_s"] for row in actual[group]], [row["time_s"] for row in best], rtol=1e-6
        )
        assert [row["rank"] for row in actual[group]] == list(range(1, len(best) + 1))


def test_counts(product, expected):
    seen = 0
    for row in Sweep(product).counts(["kernel", "gpu", "size"]):
        mine = [
            item
            for item in expected
            if (item["kernel"], item["gpu"], item["model"]) == (row["kernel"], row["gpu"], "volkov")
            and item.get("n") == row.get("n")
        ]
        alike = [item for item in mine if item["limited_by"] == row["limited_by"]]
        assert (row["valid"], row["count"]) == (len(mine), len(alike))
        assert all(item["possible"] == row["possible"] for item in alike)
        seen += len(alike)
    assert seen == sum(item["model"] == "volkov" for item in expected)


def test_fronts_and_histograms(product, expected):
    actual = by_groups(Sweep(product).pareto("time_s", "registers", per=["kernel", "gpu"]), GROUP)
    for group, rows in by_groups(expected, GROUP).items():
        points = {(row["time_s"], row["registers"]) for row in rows}
        front = {p for p in points if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)}
        assert [(row["time_s"], row["registers"]) for row in actual[group]] == sorted(front)
        first = next(row for row in rows if (row["time_s"], row["registers"]) == min(front))
        assert actual[group][0]["threads"] == first["threads"]  # of equals the one that comes first
    rows = Sweep(product).histogram(["gpu"])
    for group, mine in by_groups(expected, ("gpu", "model")).items():
        bins = [row for row in rows if (row["gpu"], row["model"]) == group]
        assert sum(row["count"] for row in bins) == len(mine)
        for row in bins:
            assert row["count"] == sum(row["from_s"] <= item["time_s"] < row["to_s"] for item in mine)


def test_rows_open_everywhere(product, expected, tmp_path, run_python):
    out = tmp_path / "rows.parquet"
    sweep = Sweep(product).filtered("possible and n > 65536 and threads < 512")
    wanted = [row for row in expected if row["possible"] and row.get("n", 0) > 65536 and row["threads"] < 512]
    names = ["gpu", "model", "n", "block", "time_s"]
    assert sweep.to_parquet(out, names) == len(wanted)
    assert pl.read_parquet(out).to_dicts() == shown(wanted, names)
    query = f"select count(*), min(time_s) from '{out}'"  # DuckDB tells of leaks at the end of a process
    ran = run_python(f"import duckdb; print(duckdb.sql({query!r}).fetchall()[0])")
    assert ran.out.strip() == str((len(wanted), min(row["time_s"] for row in wanted)))
    for frame in (pd.read_parquet(out), sweep.to_pandas()):
        assert frame["time_s"].tolist() == pytest.approx([row["time_s"] for row in wanted])


def test_what_a_filter_leaves_out_is_in_no_result(product):
    whole, few = Sweep(product), Sweep(product).filtered("block == 64")
    assert {row["block"] for row in few.top(50)} == {64}
    with pytest.raises(DseError, match="top: found 0, expected 1 or more"):
        few.top(0)
    assert {row["threads"] for row in few.pareto("time_s", "threads")} == {64}
    for counted in (Sweep.counts, Sweep.histogram):
        assert 0 < sum(row["count"] for row in counted(few)) < sum(row["count"] for row in counted(whole))


def test_along_axes(product, expected):
    from dse.explore.sweep.product import SweepProduct

    single = SweepProduct(product.kernels[:1], product.sizes[:1], product.gpus, product.models)
    actual = Sweep(single).to_xarray()
    assert dict(actual.sizes) == {"gpu": 2, "model": 2, "n": 3, "block": 7, "items": 4}
    row = next(row for row in expected if row["possible"] and row["kernel"] == "toy")
    at = {name: row[name] for name in actual.sizes}
    assert float(actual["time_s"].sel(at)) == row["time_s"]
    assert actual.attrs["kernel"] == "toy"
    with pytest.raises(DseError, match="found 2 kernels"):
        Sweep(product).to_xarray()
