"""T4 results as Kernel Tuner, KTT and KTT's converter write them."""

import json

import numpy as np
import pytest

from dse.data.measured.read import load_space
from dse.errors import DseError

OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"


def result(bx, time=None, unit="", name="time", runtimes=None, **fields):
    measurements = [] if time is None else [{"name": name, "value": time, "unit": unit}]
    return {
        "timestamp": "2024-01-01",
        "configuration": {"bx": bx},
        "times": {"compilation_time": 100.0} | ({} if runtimes is None else {"runtimes": runtimes}),
        "invalidity": "correct",
        "correctness": 1,
        "measurements": [*measurements, *fields.pop("more", [])],
        "objectives": [name],
    } | fields


def read(tmp_path, results, **top):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"schema_version": "1.0.0", "results": results} | top))
    return load_space(path, ["bx"])


def test_kernel_tuner(tmp_path):
    more = [{"name": "GFLOP/s", "value": 12.5, "unit": ""}, {"name": "note", "value": "x"}]
    rows = [
        result(16, 2.0, "ms", runtimes=[2.5, 1.5], more=more),
        result(32, "CompilationFailedConfig", "ms", invalidity="compile", runtimes=[]),
        result(64, 3.0, ""),  # milliseconds, though its converter does not say so
        result(128, runtimes=[1.0, 3.0]),
        result(256, 1.0, correctness=0),
    ]
    measured = read(tmp_path, rows)
    assert measured.parameters["bx"].tolist() == [16, 32, 64, 128, 256]
    assert measured.status.tolist() == ["ok", "compile", "ok", "ok", "correctness"]
    np.testing.assert_array_equal(measured.time_s, [2e-3, np.nan, 3e-3, 2e-3, np.nan])
    np.testing.assert_array_equal(measured.min_s, [1.5e-3, np.nan, 3e-3, 1e-3, np.nan])
    assert list(measured.counters) == ["GFLOP/s"]
    np.testing.assert_array_equal(measured.counters["GFLOP/s"], [12.5] + [np.nan] * 4)


def test_ktt(tmp_path):
    more = [{"name": OCCUPANCY, "type": "Double", "unit": "", "value": 25.0}]
    rows = [result("32", 90.5, runtimes=[90.5], more=more), result("64", 60.5, invalidity="runtime")]
    measured = read(tmp_path, rows, metadata={"autotuner": "KTT", "timeunit": "microseconds"})
    assert measured.parameters["bx"].tolist() == [32, 64]  # KTT writes them as text
    np.testing.assert_allclose(measured.time_s, [90.5e-6, np.nan])
    assert measured.status.tolist() == ["ok", "runtime"]
    np.testing.assert_array_equal(measured.occupancy, [0.25, np.nan])


def test_unit_of_the_measurement_holds_for_its_repetitions(tmp_path):
    measured = read(tmp_path, [result(16, 3000.0, "Microseconds", "TotalDuration", [2000.0])])
    assert measured.min_s is not None
    np.testing.assert_allclose([*measured.time_s, *measured.min_s], [3e-3, 2e-3])


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ([result(16, 1.0, "furlong")], "results, row 1: found unit 'furlong', expected one of ms, us"),
        ([result(16, 1.0), result(32)], "results, row 2, times: found None, expected a time"),
        ([result(16, "soon")], "results, row 1, time: found 'soon', expected a time"),
        ([{"configuration": {"bx": 1}}], r"results\[0\].invalidity: found nothing"),
        ([result(16, 1.0, configuration=[16])], r"results\[0\].configuration: found \[16\], expected"),
        ({}, "results: found {}, expected a valid list"),
        ([], "rows: found none"),
        ([result(16, 1.0, configuration={"by": 1})], "columns: found no bx, expected bx"),
    ],
)
def test_a_mistake_gets_one_line(tmp_path, results, message):
    with pytest.raises(DseError, match=rf"a\.json: {message}") as error:
        read(tmp_path, results)
    assert "\n" not in str(error.value)
