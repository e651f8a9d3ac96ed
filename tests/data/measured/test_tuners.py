"""Results of tuners: T4 files, Kernel Tuner's caches in the forms of the years, KTT's own JSON."""

import gzip
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.data.measured.read import load_space
from dse.errors import DseError

OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"


def t4(bx, time=None, unit="", name="time", runtimes=None, more=(), **fields):
    measurements = [] if time is None else [{"name": name, "value": time, "unit": unit}]
    return {
        "timestamp": "2024-01-01",
        "configuration": {"bx": bx},
        "times": {"compilation_time": 100.0} | ({} if runtimes is None else {"runtimes": runtimes}),
        "invalidity": "correct",
        "correctness": 1,
        "measurements": [*measurements, *more],
        "objectives": [name],
    } | fields


def of_t4(results, **top):
    return json.dumps({"schema_version": "1.0.0", "results": results} | top)


HEAD = """{
"device_name": "Testing",
"kernel_name": "stencil",
"tune_params_keys": [
"bx",
"mode"
],
"tune_params": {"bx": [16, 32], "mode": ["a", "b"]},
"cache": {
"""
FIRST = (
    '"16,a": {"bx": 16, "mode": "a", "time": 2.5, "times": [3.5, 2.0, 2.0], "GFLOP/s": 7.5, "timestamp": "x"}'
)
SECOND = '"32,a": {"bx": 32, "mode": "a", "time": 1.5, "compile_time": 9}'
THIRD = '"32,b": {"bx": 32, "mode": "b", "time": "CompilationFailedConfig"}'


def ktt(bx, time, *computations, status="Ok", name="Addition"):
    configuration = [{"Name": "bx", "Value": bx}, {"Name": "share", "IsDouble": True, "Value": 0.5}]
    return {"KernelName": name, "Status": status, "TotalDuration": time, "Configuration": configuration,
            "ComputationResults": list(computations)}  # fmt: skip


def computation(**counters):
    compiled = {"LocalMemorySize": 64, "PrivateMemorySize": 8, "RegistersCount": 12}
    profile = {"Counters": [{"Name": name, "Value": value} for name, value in counters.items()]}
    return {"CompilationData": compiled} | ({"ProfilingData": profile} if counters else {})


def of_ktt(results, unit="Microseconds"):
    return json.dumps({"Metadata": {"TimeUnit": unit}, "Results": results})


@pytest.fixture
def measured(tmp_path):
    """`measured(text, names)`: what is read of a file."""

    def measured(text, names):
        (tmp_path / "a.json").write_text(text)
        return load_space(tmp_path / "a.json", names)

    return measured


def test_t4_of_kernel_tuner_and_ktt(measured):
    more = [{"name": "GFLOP/s", "value": 12.5, "unit": ""}, {"name": "note", "value": "x"}]
    rows = [
        t4(16, 2.0, "ms", runtimes=[2.5, 1.5], more=more),
        t4(32, "CompilationFailedConfig", "ms", invalidity="compile", runtimes=[]),
        t4(64, 3.0, ""),  # milliseconds, though its converter does not say so
        t4(128, runtimes=[1.0, 3.0]),
        t4(256, 1.0, correctness=0),
        t4(512, 3000.0, "Microseconds", "TotalDuration", [2000.0]),  # the unit of its repetitions, too
    ]
    times = measured(of_t4(rows), ["bx"])
    assert times.parameters["bx"].tolist() == [16, 32, 64, 128, 256, 512]
    assert times.status.tolist() == ["ok", "compile", "ok", "ok", "correctness", "ok"]
    np.testing.assert_allclose(times.time_s, [2e-3, np.nan, 3e-3, 2e-3, np.nan, 3e-3])
    np.testing.assert_allclose(times.min_s, [1.5e-3, np.nan, 3e-3, 1e-3, np.nan, 2e-3])
    np.testing.assert_array_equal(times.counters["GFLOP/s"], [12.5] + [np.nan] * 5)
    more = [{"name": OCCUPANCY, "type": "Double", "unit": "", "value": 25.0}]
    rows = [t4("32", 90.5, runtimes=[90.5], more=more), t4("64", 60.5, invalidity="runtime")]
    times = measured(of_t4(rows, metadata={"autotuner": "KTT", "timeunit": "microseconds"}), ["bx"])
    assert times.parameters["bx"].tolist() == [32, 64]  # KTT writes them as text
    np.testing.assert_allclose(times.time_s, [90.5e-6, np.nan])
    np.testing.assert_array_equal(times.occupancy, [0.25, np.nan])


