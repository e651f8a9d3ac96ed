"""A run and its journal: what is kept, where it goes on, when it ends, and commands that measure."""

import json
import os
import re
import sys
import threading
import time

import numpy as np
import pytest

from dse.errors import DseError, InputWarning
from dse.explore.tune.candidates import Candidates, bare
from dse.explore.tune.loop import check_command, commanded, replayed, run
from dse.explore.tune.tuner import Tuner

SIDE = 8
A, B = (axis.ravel() for axis in np.meshgrid(2 ** np.arange(SIDE), 2 ** np.arange(SIDE), indexing="ij"))
N = len(A)
LOG_S = (np.log2(A) / 7 - 0.7) ** 2 + (np.log2(B) / 7 - 0.3) ** 2 - 7.0
SECONDS = np.where(A * B == 64, np.nan, np.exp(LOG_S + 0.2 * np.sin(A + B)))


@pytest.fixture
def candidates():
    base = bare({"a": A, "b": B})
    return Candidates(base.parameters, base.position, LOG_S, np.zeros((N, 1)), np.ones(N, bool), True)


@pytest.fixture
def measure(candidates):
    return replayed(candidates, SECONDS)


def lines(journal):
    return [json.loads(line) for line in journal.read_text().split("\n") if line]


def test_a_run_and_its_rows(candidates, measure):
    ended = run(Tuner(candidates), measure, 12, batch=5)
    assert ended.ended == "the budget is spent"
    rows = ended.rows()
    assert [row["number"] for row in rows] == list(range(1, 13))
    places = [candidates.place(row) for row in rows]
    assert len(set(places)) == 12
    assert places == [item.place for item in ended.measured]
    times = np.array([SECONDS[place] for place in places])
    ran = np.where(np.isnan(times), np.inf, times)
    assert ended.tuner.times == dict(zip(places, ran.tolist(), strict=True))
    for name, expected in (("measured_s", ran), ("fastest_s", np.minimum.accumulate(ran))):
        assert [row[name] for row in rows] == [None if np.isinf(time) else time for time in expected]


def test_a_run_goes_on_where_the_last_one_ended(candidates, measure, tmp_path):
    whole = run(Tuner(candidates), measure, 9)
    journal, counted = tmp_path / "run.jsonl", []

    def counting(configuration):
        counted.append(dict(configuration))
        if len(counted) == 5:
            raise KeyboardInterrupt
        return measure(configuration)

    with pytest.raises(KeyboardInterrupt):
        run(Tuner(candidates), counting, 9, journal=journal)
    kept = [(row["parameters"], row["seconds"]) for row in lines(journal)]  # each at once
    assert kept == [(item, measure(item)) for item in counted[:4]]
    again = run(Tuner(candidates), counting, 9, journal=journal)
    assert again.measured == whole.measured
    assert len(counted) == 1 + 9  # none twice
    assert len(lines(journal)) == 9
    done = run(Tuner(candidates), counting, 5, journal=journal)  # more than asked for is there
    assert len(counted) == 1 + 9
    assert done.measured == whole.measured


def test_a_line_that_was_cut_off_is_measured_again(candidates, measure, tmp_path):
    journal = tmp_path / "run.jsonl"
    whole = run(Tuner(candidates), measure, 6, journal=journal)
    text = journal.read_text()
    # nothing yet, in the middle, or before the line's end, also after an empty line
    for before, end in (("", 0), ("", len(text) - 20), ("", len(text) - 1), ("\n", len(text) - 1)):
        journal.write_text(before + text[:end])
        assert run(Tuner(candidates), measure, 7, journal=journal).measured[:6] == whole.measured
        assert len(lines(journal)) == 7


GOOD = '{"parameters": {"a": 1, "b": 1}, "seconds": 1.0}'


