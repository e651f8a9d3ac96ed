"""CSV as Nsight Compute prints it: long and wide, in several locales, with and without parameters."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.core.space.expression import parse
from dse.core.space.space import Space
from dse.data.measured.read import load, load_space
from dse.errors import DseError
from dse.kernels.description import Build, Description

TIME = "gpu__time_duration.sum"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
PRINTED = "==PROF== Connected to process 19963\nresult, 12\n==PROF== Disconnected\n"
HEAD = '"ID","Kernel Name","Block Size","Grid Size","Section Name","Metric Name","Metric Unit","Metric Value"'
WIDE = f'"ID","Kernel Name","Block Size","Grid Size","{TIME}","dram__bytes_read.sum","note"\n'


def line(number, metric, unit, value, block="(32, 1, 1)", grid="(64, 1, 1)", name="add(int *)", section="x"):
    cells = (number, name, block, grid, section, metric, unit, value)
    return ",".join(f'"{cell}"' for cell in cells)


def description(build=None, **launch):
    def expressions(values):
        return tuple((name, parse(text, name)) for name, text in values.items())

    return Description(
        name="add",
        summary="",
        path=Path("kernel.toml"),
        source=None,
        variant_of="add",
        space=Space({"bx": [16, 32], "by": [1, 2]}),
        problem=(("n", 2048),),
        let=expressions({"per_block": "bx * by", "odd": "l2_bytes * 2"}),
        launch=expressions(launch),
        build=build,
    )


ADD = description(threads="per_block", blocks="ceil(n / bx)")


def write(tmp_path, *lines):
    path = tmp_path / "a.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_long_with_parameters_beside(tmp_path):
    def lines(number, time, unit, read, read_unit, block_x):
        metrics = [(TIME, unit, time), ("dram__bytes_read.sum", read_unit, read), (OCCUPANCY, "%", "40.50")]
        return [f'{line(number, *metric)},"{block_x}","a"' for metric in metrics]

    path = write(
        tmp_path,
        PRINTED + HEAD + ',"bx","mode"',
        *lines(0, "1,205.00", "us", "1.50", "Mbyte", 16),
        *lines(1, "2.50", "ms", "900.25", "Kbyte", 32),
        line(2, "dram__bytes_read.sum", "byte", "n/a") + ',"64","b"',
        "printed at the end",
    )
    measured = load_space(path, ["bx", "mode"])
    assert measured.parameters["bx"].tolist() == [16, 32, 64]
    assert measured.parameters["mode"].tolist() == ["a", "a", "b"]
    np.testing.assert_allclose(measured.time_s, [1205e-6, 2.5e-3, np.nan])
    np.testing.assert_allclose(measured.counters["dram__bytes_read.sum"], [1.5e6, 900.25e3, np.nan])
    assert measured.occupancy is not None
    np.testing.assert_allclose(measured.occupancy, [0.405, 0.405, np.nan])


def test_wide_found_by_block_and_grid(tmp_path):
    rows = [
        '"","","","","msecond","Mbyte/usecond",""',
        '"0","add(int *)","(32, 2, 1)","(64, 1, 1)","1.25","2.00","x"',
        '"1","void add<int>(int *)","(16, 1, 1)","(128, 1, 1)","2.25","3.00","y"',
    ]
    measured = load(write(tmp_path, WIDE + rows[0], *rows[1:]), ADD)
    assert {name: values.tolist() for name, values in measured.parameters.items()} == {
        "bx": [32, 16],
        "by": [2, 1],
    }
    np.testing.assert_allclose(measured.time_s, [1.25e-3, 2.25e-3])
    np.testing.assert_allclose(measured.counters["dram__bytes_read.sum"], [2e12, 3e12])


def test_along_the_axes_where_the_source_says_how_it_is_launched(tmp_path):
    # 32 x 1 and 16 x 2 have as many threads and blocks
    threads = description(threads="bx * by", blocks="64")
    path = write(tmp_path, HEAD, line(0, TIME, "us", "5.5", "(16, 2, 1)"))
    with pytest.raises(DseError, match=r"Grid Size, row 1: found .* which 2 configurations of add have"):
        load(path, threads)
    block, grid = (tuple(parse(text, "x") for text in sizes) for sizes in (("bx", "by"), ("64",)))
    build = Build(kernel="add", defines=(), block=block, grid=grid, arguments=())
    measured = load(path, description(build, threads="bx * by", blocks="64"))
    assert (measured.parameters["bx"].tolist(), measured.parameters["by"].tolist()) == ([16], [2])
    lines = [line(0, TIME, "us", "9.5", name="fill(int)"), line(1, TIME, "us", "5.5")]
    measured = load(write(tmp_path, HEAD, *lines), ADD)
    np.testing.assert_allclose(measured.time_s, [5.5e-6])
    lines[1] = line(1, TIME, "us", "5.5", name="sub(int)")
    with pytest.raises(DseError, match="Kernel Name: found fill, sub, expected one kernel, or one"):
        load(write(tmp_path, HEAD, *lines), ADD)


LOCALES = {"en": (",", "."), "de": (".", ","), "fr": ("\u202f", ","), "C": ("", ".")}


@given(
    microseconds=st.lists(st.integers(1, 10**9), min_size=1, max_size=4),
    share=st.integers(1, 10_000),
    locale=st.sampled_from(sorted(LOCALES)),
    delimiter=st.sampled_from([",", ";", "\t"]),
    encoding=st.sampled_from(["utf-8", "utf-16"]),  # as PowerShell redirects it
)
def test_what_is_printed_is_read(tmp_path_factory, microseconds, share, locale, delimiter, encoding):
    thousands, decimal = LOCALES[locale]

    def printed(hundredths):
        swap = str.maketrans({",": thousands, ".": decimal})
        return f"{hundredths / 100:,.2f}".translate(swap)

    lines = [HEAD]
    for i, time in enumerate(microseconds):
        lines += [line(i, TIME, "usecond", printed(time)), line(i, "x__share.pct", "%", printed(share))]
        lines += [line(i, "y__insts.sum", "inst", f"{time:,}".replace(",", thousands))]
    lines = [item.replace('","', f'"{delimiter}"') for item in lines]
    path = tmp_path_factory.mktemp("ncu") / "a.csv"
    path.write_text("\n".join(lines), encoding=encoding)
    measured = load_space(path, ["ID"])
    np.testing.assert_allclose(measured.time_s, np.array(microseconds) * 1e-8, rtol=1e-12)
    np.testing.assert_array_equal(measured.counters["y__insts.sum"], microseconds)
    np.testing.assert_allclose(measured.counters["x__share.pct"], share / 100)


@pytest.mark.parametrize(
    ("unit", "value", "seconds"),
    [
        ("nsecond", "1,205", 1205e-9),  # nanoseconds have no fractions
        ("ns", "1.205", 1205e-9),
        ("us", "1.205", 1.205e-6),
        ("us", "1.234.567", 1234567e-6),
        ("us", "1,234,567", 1234567e-6),
        ("us", "0,205", 0.205e-6),
    ],
)
def test_numbers_that_alone_must_tell(tmp_path, unit, value, seconds):
    np.testing.assert_allclose(load(write(tmp_path, HEAD, line(0, TIME, unit, value)), ADD).time_s, [seconds])


def test_a_number_that_can_be_read_in_one_way_only_goes_before_those_that_are_likely(tmp_path):
    lines = [line(0, TIME, "nsecond", "1,205"), line(0, OCCUPANCY, "%", "40,50")]
    measured = load(write(tmp_path, HEAD, *lines), ADD)
    assert measured.occupancy is not None
    np.testing.assert_allclose([*measured.time_s, *measured.occupancy], [1.205e-9, 0.405])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([HEAD, line(0, TIME, "us", "1,205")], "numbers: found 1,205, a thousand or a fraction"),
        ([HEAD, line(0, TIME, "us", "1.5"), line(0, OCCUPANCY, "%", "2,5")], "numbers: found 1.5 and 2,5"),
        ([HEAD, line(0, TIME, "cycle", "15")], f"row 1, {TIME}: found unit 'cycle', expected one of ms"),
        ([HEAD, line(0, TIME, "us", "1.5"), line(0, TIME, "us", "2.5")], f"{TIME}: found 1.5 and 2.5 of one"),
        ([HEAD, line(0, TIME, "us", "1.5", "(48, 1, 1)")], "Grid Size, row 1: found .* which no"),
        ([WIDE + '"0","add","(32, 1, 1)","(64, 1, 1)","1.5","1","x"'], "units: found no line of units"),
        (
            ["Kernel Name,Metric Name,Metric Unit,Metric Value", f"add,{TIME},us,1.5"],
            "columns: found neither bx, by nor 'Block Size', expected columns bx, by beside the metrics",
        ),
    ],
)
def test_a_mistake_gets_one_line(tmp_path, lines, message):
    with pytest.raises(DseError, match=rf"a\.csv: {message}"):
        load(write(tmp_path, *lines), ADD)


class Action(dict):
    """A launch as `ncu_report` has it: metrics by name."""

    name = staticmethod(lambda: "add(int *)")
    metric_names = dict.keys


def test_a_report_is_read_by_the_module_of_nsight_compute(tmp_path, monkeypatch):
    path = tmp_path / "a.ncu-rep"
    path.write_bytes(b"NVR\0")
    with pytest.raises(DseError, match="ncu_report: found none, expected that of Nsight Compute's extras"):
        load(path, ADD)

    def metric(value, unit=""):
        return SimpleNamespace(value=lambda: value, unit=lambda: unit)

    sizes = {"block": (32, 1, 1), "grid": (64, 1, 1)}
    metrics = {
        f"launch__{what}_dim_{axis}": metric(n)
        for what in sizes
        for axis, n in zip("xyz", sizes[what], strict=True)
    }
    launch = Action(metrics | {TIME: metric(1536.5, "ns"), OCCUPANCY: metric(50.0, "%"), "note": metric("x")})
    monkeypatch.setitem(sys.modules, "ncu_report", SimpleNamespace(load_report=lambda path: [[launch]]))
    times = load(path, ADD)
    assert times.time_s.tolist() == pytest.approx([1.5365e-6])
    assert {name: values.tolist() for name, values in times.parameters.items()} == {"bx": [32], "by": [1]}
    assert times.occupancy is not None
    assert times.occupancy.tolist() == [0.5]
