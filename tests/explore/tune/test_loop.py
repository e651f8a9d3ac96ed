"""A run and its journal: what is kept, where it goes on, when it ends, and commands that measure."""

import json
import os
import re
import sys
import threading
import time

import numpy as np
import pytest

from dse.errors import Doubt, DseError
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
    return [json.loads(line) for line in journal.read_text().splitlines()]


def test_replayed(measure):
    assert measure({"b": 4, "a": 2}) == SECONDS[(A == 2) & (B == 4)][0]
    assert measure({"a": 8, "b": 8}) is None  # failed
    some = bare({"a": np.array([1, 2])})
    assert replayed(some, np.array([np.inf, 3.0]))({"a": 1}) is None


def test_a_run_and_its_rows(candidates, measure):
    ended = run(Tuner(candidates), measure, 12, batch=5)
    assert ended.ended == "the budget is spent"
    rows = ended.rows()
    assert [row["number"] for row in rows] == list(range(1, 13))
    places = [candidates.place(row) for row in rows]
    assert len(set(places)) == 12
    assert places == [each.place for each in ended.measured]
    times = [None if np.isnan(SECONDS[place]) else SECONDS[place] for place in places]
    assert [row["measured_s"] for row in rows] == times
    ran = [np.inf if time is None else time for time in times]
    fastest = [None if np.isinf(each) else each for each in np.minimum.accumulate(np.array(ran))]
    assert [row["fastest_s"] for row in rows] == fastest
    assert ended.tuner.told == {
        place: np.inf if time is None else time for place, time in zip(places, times, strict=True)
    }


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_journal_that_is_a_pipe(candidates, measure, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DseError, match=r"pipe: found a pipe, expected a file, or none yet"):
        run(Tuner(candidates), measure, 3, journal=tmp_path / "pipe")


def test_the_journal_has_each_measurement_at_once(candidates, measure, tmp_path):
    journal, seen = tmp_path / "run.jsonl", []

    def interrupted(configuration):
        seen.append(dict(configuration))
        if len(seen) == 4:
            assert [row["parameters"] for row in lines(journal)] == seen[:3]
            raise KeyboardInterrupt
        return measure(configuration)

    with pytest.raises(KeyboardInterrupt):
        run(Tuner(candidates), interrupted, 9, journal=journal)
    rows = lines(journal)
    assert [row["parameters"] for row in rows] == seen[:3]
    assert [row["seconds"] for row in rows] == [measure(each) for each in seen[:3]]


def test_a_run_goes_on_where_the_last_one_ended(candidates, measure, tmp_path):
    whole = run(Tuner(candidates), measure, 9)
    journal, counted = tmp_path / "run.jsonl", []

    def counting(configuration):
        counted.append(configuration)
        return measure(configuration)

    run(Tuner(candidates), counting, 4, journal=journal)
    again = run(Tuner(candidates), counting, 9, journal=journal)
    assert again.measured == whole.measured
    assert len(counted) == 9  # none twice
    assert len(lines(journal)) == 9
    done = run(Tuner(candidates), counting, 5, journal=journal)  # more than asked for is there
    assert len(counted) == 9
    assert done.measured == whole.measured


def test_a_line_that_was_cut_off_is_measured_again(candidates, measure, tmp_path):
    journal = tmp_path / "run.jsonl"
    whole = run(Tuner(candidates), measure, 6, journal=journal)
    text = journal.read_text()
    for end in (len(text) - 20, len(text) - 1):  # in the middle, or before the line's end
        journal.write_text(text[:end])
        assert run(Tuner(candidates), measure, 6, journal=journal).measured == whole.measured
        assert journal.read_text()[: text.rindex('"took_s"')] == text[: text.rindex('"took_s"')]
        assert run(Tuner(candidates), measure, 7, journal=journal).measured[:6] == whole.measured
        assert len(lines(journal)) == 7
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    assert run(Tuner(candidates), measure, 6, journal=empty).measured == whole.measured