def test_a_cache_of_kernel_tuner(measured):
    head = HEAD.replace("{\n", '{"schema_version": "1.1.0",\n', 1)
    times = measured(f"{head}{FIRST},\n{SECOND},\n{THIRD}}}\n}}", ("bx", "mode"))
    assert times.parameters["bx"].tolist() == [16, 32, 32]
    assert times.parameters["mode"].tolist() == ["a", "a", "b"]
    np.testing.assert_array_equal(times.time_s, [2.5e-3, 1.5e-3, np.nan])
    np.testing.assert_array_equal(times.fastest_s, [2e-3, 1.5e-3, np.nan])
    assert times.status.tolist() == ["ok", "ok", "compile"]
    np.testing.assert_array_equal(times.counters["GFLOP/s"], [7.5, np.nan, np.nan])


def test_parameters_of_a_cache_by_its_keys_and_failures_by_name(measured):
    rows: dict = {"16,true,0.5": {"times": [1.0, 3.0]}, "32,false,1": {"time": 1e20}}
    rows |= {"8,true,2": {"time": "InvalidConfig"}, "4,true,2": {"time": "NewFailure"}}
    head = {"device_name": "x", "kernel_name": "k", "tune_params_keys": ["bx", "flag", "share"]}
    times = measured(json.dumps(head | {"cache": rows}), ("bx", "flag", "share"))
    bx, flag, share = (times.parameters[name].tolist() for name in ("bx", "flag", "share"))
    assert (bx, flag, share) == ([16, 32, 8, 4], [1, 0, 1, 1], [0.5, 1.0, 2.0, 2.0])
    np.testing.assert_array_equal(times.time_s, [2e-3, np.nan, np.nan, np.nan])
    assert times.status.tolist() == ["ok", "failed", "constraints", "NewFailure"]


ROWS = st.lists(
    st.tuples(st.integers(-9, 2000), st.sampled_from(["a", "b c", "true"]), st.floats(1e-6, 1e6) | st.none()),
    min_size=1,
    max_size=5,
    unique_by=lambda row: row[:2],
).filter(lambda rows: any(time is not None for *_, time in rows))


ENDS = st.sampled_from(["}\n}", "}}", "\n}", ",\n"]) | st.integers(1, 12)  # closed, half closed, cut off


@given(rows=ROWS, end=ENDS)
def test_what_kernel_tuner_writes_is_read_closed_or_not(tmp_path_factory, rows, end):
    entries = []
    for bx, mode, time in [*rows, (1, "cut", 1.0)]:
        entry = {"bx": bx, "mode": mode, "time": "InvalidConfig" if time is None else time, "times": [1.0]}
        entries.append(f"{json.dumps(f'{bx},{mode}')}: {json.dumps(entry)}")
    text = HEAD + ",\n".join(entries[:-1]) + (end if isinstance(end, str) else ",\n" + entries[-1][:end])
    path = tmp_path_factory.mktemp("cache") / "a.json.gz"
    path.write_bytes(gzip.compress(text.encode()))
    times = load_space(path, ("bx", "mode"))
    modes = [row[1] for row in rows]
    assert times.parameters["bx"].tolist() == [row[0] for row in rows]
    assert times.parameters["mode"].tolist() == ([1] * len(rows) if set(modes) == {"true"} else modes)
    expected = [np.nan if time is None else time * 1e-3 for *_, time in rows]
    np.testing.assert_allclose(times.time_s, expected, rtol=1e-15)
    np.testing.assert_array_equal(times.min_s, np.where(np.isnan(expected), np.nan, 1e-3))


