"""KTT's own JSON, with counters."""

import json

import numpy as np
import pytest

from dse.data.measured.read import load_space
from dse.errors import DseError

OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"


def computation(**counters):
    profiling = {
        "Counters": [{"Name": name, "Type": "Double", "Value": value} for name, value in counters.items()],
        "RemainingProfilingRuns": 0,
    }
    compiled = {
        "ConstantMemorySize": 0,
        "LocalMemorySize": 64,
        "MaxWorkGroupSize": 1024,
        "PrivateMemorySize": 8,
        "RegistersCount": 12,
    }
    size = {"X": 32, "Y": 1, "Z": 1}
    return {
        "KernelFunction": "add",
        "Duration": 70.0,
        "GlobalSize": size,
        "LocalSize": size,
        "CompilationData": compiled,
    } | ({"ProfilingData": profiling} if counters else {})


def result(bx, time, *computations, status="Ok", name="Addition"):
    return {
        "KernelName": name,
        "Status": status,
        "TotalDuration": time,
        "Configuration": [
            {"Name": "bx", "Value": bx, "ValueType": "UnsignedInt"},
            {"Name": "share", "IsDouble": True, "Value": 0.5},
        ],
        "ComputationResults": list(computations),
    }


def read(tmp_path, results, unit="Microseconds"):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"Metadata": {"TimeUnit": unit, "KttVersion": "2.3.1"}, "Results": results}))
    return load_space(path, ["bx", "share"])


def test_results_and_counters(tmp_path):
    rows = [
        result(32, 77.0, computation(**{OCCUPANCY: 50.0, "dram__sectors_read.sum": 128})),
        result(64, 0.0, status="ComputationFailed"),
        result(128, 60.0, computation(), computation()),  # two kernels: what counters add up to is not known
        result(256, 50.0, computation()),
        result(512, 1.0, computation(), status="ValidationFailed"),
    ]
    measured = read(tmp_path, rows)
    assert measured.parameters["bx"].tolist() == [32, 64, 128, 256, 512]
    assert measured.parameters["share"].tolist() == [0.5] * 5
    np.testing.assert_allclose(measured.time_s, [77e-6, np.nan, 60e-6, 50e-6, np.nan])
    assert measured.min_s is None
    assert measured.status.tolist() == ["ok", "runtime", "ok", "ok", "correctness"]
    np.testing.assert_array_equal(measured.occupancy, [0.5, *[np.nan] * 4])
    np.testing.assert_array_equal(measured.counters["dram__sectors_read.sum"], [128, *[np.nan] * 4])
    np.testing.assert_array_equal(measured.counters["registers"], [12, np.nan, np.nan, 12, 12])
    some = measured.rows(np.array([3, 0]))
    np.testing.assert_array_equal(some.counters["dram__sectors_read.sum"], [np.nan, 128])


@pytest.mark.parametrize(
    ("unit", "second"), [("Nanoseconds", 1e9), ("Microseconds", 1e6), ("Milliseconds", 1e3), ("Seconds", 1)]
)
def test_units(tmp_path, unit, second):
    np.testing.assert_allclose(read(tmp_path, [result(1, second)], unit).time_s, [1.0])


@pytest.mark.parametrize(
    ("results", "message"),
    [
        (
            [result(1, 1.0), result(1, 1.0, name="other")],
            "Results: found kernels Addition and other, expected",
        ),
        ([result(1, "long")], r"Results\[0\].TotalDuration: found 'long', expected a valid number"),
        ([result(1, 0.0)], "time_us, row 1: found a time of 0 or less"),
        ([{"KernelName": "x"}], r"Results\[0\].Status: found nothing"),
        ([], "rows: found none"),
    ],
)
def test_a_mistake_gets_one_line(tmp_path, results, message):
    with pytest.raises(DseError, match=rf"a\.json: {message}") as error:
        read(tmp_path, results)
    assert "\n" not in str(error.value)


def test_unknown_unit(tmp_path):
    with pytest.raises(DseError, match=r"a\.json: Metadata\.TimeUnit: found unit 'Days', expected one of ms"):
        read(tmp_path, [result(1, 1.0)], "Days")
