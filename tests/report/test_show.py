"""Tables, JSON and CSV of rows, and the progress bar."""

import csv
import io
import json
import sys
import time

import numpy as np
import pytest

from dse.data.tables import write_table
from dse.report.numbers import number, scale
from dse.report.show import progress, show

ROWS = [
    {"name": "a", "time": 0.0123456, "size": 49152, "fits": True},
    {"name": "b [bold]", "time": 4.2e-7, "size": 96, "fits": False, "note": "x"},
]


def shown(capsys, rows, **options):
    show(rows, **options)
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (0, "0"),
        (123456789, "123456789"),
        (864.000016, "864"),  # in single precision
        (12.3456, "12.35"),
        (-98765.4, "-98765"),
        (0.000123456, "0.0001235"),
        (0.0000123456, "1.235e-05"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
    ],
)
def test_numbers_have_four_significant_digits(x, text):
    assert number(x) == text


@pytest.mark.parametrize(
    ("values", "unit", "prefixed"),
    [
        ([0.002], "s", ("ms", 1e-3)),
        ([float("inf"), float("inf"), 0, 0, 3e-3, None], "s", ("ms", 1e-3)),
        ([3e-12], "s", ("ns", 1e-9)),
        ([], "s", ("s", 1)),
        ([1555e9], "B/s", ("TB/s", 1e12)),
        ([-900e9], "B/s", ("GB/s", 1e9)),
        ([1023], "B", ("B", 1)),
        ([1e9], "cycles", ("cycles", 1)),
    ],
)
def test_the_median_chooses_the_prefix(values, unit, prefixed):
    assert scale(values, unit) == prefixed


def test_table(capsys):
    lines = shown(capsys, ROWS, title="Two rows", units={"time": "s", "size": "B"}).splitlines()
    assert lines[0].strip() == "Two rows"
    assert lines[2].split() == ["name", "time", "[ms]", "size", "[KiB]", "fits", "note"]
    assert lines[4].split() == ["a", "12.35", "48", "yes"]
    assert lines[5].split() == ["b", "[bold]", "0.0004200", "0.09375", "no", "x"]
    ends = [
        line.index(number) + len(number)
        for line, number in zip(lines[4:6], ("12.35", "0.0004200"), strict=True)
    ]
    assert ends[0] == ends[1]  # numbers stand flush right


def test_columns_are_the_same_as_rows(capsys):
    columns = {"n": np.arange(2), "x": np.array([0.5, np.inf]), "ok": np.array([True, False])}
    rows = [{"n": 0, "x": 0.5, "ok": True}, {"n": 1, "x": float("inf"), "ok": False}]
    for options in ({}, {"json": True}, {"csv": True}):
        assert shown(capsys, columns, **options) == shown(capsys, rows, **options)


def test_a_pipe_is_as_wide_as_the_table(capsys):
    row = {f"column{i}": "x" * 50 for i in range(20)}
    lines = shown(capsys, [row]).splitlines()
    assert sum(line.count("x" * 50) for line in lines) == 20
    assert lines == [line.rstrip() for line in lines]


def test_json_and_csv_keep_the_numbers(capsys):
    assert "λ" in shown(capsys, [{"name": "λ"}], json=True)
    rows = [{"x": 0.0123456, "list": (1, 2), "nan": np.float64("nan"), "deep": {"inf": [np.inf]}}]
    read = json.loads(shown(capsys, rows, json=True, units={"x": "s"}))
    assert read == [{"x": 0.0123456, "list": [1, 2], "nan": None, "deep": {"inf": [None]}}]
    read = list(csv.DictReader(io.StringIO(shown(capsys, ROWS, csv=True, units={"time": "s"}))))
    assert [float(row["time"]) for row in read] == [0.0123456, 4.2e-7]
    assert [row["note"] for row in read] == ["", "x"]
    assert shown(capsys, [{"list": [1, 2]}], csv=True) == "list\n1 2\n"
    assert json.loads(shown(capsys, [], json=True)) == []
    assert shown(capsys, [], csv=True) == "\n"
    assert shown(capsys, {"x": np.zeros(0)}, csv=True) == "x\n"
    assert shown(capsys, [], title="Launches") == "Launches: none\n"


@pytest.mark.parametrize(("terminal", "seconds", "draws"), [(1, 1.3, True), (1, 0, False), (0, 1.3, False)])
def test_progress_shows_on_a_terminal_after_a_second(monkeypatch, terminal, seconds, draws):
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with progress("Sweeping", 10) as advance:
        advance(3)
        time.sleep(seconds)
        advance(7)
    assert ("Sweeping" in stream.getvalue()) is draws


NAMES = ["a\x9b2J", "b\u202ec", "d\x7f", "=HYPERLINK(1)", "@x", "+1 2", "-3", "e\x1b]0;f\x07"]


@pytest.mark.parametrize("form", ["table", "json", "csv", "file"])
def test_names_of_strangers_steer_neither_a_terminal_nor_a_spreadsheet(capsys, tmp_path, form):
    rows = [{name: name} for name in NAMES]
    if form == "file":
        write_table(tmp_path / "t.csv", {name: [name] for name in NAMES})
        text = (tmp_path / "t.csv").read_text()
    else:
        text = shown(capsys, rows, title=NAMES[0], **({} if form == "table" else {form: True}))
    assert all(character.isprintable() or character == "\n" for character in text)
    if form == "json":
        assert json.loads(text) == rows
    if form in ("csv", "file"):
        header = next(csv.reader(io.StringIO(text)))
        assert header == [
            "a\\x9b2J", "b\\u202ec", "d\\x7f", "'=HYPERLINK(1)", "'@x", "+1 2", "-3", "e\\x1b]0;f\\x07",
        ]  # fmt: skip