def test_ktt_and_its_counters(measured):
    rows = [
        ktt(32, 77.0, computation(**{OCCUPANCY: 50.0, "dram__sectors_read.sum": 128})),
        ktt(64, 0.0, status="ComputationFailed"),
        ktt(128, 60.0, computation(), computation()),  # two kernels: what counters add up to is not known
        ktt(256, 50.0, computation()),
        ktt(512, 1.0, computation(), status="ValidationFailed"),
    ]
    times = measured(of_ktt(rows), ["bx", "share"])
    assert times.parameters["bx"].tolist() == [32, 64, 128, 256, 512]
    assert times.parameters["share"].tolist() == [0.5] * 5
    np.testing.assert_allclose(times.time_s, [77e-6, np.nan, 60e-6, 50e-6, np.nan])
    assert times.min_s is None
    assert times.status.tolist() == ["ok", "runtime", "ok", "ok", "correctness"]
    np.testing.assert_array_equal(times.occupancy, [0.5, *[np.nan] * 4])
    np.testing.assert_array_equal(times.counters["registers"], [12, np.nan, np.nan, 12, 12])
    some = times.rows(np.array([3, 0]))
    np.testing.assert_array_equal(some.counters["dram__sectors_read.sum"], [np.nan, 128])


@pytest.mark.parametrize(
    ("unit", "second"), [("Nanoseconds", 1e9), ("Microseconds", 1e6), ("Milliseconds", 1e3), ("Seconds", 1)]
)
def test_units_of_ktt(measured, unit, second):
    np.testing.assert_allclose(measured(of_ktt([ktt(1, second)], unit), ["bx", "share"]).time_s, [1.0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"rows": []}', r"top level: found rows, expected 'cache' \(Kernel Tuner\), 'Results' \(KTT\) or"),
        ("{}", "top level: found nothing, expected 'cache'"),
        (of_t4([t4(16, 1.0, "furlong")]), "results, row 1: found unit 'furlong', expected one of ms, us"),
        (of_t4([t4(16, 1.0), t4(32)]), "results, row 2, times: found None, expected a time"),
        (of_t4([t4(16, "soon")]), "results, row 1, time: found 'soon', expected a time"),
        (of_t4([{"configuration": {"bx": 1}}]), r"results\[0\].invalidity: found nothing"),
        (of_t4([t4(16, 1.0, configuration=[16])]), r"results\[0\].configuration: found \[16\], expected"),
        (of_t4([]), "rows: found none"),
        (of_t4([t4(16, 1.0, configuration={"by": 1})]), "columns: found no bx, expected bx"),
        (HEAD + '"16": {"time": 1}}}', "cache, row 1: found key '16', expected values of bx, mode"),
        (HEAD + '"16,a": {"time": [1]}}}', r"cache, row 1, time: found \[1\], expected milliseconds"),
        (HEAD + '"16,a": {"times": ["x"]}}}', r"cache, row 1, times: found \['x'\], expected a list"),
        (HEAD + '"16,a": 3}}', "cache.16,a: found 3, expected an object"),
        (HEAD + '"16,a": {"time": 0}}}', "time_ms, row 1: found a time of 0 or less"),
        ('{"cache": {}}', "tune_params_keys: found nothing, expected a value"),
        (HEAD + "x" + FIRST + ",\n" + SECOND + "}}", "is not JSON: Expecting property name"),
        (of_ktt([ktt(1, 1.0), ktt(1, 1.0, name="other")]), "Results: found kernels Addition and other, exp"),
        (of_ktt([ktt(1, "long")]), r"Results\[0\].TotalDuration: found 'long', expected a valid number"),
        (of_ktt([ktt(1, 1.0)], "Days"), r"Metadata\.TimeUnit: found unit 'Days', expected one of ms"),
    ],
)
def test_a_mistake_gets_one_line(measured, text, message):
    with pytest.raises(DseError, match=rf"a\.json: {message}"):
        measured(text, ["bx"])
