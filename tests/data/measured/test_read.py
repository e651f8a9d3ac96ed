"""Reading measured times, under the names that the file has."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from dse import kernels
from dse.core.space.space import Space
from dse.data.measured import formats
from dse.data.measured.formats import File
from dse.data.measured.listed import is_table, with_configurations
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
NAMES = "bx,by,staged,share,time_ms"
HEAD = f"{NAMES},status\n"


@pytest.fixture
def read(tmp_path):
    """`read(text, "a.csv.gz")`: what a file with this text tells of the kernel."""

    def read(text, name="a.csv"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
        return load(path, KERNEL)

    return read


def lists(measured):
    return {name: values.tolist() for name, values in measured.parameters.items()}


@pytest.mark.parametrize("name", ["a.csv.gz", "A.CSV"])
def test_own_names(read, name):
    measured = read(CSV, name)
    assert (measured.space, measured.path.name, measured.problem) == ("stencil", name, {})
    assert lists(measured) == {
        "bx": [16, 32, 16], "by": [1, 1, 2], "staged": [0, 0, 1], "share": [0.5, 1.0, 0.5]
    }  # fmt: skip
    assert (measured.parameters["bx"].dtype, measured.parameters["share"].dtype) == (np.int64, np.float64)
    np.testing.assert_allclose(measured.time_s, [2.5e-3, np.nan, 1.5e-3])
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
    assert lists(measured) == {"bx": [16, 32], "by": [1, 2], "staged": [0, 1], "share": [0.5, 1.0]}
    assert measured.parameters["by"].dtype == measured.parameters["staged"].dtype == np.int64
    np.testing.assert_array_equal(measured.fastest_s, [1.0, np.nan])
    assert (measured.status.tolist(), measured.min_s) == (["ok", "failed"], None)
    np.testing.assert_array_equal(measured.occupancy, [0.25, 0.5])


def test_renames_and_sets(read):
    measured = read(TUNER)
    assert (measured.space, measured.problem) == ("tuner", {"width": 2048, "radius": 7})
    assert lists(measured) == {"bx": [16, 32], "by": [1, 2], "staged": [1, 1], "share": [1, 1]}
    np.testing.assert_allclose(measured.time_s, [1e-5, np.nan])
    text = f"{NAMES},radius\n16,1,0,1,1,5\n16,1,0,1,1,"
    assert read(f"{text}5\n").problem == {"radius": 5}
    with pytest.raises(DseError, match="radius, row 2: found 6, expected the problem size 5 of row 1"):
        read(f"{text}6\n")


@pytest.mark.parametrize(
    ("text", "name", "space"),
    [
        ("BX,BY,time_us\n16,1,10\n", "a.csv", "other"),  # without W only `other` has all its columns
        (TUNER, "a.csv", "tuner"),  # with W both have: the one that takes most from the file
        (TUNER, "other/a.csv", "other"),  # or that the folder is named after
        (CSV, "a.csv", "stencil"),  # the kernel's own names take `share` from the file, `plain` does not
        (CSV, "plain/a.csv", "plain"),
    ],
)
def test_which_space(read, text, name, space):
    measured = read(text, name)
    assert measured.space == space
    if space == "plain":
        assert measured.parameters["share"].tolist() == [0.5, 0.5, 0.5]


@pytest.mark.parametrize(("unit", "second"), [("s", 1), ("ms", 1e3), ("us", 1e6), ("ns", 1e9)])
def test_units(read, unit, second):
    measured = read(f"bx,by,staged,share,time_{unit},min_{unit}\n16,1,0,1,{second},{second / 2}\n")
    np.testing.assert_allclose([measured.time_s, measured.min_s], [[1], [0.5]])
    fastest = read(f"bx,by,staged,share,min_{unit}\n16,1,0,1,{second}\n")
    assert (fastest.time_s.tolist(), fastest.min_s) == ([1.0], None)


@pytest.mark.parametrize(("head", "ok"), [(HEAD, ",ok"), (f"{NAMES}\n", "")])
def test_a_time_of_years_is_how_tuners_write_that_it_failed(read, head, ok):
    with pytest.warns(InputWarning, match="time_ms: found 1 of 2 rows with a time of over 30 years"):
        measured = read(f"{head}16,1,0,1,1e20{ok}\n16,1,1,1,2{ok}\n")
    assert measured.status.tolist() == ["failed", "ok"]


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
        ("bx,by,time_ms\n16,1,1\n", "columns: found no staged, expected the parameters of stencil as"),
        ("bx,staged,share,time_ms\n16,1,1,1\n", "columns: found no by, expected the parameters of stencil"),
        ("bx,by,staged,share,bx,time_ms\n16,1,0,1,16,1\n", "columns: found bx twice"),
    ],
)
def test_a_mistake_gets_one_line(read, text, message):
    with pytest.raises(DseError, match=rf"a\.csv: {message}"):
        read(text)


SEMICOLONS = CSV.replace(",", ";").replace(".", ",")


@pytest.mark.parametrize("text", [CSV, SEMICOLONS, *(CSV.replace(",", x) for x in ";\t"), "\ufeff" + CSV])
def test_separators_and_decimal_signs(read, text):
    measured = read(text)
    np.testing.assert_allclose(measured.time_s, [2.5e-3, np.nan, 1.5e-3])
    assert measured.parameters["share"].tolist() == [0.5, 1.0, 0.5]


@pytest.mark.parametrize("time", ["1.500", "1.234,5"])
def test_points_beside_decimal_commas(read, time):
    message = f"time_ms, row 1: found '{time}', expected a number with a decimal comma"
    with pytest.raises(DseError, match=message):
        read(SEMICOLONS.replace(";2,5;", f";{time};"))


def test_other_numbers_are_counters_and_occupancy_is_in_percent(read):
    occupancy = "sm__warps_active.avg.pct_of_peak_sustained_active"
    rows = "16,1,0,1,3,ok,7,x,50\n32,1,0,1,3,ok,,y,\n16,2,0,1,0,compile,,,\n"  # a failure may carry any time
    measured = read(f"{NAMES},status,sectors,note,{occupancy}\n{rows}")
    np.testing.assert_array_equal(measured.time_s, [3e-3, 3e-3, np.nan])
    np.testing.assert_array_equal(measured.counters["sectors"], [7, np.nan, np.nan])
    np.testing.assert_array_equal(measured.occupancy, [0.5, np.nan, np.nan])
    assert "note" not in measured.counters


def test_a_space_of_which_only_the_names_are_known(tmp_path):
    text = "bx,layout,share,time_us,status\n16,row,0.5,3,ok\n32,column,1,,runtime\n"
    path = tmp_path / "wide.csv"
    path.write_text(text)
    measured = load_space(path, ["share", "layout", "bx"])
    assert (measured.space, measured.problem) == ("wide", {})
    assert lists(measured) == {"share": [0.5, 1.0], "layout": ["row", "column"], "bx": [16, 32]}
    np.testing.assert_array_equal(measured.time_s, [3e-6, np.nan])
    assert measured.status.tolist() == ["ok", "runtime"]
    with pytest.raises(DseError, match=r"wide\.csv: columns: found no by, expected bx, by"):
        load_space(path, ["bx", "by"])
    path.write_text("bx,time_ms\n1,2\n,2\n")
    with pytest.raises(DseError, match=r"wide\.csv: bx, row 2: found an empty cell, expected a value"):
        load_space(path, ["bx"])


def test_the_example_of_the_page(tmp_path):
    page = (Path(__file__).parents[3] / "docs" / "measured.md").read_text()
    text = page.partition("```json\n")[2].partition("\n```")[0]
    (tmp_path / "a.json").write_text(text)
    measured = load(tmp_path / "a.json", kernels.load("convolution"))
    assert measured.status.tolist() == ["ok", "compile"]
    np.testing.assert_allclose(measured.fastest_s, [1.45e-3, np.nan])


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_is_read_no_further_than_it_may_be(tmp_path, packed):
    path = tmp_path / "a.csv"
    content = b"0" * 1_000
    path.write_bytes(gzip.compress(content) if packed else content)
    assert File.of(path, 1_000).content == content
    path.write_bytes(gzip.compress(content + b"0") if packed else content + b"0")
    with pytest.raises(DseError, match=r"a\.csv: found more than 1,000 bytes, expected a smaller file"):
        File.of(path, 1_000)


def test_neither_suffix_nor_packing_matters(tmp_path):
    (tmp_path / "times.log").write_bytes(gzip.compress(b"x,time_ms\n1,2\n1,3\n"))
    table = formats.read(tmp_path / "times.log")
    assert (table.numbers("x").tolist(), table.numbers("time_ms").tolist()) == ([1, 1], [2, 3])
    names = [form.name for form in formats.FORMATS]
    assert len(names) == len(set(names))
    with pytest.raises(DseError, match=r"^/dev/zero: found more than"):
        File.of(Path("/dev/zero"), 1 << 20)


def configurations(description):
    actual = description.space.configurations(dict(description.problem))
    return set(zip(*(column.tolist() for column in actual.values()), strict=True))


def test_only_what_is_listed_is_left(toy_kernel, tmp_path):
    """A parameter that is not listed keeps its values."""
    description, path = kernels.load(toy_kernel), tmp_path / "few.csv"
    path.write_text("items,block\n1,64\n2,128\n2,64\n")
    assert configurations(with_configurations(description, path)) == {(64, 1), (128, 2), (64, 2)}
    path = tmp_path / "few.json"
    path.write_text('[{"block": 64}, {"block": 128}]')
    assert is_table(path)
    some = configurations(with_configurations(description, path))
    assert some == {row for row in configurations(description) if row[0] in (64, 128)}
    path.write_text('{"ConfigurationSpace": {}}')  # a T1 problem
    assert not is_table(path)
    description, path = kernels.load(toy_kernel), tmp_path / "found.csv"
    path.write_text("kernel,block,items\ntoy,64,1\nother,128,1\n")
    assert configurations(with_configurations(description, path)) == {(64, 1)}
    path.write_text("kernel,block,items\nother,128,1\n")
    with pytest.raises(DseError, match=r"found\.csv: kernel: found other, expected toy"):
        with_configurations(description, path)
    description, path = kernels.load(toy_kernel), tmp_path / "few.csv"
    path.write_text("blok,item\n1,64\n")
    with pytest.raises(DseError, match=r"few\.csv: columns: found none of block, items, expected them"):
        with_configurations(description, path)
    path.write_text("block,items\n64,\n")
    with pytest.raises(DseError, match=r"items, row 1: found an empty cell"):
        with_configurations(description, path)