@pytest.mark.parametrize(
    "line",
    [
        *(GOOD.replace('"a": 1', f'"a": {value}') for value in ("3", "[1]", "9" * 5_000)),
        *(GOOD.replace("1.0", seconds) for seconds in ('"fast"', "0", "NaN", "1" + "0" * 400, "1" * 5_000)),
        '{"parameters": {"a": 1}, "seconds": 1.0}',
        '{"parameters": {"a": 1, "b": 1}}',
        '{"parameters": 3, "seconds": 1}',
        "[1, 2]",
        "null",
        "not JSON",
        "[" * 100_000,
    ],
)
def test_a_journal_of_something_else(candidates, measure, tmp_path, line):
    journal = tmp_path / "run.jsonl"
    for text in (f"{line}\n", f"{line}\n{GOOD}\n"):
        journal.write_text(text)
        with pytest.raises(
            DseError, match=r"run\.jsonl: line 1: .*(found .*, expected |is not JSON: )"
        ) as mistake:
            run(Tuner(candidates), measure, 3, journal=journal)
        assert len(str(mistake.value)) < 400
        assert journal.read_text() == text  # left as it was


def test_a_journal_out_of_reach(candidates, measure, tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    os.mkfifo(tmp_path / "pipe")
    for path, message in (
        (tmp_path / "no" / "run.jsonl", "cannot write"),
        (tmp_path, "cannot write: Is a directory"),
        (tmp_path / "binary", "no UTF-8"),
        (tmp_path / "pipe", "pipe: found a pipe, expected a file, or none yet"),
    ):
        with pytest.raises(DseError, match=message):
            run(Tuner(candidates), measure, 3, journal=path)


@pytest.mark.slow
def test_it_ends_once_more_would_not_pay(candidates):
    """Where the model is right, few measurements say so."""
    exact = replayed(candidates, np.exp(LOG_S))
    ended = run(Tuner(candidates), exact, N, pays=0.02)
    assert 0 < len(ended.measured) < 20
    assert ended.ended == "no other is expected to be faster by 2.0%"
    assert ended.measured[-1].fastest == np.exp(LOG_S.min())
    longer = run(Tuner(candidates), exact, 20, pays=1e-9)
    assert len(longer.measured) > len(ended.measured)


def test_it_ends_when_all_were_measured(candidates, measure):
    few = candidates.rows(np.arange(5))
    ended = run(Tuner(few), replayed(few, np.full(5, np.nan)), 99, batch=3)
    assert ended.ended == "all were measured"
    assert sorted(item.place for item in ended.measured) == list(range(5))
    assert [item.fastest for item in ended.measured] == [None] * 5
    meet = threading.Barrier(3, timeout=30)

    def together(configuration):
        meet.wait()
        return measure(configuration)

    ended = run(Tuner(candidates), together, 9, parallel=3)
    alone = run(Tuner(candidates), measure, 9, batch=3)
    assert ended.measured == alone.measured


def test_batches_and_progress(candidates, measure):
    asked, steps = [], []

    class Counting(Tuner):
        def ask(self, count=1):
            asked.append(count)
            return super().ask(count)

    run(Counting(candidates), measure, 10, batch=lambda done: 4 if done < 4 else 3, advance=steps.append)
    assert asked == [4, 3, 3]
    assert sum(steps) == 10


def test_what_measuring_may_take_is_a_budget_and_goes_on_in_the_journal(candidates, measure, tmp_path):
    def slow(configuration):
        time.sleep(0.01)
        return measure(configuration)

    journal = tmp_path / "run.jsonl"
    ended = run(Tuner(candidates), slow, N, journal=journal, limit_s=0.05)
    assert 1 <= len(ended.measured) <= 5  # fewer where the machine is busy
    assert re.fullmatch(r"measuring took \d+ s", ended.ended)
    assert sum(line["took_s"] for line in lines(journal)) >= 0.05
    again = run(Tuner(candidates), slow, N, journal=journal, limit_s=0.05)
    assert len(again.measured) == len(ended.measured)  # all was spent before


def test_what_comes_near_the_fastest_is_measured_again_and_its_median_counts(candidates):
    noise = iter(np.random.default_rng(0).normal(size=1_000))
    often = dict.fromkeys(range(N), 0)

    def noisy(configuration):
        place = candidates.place(configuration)
        often[place] += 1
        return float(SECONDS[place] * np.exp(0.02 * next(noise))) if np.isfinite(SECONDS[place]) else None

    ended = run(Tuner(candidates), noisy, 20, repeats=5)
    fastest = min(SECONDS[item.place] for item in ended.measured if item.seconds is not None)
    for item in ended.measured[1:]:
        if SECONDS[item.place] == fastest:
            assert often[item.place] == 5
        elif not SECONDS[item.place] < 1.5 * SECONDS[ended.measured[0].place]:
            assert often[item.place] == 1
    assert sum(often.values()) < 20 * 5


def python(code):
    return f"{sys.executable} -S -c '{code}' {{a}} x{{b}}"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ('import sys; print("after 3 runs:", 2.5e-1 * int(sys.argv[1]), sys.argv[2])', 7e-3),  # the last one
        ('import sys; print("after 3 runs:", 2.5e-1 * int(sys.argv[1]), "ms")', 1e-3),
        ('import sys; sys.stdout.buffer.write(b"\\xff 2.5")', 2.5e-3),
        ('print("1 " * 10**7); print(3)', 3e-3),  # of much, the end is kept
        ('import sys; print(1.5); sys.exit("one\\nno launch")', "failed with exit code 1: no launch"),
        ("import sys; print(1.5); sys.exit(3)", "failed with exit code 3: 1.5"),
        ('print("no time")', "found no time, expected a time above 0 as its last number"),
        ("print(0.0)", "found 0.0, expected"),
        ("print(-1)", "found -1, expected"),
        ("pass", "found no output, expected"),
    ],
)
def test_a_command_measures_or_has_in_a_warning_why_not(code, expected):
    measured = commanded(python(code), 1e-3)
    if isinstance(expected, float):
        assert measured({"a": 4, "b": 7}) == pytest.approx(expected)
    else:
        with pytest.warns(InputWarning, match=f"^command: {expected}"):
            assert measured({"a": 4, "b": 7}) is None


