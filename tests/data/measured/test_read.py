"""Reading measured times, under the names that the file has."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from dse import kernels
from dse.core.space.space import Space
from dse.data.measured.read import load, load_space
from dse.errors import DseError, InputWarning
from dse.kernels.description import Alias, Description

KERNEL = Description(
    name="stencil",
    summary="made up",
    path=Path("kernel.toml"),
    source=None,
    variant_of="stencil",
    space=Space({"bx": [16, 32], "by": [1, 2], "staged": [0, 1], "share": [0.5, 1]}),
    problem=(("width", 1024), ("radius", 3)),
    spaces=(
        Alias("plain", set=(("share", 0.5),)),
        Alias(
            "tuner",
            (("BX", "bx"), ("BY", "by"), ("W", "width")),
            (("staged", 1), ("share", 1), ("radius", 7)),
        ),
        Alias("other", (("BX", "by"), ("BY", "bx")), (("staged", 0), ("share", 1))),
    ),
)
CSV = """bx,by,staged,share,time_ms,status,min_ms
16,1,0,0.5,2.5,ok,2.25
32,1,0,1,,runtime,9
16,2,1,0.5,1.5,OK,1.25
"""
TUNER = "BX,BY,W,time_us\n16,1,2048,10\n32,2,2048,\n"


def write(path, text):
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("name", ["a.csv.gz", "A.CSV"])
def test_own_names(tmp_path, name):
    path = write(tmp_path / name, CSV)
    measured = load(path, KERNEL)
    assert (measured.space, measured.path) == ("stencil", path)
    expected = {"bx": [16, 32, 16], "by": [1, 1, 2], "staged": [0, 0, 1], "share": [0.5, 1.0, 0.5]}
    assert {name: values.tolist() for name, values in measured.parameters.items()} == expected
    assert list(measured.parameters) == list(KERNEL.space.names)
    assert measured.parameters["bx"].dtype == np.int64
    assert measured.parameters["share"].dtype == np.float64
    assert measured.problem == {}
    np.testing.assert_allclose(measured.time_s, [2.5e-3, np.nan, 1.5e-3])
    assert measured.min_s is not None
    np.testing.assert_allclose(measured.min_s, [2.25e-3, np.nan, 1.25e-3])
    np.testing.assert_array_equal(measured.fastest_s, measured.min_s)
    assert measured.ok.tolist() == [True, False, True]
    assert measured.status.tolist() == ["ok", "runtime", "OK"]
    assert measured.occupancy is None


def test_parquet(tmp_path):
    folder = tmp_path / "staged=1"  # no column of a partition
    folder.mkdir()
    columns = {
        "bx": pa.array([16, 32], pa.int32()),
        "by": pa.array([1.0, 2.0]),
        "staged": pa.array([False, True]),
        "share": pa.array([0.5, 1.0], pa.float32()),
        "time_s": pa.array([1.0, None]),
        "occupancy": pa.array([0.25, 0.5]),
    }
    pyarrow.parquet.write_table(pa.table(columns), folder / "a.parquet")
    measured = load(folder / "a.parquet", KERNEL)
    assert {name: values.tolist() for name, values in measured.parameters.items()} == {
        "bx": [16, 32],
        "by": [1, 2],
        "staged": [0, 1],
        "share": [0.5, 1.0],
    }
    assert measured.parameters["by"].dtype == measured.parameters["staged"].dtype == np.int64
    np.testing.assert_array_equal(measured.time_s, [1.0, np.nan])
    assert measured.ok.tolist() == [True, False]
    assert measured.status.tolist() == ["ok", "failed"]
    assert measured.min_s is None
    np.testing.assert_array_equal(measured.fastest_s, measured.time_s)
    assert measured.occupancy is not None
    assert measured.occupancy.tolist() == [0.25, 0.5]


def test_renames_and_sets(tmp_path):
    measured = load(write(tmp_path / "a.csv", TUNER), KERNEL)
    assert measured.space == "tuner"
    assert {name: values.tolist() for name, values in measured.parameters.items()} == {
        "bx": [16, 32],
        "by": [1, 2],
        "staged": [1, 1],
        "share": [1, 1],
    }
    assert measured.problem == {"width": 2048, "radius": 7}
    np.testing.assert_allclose(measured.time_s, [1e-5, np.nan])


def test_which_space(tmp_path):
    # BX and BY without W: only `other` has all its columns
    text = "BX,BY,time_us\n16,1,10\n"
    measured = load(write(tmp_path / "a.csv", text), KERNEL)
    assert measured.space == "other"
    assert measured.parameters["by"].tolist() == [16]
    # with W both have; the one that takes most from the file, or that the folder is named after
    assert load(write(tmp_path / "b.csv", TUNER), KERNEL).space == "tuner"
    for name in ("tuner", "other"):
        (tmp_path / name).mkdir()
        assert load(write(tmp_path / name / "a.csv", TUNER), KERNEL).space == name
    # the kernel's own names take `share` from the file, `plain` does not
    assert load(write(tmp_path / "c.csv", CSV), KERNEL).space == "stencil"
    (tmp_path / "plain").mkdir()
    measured = load(write(tmp_path / "plain" / "a.csv", CSV), KERNEL)
    assert measured.space == "plain"
    assert measured.parameters["share"].tolist() == [0.5, 0.5, 0.5]


def test_problem_sizes_of_the_file(tmp_path):
    text = "bx,by,staged,share,radius,time_ms\n16,1,0,1,5,1\n16,1,0,1,5,1\n"
    assert load(write(tmp_path / "a.csv", text), KERNEL).problem == {"radius": 5}
    text = "bx,by,staged,share,radius,time_ms\n16,1,0,1,5,1\n16,1,0,1,6,1\n"
    with pytest.raises(
        DseError, match=r"a\.csv: radius, row 2: found 6, expected the problem size 5 of row 1"
    ):
        load(write(tmp_path / "a.csv", text), KERNEL)


@pytest.mark.parametrize(("unit", "second"), [("s", 1), ("ms", 1e3), ("us", 1e6), ("ns", 1e9)])
def test_units(tmp_path, unit, second):
    text = f"bx,by,staged,share,time_{unit},min_{unit}\n16,1,0,1,{second},{second / 2}\n"
    measured = load(write(tmp_path / "a.csv", text), KERNEL)
    assert measured.min_s is not None
    np.testing.assert_allclose([*measured.time_s, *measured.min_s], [1, 0.5])
    fastest = load(write(tmp_path / "b.csv", f"bx,by,staged,share,min_{unit}\n16,1,0,1,{second}\n"), KERNEL)
    assert (fastest.time_s.tolist(), fastest.min_s) == ([1.0], None)


@pytest.mark.parametrize("stated", [True, False])
def test_a_time_of_years_is_how_tuners_write_that_it_failed(tmp_path, stated):
    head, ok = (
        ("bx,by,staged,share,time_ms,status\n", ",ok") if stated else ("bx,by,staged,share,time_ms\n", "")
    )
    path = write(tmp_path / "a.csv", f"{head}16,1,0,1,1e20{ok}\n16,1,1,1,2{ok}\n")
    with pytest.warns(InputWarning, match="time_ms: found 1 of 2 rows with a time of over 30 years"):
        measured = load(path, KERNEL)
    assert measured.ok.tolist() == [False, True]
    assert measured.status.tolist() == ["failed", "ok"]


HEAD = "bx,by,staged,share,time_ms,status\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot read: Empty CSV"),
        (HEAD, "rows: found none"),
        (HEAD + "16,1,0,1,1,ok\n16,1,0\n", "cannot read: CSV parse error"),
        (HEAD + "16,1,0,1,1,ok\n16,x7,0,1,1,ok\n", r"by, row 2: found 'x7', expected a number"),
        (HEAD + "16,1,0,1,1,ok\n16,,0,1,1,ok\n", "by, row 2: found an empty cell, expected a number"),
        (HEAD + "16,1,0,1,soon,ok\n", r"time_ms, row 1: found 'soon', expected a number"),
        (HEAD + "16,1,0,1,2,ok\n16,1,0,1,,ok\n", "time_ms, row 2: found no time, expected one above 0"),
        (HEAD + "16,1,0,1,2,ok\n16,1,0,1,-1,ok\n", "time_ms, row 2: found a time of 0 or less"),
        (HEAD + "16,1,0,1,2,success\n", "status: found 'success' and no 'ok'"),
        ("bx,by,staged,share\n16,1,0,1\n", "columns: found no time, expected one of time_ms, "),
        (
            "bx,by,time_ms\n16,1,1\n",
            "columns: found no staged, expected the parameters of stencil as in plain",
        ),
        ("bx,staged,share,time_ms\n16,1,1,1\n", "columns: found no by, expected the parameters of stencil"),
        ("bx,by,staged,share,bx,time_ms\n16,1,0,1,16,1\n", "columns: found bx twice"),
    ],
)
def test_a_mistake_gets_one_line(tmp_path, text, message):
    path = write(tmp_path / "a.csv", text)
    with pytest.raises(DseError, match=f"^{path}: {message}") as error:
        load(path, KERNEL)
    assert "\n" not in str(error.value)


SEMICOLONS = CSV.replace(",", ";").replace(".", ",")


@pytest.mark.parametrize(
    "text", [CSV, SEMICOLONS, CSV.replace(",", ";"), CSV.replace(",", "\t"), "\ufeff" + CSV]
)
def test_separators_and_decimal_signs(tmp_path, text):
    measured = load(write(tmp_path / "a.csv", text), KERNEL)
    np.testing.assert_allclose(measured.time_s, [2.5e-3, np.nan, 1.5e-3])
    assert measured.parameters["share"].tolist() == [0.5, 1.0, 0.5]


@pytest.mark.parametrize("time", ["1.500", "1.234,5"])
def test_points_beside_decimal_commas(tmp_path, time):
    text = SEMICOLONS.replace(";2,5;", f";{time};")
    with pytest.raises(
        DseError, match=rf"time_ms, row 1: found '{time}', expected a number with a decimal comma"
    ):
        load(write(tmp_path / "a.csv", text), KERNEL)


def test_other_numbers_are_counters_and_occupancy_is_in_percent(tmp_path):
    occupancy = "sm__warps_active.avg.pct_of_peak_sustained_active"
    rows = "16,1,0,1,3,ok,7,x,50\n32,1,0,1,3,ok,,y,\n16,2,0,1,0,compile,,,\n"  # a failure may carry any time
    text = f"bx,by,staged,share,time_ms,status,sectors,note,{occupancy}\n{rows}"
    measured = load(write(tmp_path / "a.csv", text), KERNEL)
    np.testing.assert_array_equal(measured.time_s, [3e-3, 3e-3, np.nan])
    np.testing.assert_array_equal(measured.counters["sectors"], [7, np.nan, np.nan])
    np.testing.assert_array_equal(measured.occupancy, [0.5, np.nan, np.nan])
    assert "note" not in measured.counters


def test_a_space_of_which_only_the_names_are_known(tmp_path):
    text = "bx,layout,share,time_us,status\n16,row,0.5,3,ok\n32,column,1,,runtime\n"
    path = write(tmp_path / "wide.csv.gz", text)
    measured = load_space(path, ["share", "layout", "bx"])
    assert (measured.space, measured.problem) == ("wide", {})
    assert {name: values.tolist() for name, values in measured.parameters.items()} == {
        "share": [0.5, 1.0],
        "layout": ["row", "column"],
        "bx": [16, 32],
    }
    assert measured.parameters["bx"].dtype == np.int64
    np.testing.assert_array_equal(measured.time_s, [3e-6, np.nan])
    assert measured.status.tolist() == ["ok", "runtime"]
    with pytest.raises(DseError, match=r"wide\.csv\.gz: columns: found no by, expected bx, by"):
        load_space(path, ["bx", "by"])
    with pytest.raises(DseError, match=r"a\.csv: bx, row 2: found an empty cell, expected a value"):
        load_space(write(tmp_path / "a.csv", "bx,time_ms\n1,2\n,2\n"), ["bx"])


def test_the_example_of_the_page(tmp_path):
    page = (Path(__file__).parents[3] / "docs" / "measured.md").read_text()
    text = page.partition("```json\n")[2].partition("\n```")[0]
    measured = load(write(tmp_path / "a.json", text), kernels.load("convolution"))
    assert measured.status.tolist() == ["ok", "compile"]
    np.testing.assert_allclose(measured.fastest_s, [1.45e-3, np.nan])