@pytest.mark.parametrize(
    "line",
    [
        '{"parameters": {"a": 3, "b": 1}, "seconds": 1.0}',
        '{"parameters": {"a": 1}, "seconds": 1.0}',
        '{"parameters": {"a": 1, "b": 1}}',
        '{"parameters": {"a": 1, "b": 1}, "seconds": "fast"}',
        '{"parameters": {"a": 1, "b": 1}, "seconds": 0}',
        '{"parameters": {"a": 1, "b": 1}, "seconds": NaN}',
        '{"parameters": {"a": [1], "b": 1}, "seconds": 1.0}',
        "[1, 2]",
        "not JSON",
        "[" * 100_000,
        '{"parameters": {"a": 1, "b": 1}, "seconds": 1' + "0" * 400 + "}",
        '{"parameters": {"a": 1, "b": 1}, "seconds": ' + "1" * 5_000 + "}",
    ],
)
def test_a_journal_of_something_else(candidates, measure, tmp_path, line):
    journal = tmp_path / "run.jsonl"
    good = '{"parameters": {"a": 1, "b": 1}, "seconds": 1.0}'
    journal.write_text(f"{line}\n{good}\n")
    with pytest.raises(DseError, match=r"run\.jsonl: line 1: found .*, expected ") as mistake:
        run(Tuner(candidates), measure, 3, journal=journal)
    assert "\n" not in str(mistake.value)
    assert journal.read_text() == f"{line}\n{good}\n"  # left as it was


def test_one_line_of_something_else_is_not_taken_for_one_cut_off(candidates, measure, tmp_path):
    notes = tmp_path / "notes.txt"
    for text in ("To do: buy milk", "{not JSON}\n"):
        notes.write_text(text)
        with pytest.raises(DseError, match=r"line 1: found .*, expected JSON"):
            run(Tuner(candidates), measure, 3, journal=notes)
        assert notes.read_text() == text


def test_a_journal_out_of_reach(candidates, measure, tmp_path):
    with pytest.raises(DseError, match="cannot write"):
        run(Tuner(candidates), measure, 3, journal=tmp_path / "no" / "run.jsonl")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path, tmp_path / "binary"):
        with pytest.raises(DseError, match=r"cannot write: Is a directory|no UTF-8"):
            run(Tuner(candidates), measure, 3, journal=path)


def test_it_ends_once_more_would_not_pay(candidates):
    """Where the model is right, few measurements say so."""
    exact = replayed(candidates, np.exp(LOG_S))
    ended = run(Tuner(candidates), exact, N, pays=0.02)
    assert 0 < len(ended.measured) < 20
    assert ended.ended == "no other is expected to be faster by 2.0%"
    assert ended.measured[-1].fastest == np.exp(LOG_S.min())
    longer = run(Tuner(candidates), exact, 20, pays=1e-9)
    assert len(longer.measured) > len(ended.measured)


def test_it_ends_when_all_were_measured(candidates):
    few = candidates.rows(np.arange(5))
    ended = run(Tuner(few), replayed(few, np.full(5, np.nan)), 99, batch=3)
    assert ended.ended == "all were measured"
    assert sorted(each.place for each in ended.measured) == list(range(5))
    assert [each.fastest for each in ended.measured] == [None] * 5


def test_batches_and_progress(candidates, measure, monkeypatch):
    asked, steps = [], []
    tuner = Tuner(candidates)
    ask = tuner.ask
    monkeypatch.setattr(tuner, "ask", lambda count=1: asked.append(count) or ask(count))
    run(tuner, measure, 10, batch=lambda done: 4 if done < 4 else 3, advance=steps.append)
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


def test_several_are_measured_at_a_time(candidates, measure):
    meet = threading.Barrier(3, timeout=30)

    def together(configuration):
        meet.wait()
        return measure(configuration)

    ended = run(Tuner(candidates), together, 9, parallel=3)
    alone = run(Tuner(candidates), measure, 9, batch=3)
    assert ended.measured == alone.measured


def test_what_comes_near_the_fastest_is_measured_again_and_its_median_counts(candidates):
    noise = iter(np.random.default_rng(0).normal(size=1_000))
    often = dict.fromkeys(range(N), 0)

    def noisy(configuration):
        place = candidates.place(configuration)
        often[place] += 1
        return float(SECONDS[place] * np.exp(0.02 * next(noise))) if np.isfinite(SECONDS[place]) else None

    ended = run(Tuner(candidates), noisy, 20, repeats=5)
    fastest = min(SECONDS[each.place] for each in ended.measured if each.seconds is not None)
    for each in ended.measured[1:]:
        if SECONDS[each.place] == fastest:
            assert often[each.place] == 5
        elif not SECONDS[each.place] < 1.5 * SECONDS[ended.measured[0].place]:
            assert often[each.place] == 1
    assert sum(often.values()) < 20 * 5


def python(code):
    return f"{sys.executable} -S -c '{code}' {{a}} x{{b}}"