def test_commands_that_cannot_be_run_or_do_not_end():
    with pytest.raises(DseError, match="command: cannot run /no/such/program: No such file"):
        commanded("/no/such/program {a}", 1.0)({"a": 1})
    with pytest.raises(DseError, match=r"^command: cannot write"):
        commanded("echo {x:d}", 1.0)({"x": 0.5})  # a form that one value does not have
    started = time.monotonic()
    with pytest.warns(InputWarning, match=r"^command: sh -c 'sleep 60; echo 3' was ended after 0.2 s$"):
        assert commanded("sh -c 'sleep 60; echo {x}'", 1.0, limit_s=0.2)({"x": 3}) is None
    assert time.monotonic() - started < 30  # less than it sleeps


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("bench {c}", "found {c}, expected one of a, b"),
        ("bench {}", "found {}, expected one of a, b"),
        ("bench 1 2", "found no parameter in 'bench 1 2'"),
        ("bench '{a}", 'cannot read "bench \'{a}"'),
        *((f"bench {x}", f"cannot read 'bench {x}'") for x in ("{a", "{a:q}", "{a:99999999999}", "{a!z}")),
    ],
)
def test_commands_that_are_refused(command, message):
    names = {"a": None, "b": None}
    check_command("bench {a} --b={b:03d} '{{}}'", names)
    with pytest.raises(DseError) as mistake:
        check_command(command, names)
    assert str(mistake.value).startswith(f"command: {message}")


def test_a_journal_serves_one_kind_of_run_and_one_at_a_time(candidates, measure, tmp_path):
    """Times of another GPU would silently count as measured here."""
    journal = tmp_path / "run.jsonl"
    for budget in (3, 4):
        ended = run(Tuner(candidates), measure, budget, journal=journal, about={"gpu": "x", "n": 8})
        assert len(ended.measured) == budget
    for about, wrong in (
        ({"gpu": "y", "n": 8}, "gpu: found x, expected y"),
        ({"n": 9}, "n: found 8, expected 9"),
    ):
        with pytest.raises(DseError, match=rf"run\.jsonl: line 1: {wrong}"):
            run(Tuner(candidates), measure, 5, journal=journal, about=about)
    # Three runs would measure three times what the budget says.
    notes = tmp_path / "notes.jsonl"
    refused = []

    def measured_with_another(configuration):
        with pytest.raises(DseError, match=r"notes.jsonl: found a run that has not ended"):
            run(Tuner(candidates), measure, 3, journal=notes)
        refused.append(1)
        return measure(configuration)

    run(Tuner(candidates), measured_with_another, 3, journal=notes)
    assert len(refused) == len(notes.read_text().splitlines()) == 3
    assert len(run(Tuner(candidates), measure, 4, journal=notes).measured) == 4
