"""The execution profile as a trace and as a drawing."""

import json
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from dse.errors import DseError
from dse.report.timeline import chrome_trace, draw, pack, save
from dse.simulator.result.profile import Profile


def make(entries, subsystems=("computation", "memory"), labels=(), makespan=None):
    """A profile of rows (time, λ, Λ, warp, group, instruction, subsystem)."""
    columns = np.array(entries, float).reshape(-1, 7).T
    time, throughput_cycles, latency_cycles = columns[:3]
    warp, group, instruction, subsystem = columns[3:].astype(int)
    return Profile(
        time=time,
        accepts=time + throughput_cycles,
        done=time + latency_cycles,
        warp=warp,
        group=group,
        program=np.zeros(len(time), int),
        instruction=instruction,
        subsystem=subsystem,
        waited_for=np.full(len(time), -1),
        critical=np.zeros(0, int),
        subsystems=subsystems,
        labels=labels,
        makespan=float((time + latency_cycles).max(initial=0)) if makespan is None else makespan,
    )


# One warp of the Pipeline paper's example kernel, Fig. 8 (top): 25 cycles, all of it on the critical path.
EXAMPLE = make(
    [
        (0, 1, 4, 0, 0, 0, 0),
        (1, 1, 4, 0, 0, 1, 0),
        (5, 2, 6, 0, 0, 2, 1),
        (11, 1, 4, 0, 0, 3, 0),
        (15, 1, 4, 0, 0, 4, 0),
        (19, 2, 6, 0, 0, 5, 1),
    ],
    labels=(("C0", "C1", "M2", "C3", "", "M5"),),
)


@st.composite
def rows(draw_one):
    """Rows of a profile, in order, and its subsystems: none enters one that is still occupied."""
    subsystems = draw_one(st.integers(1, 3))
    cycles = st.sampled_from([0.0, 0.0, 0.1, 0.25, 1.0, 2.0, 7.3, 40.0])
    free, now, entries = [0.0] * subsystems, 0.0, []
    for i in range(draw_one(st.integers(0, 12))):
        s = draw_one(st.integers(0, subsystems - 1))
        throughput_cycles, latency_cycles = draw_one(cycles), draw_one(cycles)
        now = max(now, free[s]) + draw_one(cycles)
        free[s] = now + throughput_cycles
        entries.append((now, throughput_cycles, latency_cycles, draw_one(st.integers(0, 3)), i // 5, i, s))
    return entries, tuple(f"s{k}" for k in range(subsystems))


def read(trace):
    """(begin, end, name, args) of each slice, by (process, track), as a viewer pairs the events."""
    names, stacks, slices = {}, defaultdict(list), defaultdict(list)
    last = -1.0
    for item in trace["traceEvents"]:
        if item["ph"] == "M":
            if item["name"].endswith("_name"):
                key = (item["name"], item["pid"], item.get("tid"))
                assert key not in names
                names[key] = item["args"]["name"]
            continue
        track = names["process_name", item["pid"], None], names["thread_name", item["pid"], item["tid"]]
        assert item["ts"] >= last
        last = item["ts"]
        if item["ph"] == "B":
            assert not stacks[track]  # slices of one track do not overlap
            stacks[track].append(item)
        else:
            assert item["ph"] == "E"
            begun = stacks[track].pop()
            slices[track].append((begun["ts"], item["ts"], begun["name"], begun["args"]))
    assert not any(stacks.values())
    tids = [key[2] for key in names if key[0] == "thread_name"]
    pids = [key[1] for key in names if key[0] == "process_name"]
    assert len(set(tids) | set(pids)) == len(tids) + len(pids)
    assert len(set(names.values())) == len(names)
    return slices


@given(rows())
def test_a_trace_holds_every_entry_twice(drawn):
    profile = make(*drawn)
    trace = chrome_trace(profile)
    text = json.dumps(trace, allow_nan=False)
    assert text == json.dumps(chrome_trace(profile), allow_nan=False)
    expected, actual = Counter(), Counter()
    lanes = 0
    for i in range(len(profile.time)):
        entry = (int(profile.group[i]), int(profile.instruction[i]), profile.time[i])
        expected["subsystems", profile.subsystems[profile.subsystem[i]], *entry, profile.accepts[i]] += 1
        expected["warps", f"warp {profile.warp[i]}", *entry, profile.done[i]] += 1
    for (process, track), slices in read(json.loads(text)).items():
        kind = process.split(":")[0]
        lanes += "(2)" in track
        for begin, end, name, args in slices:
            assert name == str(args["instruction"])
            assert args["λ" if kind == "subsystems" else "Λ"] == pytest.approx(end - begin)
            actual[kind, track.split(" (")[0], args["group"], args["instruction"], begin, end] += 1
    assert actual == expected
    event(f"overlapping instructions of a warp: {lanes > 0}")


spans = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8)), max_size=15)