def test_a_command_that_measures():
    timed = commanded(
        python('import sys; print("after 3 runs:", 2.5e-1 * int(sys.argv[1]), sys.argv[2])'), 1e-3
    )
    assert timed({"a": 4, "b": 7}) == pytest.approx(7e-3)  # the last number is the time
    timed = commanded(python('import sys; print("after 3 runs:", 2.5e-1 * int(sys.argv[1]), "ms")'), 1e-3)
    assert timed({"a": 4, "b": 7}) == pytest.approx(1e-3)


@pytest.mark.parametrize(
    "code",
    [
        'import sys; print(1.5); sys.exit("no launch")',
        'print("no time")',
        "print(0.0)",
        "print(-1)",
    ],
)
def test_a_command_that_fails(code):
    assert commanded(python(code), 1.0)({"a": 4, "b": 7}) is None


def test_a_command_that_prints_no_text():
    timed = commanded(python('import sys; sys.stdout.buffer.write(b"\\xff 2.5")'), 1.0)
    assert timed({"a": 4, "b": 7}) == 2.5


def test_a_command_that_there_is_not():
    with pytest.raises(DseError, match="command: cannot run /no/such/program: No such file"):
        commanded("/no/such/program {a}", 1.0)({"a": 1})


def test_check_command():
    names = {"a": None, "b": None}
    check_command("bench {a} --b={b:03d} '{{}}'", names)
    for command, found in (
        ("bench {c}", "found {c}, expected one of a, b"),
        ("bench {}", "found {}, expected one of a, b"),
        ("bench 1 2", "found no parameter in 'bench 1 2'"),
        ("bench {a", "cannot read 'bench {a'"),
        ("bench '{a}", 'cannot read "bench \'{a}"'),
        ("bench {a:q}", "cannot read 'bench {a:q}'"),
    ):
        with pytest.raises(DseError) as mistake:
            check_command(command, names)
        assert str(mistake.value).startswith(f"command: {found}")
        assert "\n" not in str(mistake.value)


def test_a_command_that_does_not_end_failed():
    started = time.monotonic()
    with pytest.warns(Doubt, match=r"^command: sh -c 'sleep 60; echo 3' was ended after 0.2 s$"):
        assert commanded("sh -c 'sleep 60; echo {x}'", 1.0, limit_s=0.2)({"x": 3}) is None
    assert time.monotonic() - started < 30  # less than it sleeps


def test_of_a_command_that_prints_much_the_end_is_kept():
    code = "print('1 ' * 10**7); print({x})"
    assert commanded(f'{sys.executable} -c "{code}"', 1.0)({"x": 3}) == 3


@pytest.mark.parametrize(
    "command", ["echo {x:q}", "echo {x:99999999999}", "echo {x:.99999999999f}", "echo {x!z}"]
)
def test_forms_that_no_number_has(command):
    with pytest.raises(DseError, match=r"^command: cannot read"):
        check_command(command, {"x": 1})


def test_a_form_that_one_value_does_not_have():
    with pytest.raises(DseError, match=r"^command: cannot write"):
        commanded("echo {x:d}", 1.0)({"x": 0.5})


def test_a_journal_serves_one_run_at_a_time(candidates, measure, tmp_path):
    """Three runs would measure three times what the budget says."""
    notes = tmp_path / "run.jsonl"
    refused = []

    def measured_with_another(configuration):
        with pytest.raises(DseError, match=r"run.jsonl: found a run that has not ended"):
            run(Tuner(candidates), measure, 3, journal=notes)
        refused.append(1)
        return measure(configuration)

    run(Tuner(candidates), measured_with_another, 3, journal=notes)
    assert len(refused) == len(notes.read_text().splitlines()) == 3
    assert len(run(Tuner(candidates), measure, 4, journal=notes).measured) == 4


@pytest.mark.parametrize(
    "line",
    [
        "[" * 100_000,
        '{"parameters": 3, "seconds": 1}',
        '{"seconds": 1}',
        '{"parameters": {"x": ' + "9" * 5000 + '}, "seconds": 1}',
        '{"parameters": {}, "seconds": 1}',
        "null",
    ],
)
def test_lines_that_are_no_measurement(candidates, measure, tmp_path, line):
    notes = tmp_path / "run.jsonl"
    notes.write_text(f"{line}\n")
    with pytest.raises(DseError, match=r"run.jsonl: line 1: found") as error:
        run(Tuner(candidates), measure, 3, journal=notes)
    assert len(str(error.value)) < 400
