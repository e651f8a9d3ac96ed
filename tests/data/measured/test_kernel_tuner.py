"""Caches of Kernel Tuner, in the forms it has written over the years, closed or not."""

import gzip
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.data.measured.read import load_space
from dse.errors import DseError

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
NAMES = ("bx", "mode")


def read(tmp_path, text, names=NAMES):
    path = tmp_path / "cache.json"
    path.write_text(text)
    return load_space(path, names)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (HEAD + FIRST + ",\n" + SECOND + ",\n" + THIRD + "}\n}", 3),
        (HEAD + FIRST + ",\n" + SECOND + ",\n" + THIRD + ",\n", 3),  # interrupted
        (HEAD + FIRST + ",\n" + SECOND + ",\n" + THIRD, 3),
        (HEAD + FIRST + ",\n" + SECOND + ",\n" + THIRD + "\n}", 3),  # half closed
        (HEAD + FIRST + ",\n" + SECOND + ",\n" + THIRD[:20], 2),  # the last entry is cut off
        (HEAD + FIRST + ",\n" + SECOND + ",\n" + THIRD[:-1], 2),
        (HEAD.replace("{\n", '{"schema_version": "1.1.0",\n', 1) + FIRST + ",\n" + SECOND + "}}", 2),
    ],
)
def test_closed_or_not(tmp_path, text, rows):
    measured = read(tmp_path, text)
    assert measured.space == "cache"
    assert measured.parameters["bx"].tolist() == [16, 32, 32][:rows]
    assert measured.parameters["mode"].tolist() == ["a", "a", "b"][:rows]
    np.testing.assert_array_equal(measured.time_s, [2.5e-3, 1.5e-3, np.nan][:rows])
    np.testing.assert_array_equal(measured.fastest_s, [2e-3, 1.5e-3, np.nan][:rows])
    assert measured.status.tolist() == ["ok", "ok", "compile"][:rows]
    np.testing.assert_array_equal(measured.counters["GFLOP/s"], [7.5, np.nan, np.nan][:rows])
    assert set(measured.counters) == {"GFLOP/s", "compile_time"}


def test_parameters_of_the_key_and_times_without_their_mean(tmp_path):
    entries = (
        '"16,true,0.5": {"times": [1.0, 3.0]},\n"32,false,1": {"time": 1e+20},\n"8,true,2": {"time": NaN}'
    )
    text = HEAD.replace('"mode"\n', '"flag",\n"share"\n') + entries + "}}"
    measured = read(tmp_path, text, ("bx", "flag", "share"))
    assert {name: values.tolist() for name, values in measured.parameters.items()} == {
        "bx": [16, 32, 8],
        "flag": [1, 0, 1],
        "share": [0.5, 1.0, 2.0],
    }
    np.testing.assert_array_equal(measured.time_s, [2e-3, np.nan, np.nan])
    assert measured.status.tolist() == ["ok", "failed", "failed"]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ("InvalidConfig", "constraints"),
        ("RuntimeFailedConfig", "runtime"),
        ("NewFailure", "NewFailure"),
    ],
)
def test_names_of_errors(tmp_path, error, status):
    failed = THIRD.replace("CompilationFailedConfig", error)
    assert read(tmp_path, HEAD + FIRST + ",\n" + failed + "}}").status.tolist() == ["ok", status]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + '"16": {"time": 1}}}', "cache, row 1: found key '16', expected values of bx, mode"),
        (HEAD + '"16,a": {"bx": 16}}}', "cache, row 1, time: found None, expected milliseconds"),
        (HEAD + '"16,a": {"time": [1]}}}', r"cache, row 1, time: found \[1\], expected milliseconds"),
        (HEAD + '"16,a": {"times": ["x"]}}}', r"cache, row 1, times: found \['x'\], expected a list"),
        (HEAD + '"16,a": 3}}', "cache.16,a: found 3, expected an object"),
        (HEAD + "}}", "rows: found none"),
        (HEAD + '"16,a": {"time": 0}}}', "time_ms, row 1: found a time of 0 or less"),
        ('{"cache": {}}', "tune_params_keys: found nothing, expected a value"),
        (HEAD + "x" + FIRST + ",\n" + SECOND + "}}", "is not JSON: Expecting property name"),
    ],
)
def test_a_mistake_gets_one_line(tmp_path, text, message):
    with pytest.raises(DseError, match=rf"cache\.json: {message}") as error:
        read(tmp_path, text)
    assert "\n" not in str(error.value)


ROWS = st.lists(
    st.tuples(st.integers(-9, 2000), st.sampled_from(["a", "b c", "true"]), st.floats(1e-6, 1e6) | st.none()),
    min_size=1,
    max_size=5,
    unique_by=lambda row: row[:2],
)


@given(rows=ROWS, cut=st.integers(0, 12))
def test_what_is_written_is_read(tmp_path_factory, rows, cut):
    entries = [
        json.dumps(f"{bx},{mode}")
        + ": "
        + json.dumps(
            {"bx": bx, "mode": mode, "time": "InvalidConfig" if time is None else time, "times": [1.0]}
        )
        for bx, mode, time in [*rows, (1, "cut", 1.0)]
    ]
    whole = HEAD + ",\n".join(entries[:-1])
    text = whole + ("}\n}" if cut == 0 else ",\n" + entries[-1][:cut])
    path = tmp_path_factory.mktemp("cache") / "a.json.gz"
    path.write_bytes(gzip.compress(text.encode()))
    if all(time is None for *_, time in rows):
        return
    measured = load_space(path, NAMES)
    assert measured.parameters["bx"].tolist() == [row[0] for row in rows]
    modes = [row[1] for row in rows]
    assert measured.parameters["mode"].tolist() == ([1] * len(rows) if set(modes) == {"true"} else modes)
    expected = [np.nan if time is None else time * 1e-3 for *_, time in rows]
    np.testing.assert_allclose(measured.time_s, expected, rtol=1e-15)
    np.testing.assert_array_equal(measured.min_s, np.where(np.isnan(expected), np.nan, 1e-3))