@given(spans)
def test_rows_hold_no_two_at_once_and_are_as_few_as_can_be(spans):
    begin = np.array([b for b, _ in spans], float)
    end = np.array([b + d for b, d in spans], float)
    rows = pack(begin, end)
    for i in range(len(spans)):
        for j in range(i):
            assert rows[i] != rows[j] or end[i] <= begin[j] or end[j] <= begin[i]
    if all(d > 0 for _, d in spans):
        deepest = max((sum(b <= t < b + d for b, d in spans) for t in range(30)), default=0)
        assert rows.max(initial=-1) + 1 == deepest


def layers(chart):
    return chart.to_dict()["layer"]


def bars(chart):
    return chart.to_dict(validate=False)["layer"][1]["data"]["values"]


@pytest.mark.slow
@settings(max_examples=6)  # Altair checks each drawing against its schema
@given(rows())
def test_bars_are_the_entries(drawn):
    profile = make(*drawn)
    actual = bars(draw(profile))
    assert len(actual) == len(profile.time)
    for bar, time, accepts, done, warp in zip(
        actual, profile.time, profile.accepts, profile.done, profile.warp, strict=True
    ):
        assert (bar["time"], bar["warp"]) == (time, warp)
        assert (bar["throughput_cycles"], bar["latency_cycles"]) == (accepts - time, done - time)
        assert bar["accepts"] >= accepts  # at least a pixel
        assert bar["leaves"] >= max(accepts, done)
    for s in range(
        len(profile.subsystems)
    ):  # what is under way at a time lies in rows apart, within the band
        own = [bar for bar, k in zip(actual, profile.subsystem, strict=True) if k == s]
        for i, single in enumerate(own):
            for other in own[:i]:
                cycles = max(other["throughput_cycles"], other["latency_cycles"])
                apart = other["time"] + cycles <= single["time"] + 1e-9
                assert apart or abs(single["row"] - other["row"]) >= 1
        for other, k in zip(actual, profile.subsystem, strict=True):
            if own and k > s:
                assert other["row"] >= max(bar["row"] for bar in own) + 1


def test_the_title_names_what_was_simulated_and_how_many_entries_are_shown():
    chart = draw(EXAMPLE, title="toy on A100: block=64, items=2\n5 of 9 blocks", cycle_s=0.5e-9)
    spec = chart.to_dict()
    assert spec["title"]["text"] == "toy on A100"
    assert spec["title"]["subtitle"][:3] == [
        "block=64, items=2",
        "5 of 9 blocks",
        "Execution profile, cycles 0 to 25",
    ]
    assert layers(chart)[1]["layer"][0]["encoding"]["x"]["title"] == "cycles of an SM (0.5 ns each)"
    chart = draw(make([(i, 1, 3, i % 4, 0, 0, 0) for i in range(2_000)]), most=100)
    assert len(bars(chart)) == 100
    spec = chart.to_dict()
    assert spec["title"]["text"] == "Execution profile, cycles 0 to 100 (first 100 of 2,000 entries)"
    assert spec["layer"][1]["layer"][0]["encoding"]["x"]["scale"]["domain"] == [0, 100]


def test_a_window_shows_what_is_under_way_in_it():
    labels = [bar["label"] for bar in bars(draw(EXAMPLE, window=(5, 15)))]
    assert labels == ["M2", "C3"]  # C1 is done at the beginning, C4 enters at the end
    chart = draw(EXAMPLE, window=(8, 15))
    for layer in layers(chart)[1]["layer"]:
        assert layer["encoding"]["x"]["scale"]["domain"] == [8, 15]
    (m2, c3) = bars(chart)
    assert (m2["light_from"], m2["light_to"]) == (8, 11)  # its name stands where it can be seen
    assert (c3["solid_from"], c3["solid_to"]) == (11, 12)
    for window in ((5, 5), (6, 5)):
        with pytest.raises(
            DseError, match=f"^window: found {window[0]} to 5, expected a finite one, from first to last$"
        ):
            draw(EXAMPLE, window=window)


def test_saving(tmp_path):
    save(EXAMPLE, tmp_path / "a.json", critical=[0, 5])
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert json.loads(text) == chrome_trace(EXAMPLE, critical=[0, 5])
    save(EXAMPLE, tmp_path / "a.svg", window=(0, 5), most=1)
    assert "C0" in (tmp_path / "a.svg").read_text(encoding="utf-8")
    for name, message in (
        ("a.txt", "suffix: found '.txt', expected .json, .svg"),
        ("none/a.json", "no folder"),
    ):
        with pytest.raises(DseError, match=message):
            save(EXAMPLE, tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "a.svg"]
