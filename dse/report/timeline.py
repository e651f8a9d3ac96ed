"""The execution profile of a simulated SM, as a trace or a drawing of all pipelines over time.

As in the Pipeline paper (Lemeire, Cornelis, Konstantinidis), Figs. 8 and 9: an instruction occupies the
entrance of its pipeline for λ cycles, and leaves it after Λ.
"""

import heapq
import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dse.core.files import replacing
from dse.data.tables import rows_of
from dse.errors import DseError
from dse.report.chart import COLOURS, WIDTH, styled
from dse.report.save import CHARTS, save_chart, suffix_of

if TYPE_CHECKING:
    import altair

    from dse.simulator.result.profile import Profile

HEIGHT = 900  # pixels of all rows, at most
ROW = 18  # pixels of a row, at most
LEGIBLE = 11  # least pixels of a row with names of instructions
LETTER = 6  # pixels


def save(
    profile: "Profile",
    path: Path | str,
    *,
    window: tuple[float, float] | None = None,
    most: int = 4000,
    critical: Sequence[int] | np.ndarray = (),
    title: str = "",
    cycle_s: float | None = None,
) -> None:
    """Write a profile: `.json` is a complete Chrome trace, `.svg`, `.png` and `.html` are drawings.

    **Raises:** DseError for another suffix, an empty window, or if the file cannot be written.
    """
    if suffix_of(path, (".json", *CHARTS)) == ".json":
        trace = chrome_trace(profile, critical=critical)
        text = json.dumps(trace, ensure_ascii=False, separators=(",", ":"))
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    else:
        chart = draw(profile, window=window, most=most, critical=critical, title=title, cycle_s=cycle_s)
        save_chart(chart, path)


def draw(
    profile: "Profile",
    *,
    window: tuple[float, float] | None = None,
    most: int = 4000,
    critical: Sequence[int] | np.ndarray = (),
    title: str = "",
    cycle_s: float | None = None,
) -> "altair.LayerChart":
    """Draw a bar for each entry: solid while it occupies the entrance, light until its result is ready.

    Each subsystem with entries is a band, with concurrent instructions below one another. `window` is the
    first and last cycle drawn. At most `most` entries are drawn, and the drawing ends where the next would
    begin. `critical` lists the entries on the critical path, each underlined as long as the next waits for
    it. `title` may have several lines; `cycle_s` is the duration of a cycle.

    **Raises:** DseError if the window is empty.
    """
    from dse.report.grammar import alt

    begin, end = window or (0.0, max(profile.makespan, profile.accepts.max(initial=0)) or 1.0)
    if not 0.0 < end - begin < np.inf:
        raise DseError(f"window: found {begin:g} to {end:g}, expected a finite one, from first to last")
    leaves = np.maximum(profile.accepts, profile.done)
    inside = (profile.time < end) & ((leaves > begin) | (profile.time >= begin))
    events = np.nonzero(inside | (window is None))[0]
    events = events[np.argsort(profile.time[events], kind="stable")]
    entry_count = len(events)
    note = ""
    if entry_count > most:
        end = max(float(profile.time[events[most]]), begin + 1.0)
        events = events[:most]
        note = f" (first {most:,} of {entry_count:,} entries)"

    bottoms, rows = _layout(profile, events, leaves)
    height = min(ROW * bottoms[-1], HEIGHT)
    bars = _bars(profile, events, rows, (begin, end))
    heading, *more = [
        *title.replace(": ", "\n", 1).splitlines(),
        f"Execution profile, cycles {begin:,.6g} to {end:,.6g}{note}",
    ]
    subtitle = [line for text in more for line in textwrap.wrap(text, 125)]
    subtitle.append("solid: occupies the entrance of its pipeline (λ); light: until its result is ready (Λ)")
    unit = f" ({1e9 * cycle_s:.3g} ns each)" if cycle_s else ""

    used = np.flatnonzero(np.diff(bottoms) > 0)
    if idle := [name for k, name in enumerate(profile.subsystems) if k not in used]:
        subtitle.append(f"nothing enters {', '.join(idle)}")
    names = [profile.subsystems[k] for k in used]
    middles = ((bottoms[used] + bottoms[used + 1]) / 2).tolist()
    across = partial(
        alt.X,
        title=f"cycles of an SM{unit}",
        scale=alt.Scale(domain=[begin, end], nice=False, zero=False),
        axis=alt.Axis(tickMinStep=1, labelFlush=False),
    )
    down = partial(
        alt.Y,
        title=None,
        scale=alt.Scale(domain=[0, float(bottoms[-1])], reverse=True, nice=False),
        axis=alt.Axis(
            values=middles,
            labelExpr=f"{json.dumps(names, ensure_ascii=False)}[indexof({middles}, datum.value)]",
            labelLimit=140,
            labelPadding=8,
            grid=False,
            ticks=False,
            domain=False,
        ),
    )
    edges = [0.0, *bottoms[used + 1].tolist()]
    shaded = [{"top": top, "bottom": bottom} for top, bottom in zip(edges[:-1:2], edges[1::2], strict=True)]
    bands = alt.Chart(alt.Data(values=shaded)).mark_rect(color="black", opacity=0.05)
    layers: list[Any] = _rectangles(across, down, _colour(profile))
    if len(critical):
        subtitle[-1 if not idle else -2] += "; black line: critical path"
        row_of = dict(zip(events.tolist(), rows.tolist(), strict=True))
        layers.append(_underlines(profile, critical, row_of, across, down))
    if height >= LEGIBLE * bottoms[-1]:
        layers += _names(across, down)
    bands = bands.encode(x=alt.value(0), x2=alt.value(WIDTH), y=down("top:Q"), y2="bottom:Q")
    drawing = alt.LayerChart(
        layer=[bands, alt.LayerChart(layer=layers, data=alt.Data(values=bars))],
        width=WIDTH,
        height=float(height),
        title=alt.TitleParams(heading, subtitle=subtitle),
        description="; ".join([heading, *subtitle]),  # for screen readers
    )
    # Descriptions of thousands of rectangles for screen readers would multiply the size.
    return styled(drawing, aria=False)


def chrome_trace(profile: "Profile", *, critical: Sequence[int] | np.ndarray = ()) -> dict[str, Any]:
    """Convert the profile to the Trace Event Format of Perfetto and chrome://tracing, with 1 µs for a cycle.

    One process has a track for each subsystem, with slices of λ; another has the warps, with slices of Λ.
    Slices of a track must nest, so a warp has a track for each concurrent instruction. `critical`, the
    entries on the critical path, gets its own track, on which each lasts until the next enters. Begin and end
    events are used instead of complete ones, so that rounding in a viewer leaves no gaps.
    """
    args = rows_of(
        {
            "group": profile.group,
            "warp": profile.warp,
            "program": profile.program,
            "instruction": profile.instruction,
            "subsystem": np.array(profile.subsystems, object)[profile.subsystem],
            "λ": profile.accepts - profile.time,
            "Λ": profile.done - profile.time,
        }
    )
    names = [_label(profile, entry["program"], entry["instruction"]) for entry in args]
    heads: list[dict[str, Any]] = []
    slices: list[dict[str, Any]] = []

    def process(name: str) -> int:
        pid = 1 + sum(head["name"] == "process_name" for head in heads)
        heads.extend(_heads("process", name, pid, {"pid": pid}))
        return pid

    def track(pid: int, name: str, entries: np.ndarray, ends: np.ndarray) -> None:
        # Perfetto identifies a thread by its tid alone: tids are unique in the file and differ from pids.
        tid = 100 + sum(head["name"] == "thread_name" for head in heads)
        heads.extend(_heads("thread", name, tid, {"pid": pid, "tid": tid}))
        for i, end in zip(entries.tolist(), ends.tolist(), strict=True):
            ids = {"pid": pid, "tid": tid}
            begin = float(profile.time[i])
            slices.append({"name": names[i], "ph": "B", "ts": begin, **ids, "args": args[i]})
            slices.append({"ph": "E", "ts": max(begin, end), **ids})

    order = np.argsort(profile.time, kind="stable")
    pid = process("subsystems: λ, entrance occupied (1 µs = 1 cycle)")
    for k, name in enumerate(profile.subsystems):
        entries = order[profile.subsystem[order] == k]
        track(pid, name, entries, profile.accepts[entries])

    pid = process("warps: Λ, from entry to result (1 µs = 1 cycle)")
    warps = np.unique(profile.warp)
    digits = len(str(warps.max(initial=0)))  # some viewers sort by name
    for warp in warps.tolist():
        entries = order[profile.warp[order] == warp]
        lanes = pack(profile.time[entries], profile.done[entries])
        for lane in range(lanes.max(initial=-1) + 1):
            on_lane = entries[lanes == lane]
            name = f"warp {warp:0{digits}}" + f" ({lane + 1})" * (lane > 0)
            track(pid, name, on_lane, profile.done[on_lane])

    if len(critical):
        pid = process("critical path (1 µs = 1 cycle)")
        track(pid, "critical path", *_path(profile, critical))

    slices.sort(key=lambda event: event["ts"])  # stable: keeps a track's order at equal times
    return {
        "traceEvents": heads + slices,
        "displayTimeUnit": "ns",
        "otherData": {"time unit": "1 µs represents 1 cycle", "makespan in cycles": float(profile.makespan)},
    }


def pack(begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Assign each interval to the first row that is free when it begins."""
    rows = np.zeros(len(begin), int)
    busy: list[tuple[float, int]] = []  # (end, row)
    free: list[int] = []
    begins, ends = begin.tolist(), end.tolist()
    for i in np.argsort(begin, kind="stable").tolist():
        while busy and busy[0][0] <= begins[i]:
            heapq.heappush(free, heapq.heappop(busy)[1])
        row = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (ends[i], row))
        rows[i] = row
    return rows


def _heads(kind: str, name: str, index: int, ids: dict[str, int]) -> list[dict[str, Any]]:
    """Return the events with the name and the sort index of a process or thread."""
    return [
        {"name": f"{kind}_name", "ph": "M", **ids, "args": {"name": name}},
        {"name": f"{kind}_sort_index", "ph": "M", **ids, "args": {"sort_index": index}},
    ]


def _label(profile: "Profile", program: int, instruction: int) -> str:
    """Return the instruction's name, else its number."""
    names = profile.labels[program] if program < len(profile.labels) else ()
    return names[instruction] if instruction < len(names) and names[instruction] else str(instruction)


def _layout(profile: "Profile", events: np.ndarray, leaves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the edges of the subsystems' bands, [S + 1] from 0 down, and the row of each event."""
    bottoms = np.zeros(len(profile.subsystems) + 1)
    rows = np.zeros(len(events))
    for k in range(len(profile.subsystems)):
        inside = profile.subsystem[events] == k
        packed = pack(profile.time[events[inside]], leaves[events[inside]])
        rows[inside] = bottoms[k] + 0.25 + packed
        bottoms[k + 1] = bottoms[k] + (packed.max() + 1.5 if len(packed) else 0.0 if len(events) else 1.5)
    return bottoms, rows


def _path(profile: "Profile", critical: Sequence[int] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the entries of the critical path in order, with the begin of the next or the end of the last."""
    entries = np.asarray(critical, int)
    entries = entries[np.lexsort((entries, profile.time[entries]))]
    return entries, np.append(profile.time[entries[1:]], profile.makespan)


def _bars(
    profile: "Profile", events: np.ndarray, rows: np.ndarray, window: tuple[float, float]
) -> list[dict[str, Any]]:
    """Return the data of each entry's bar; solid parts are at least a pixel wide."""
    begin, end = window
    time, accepts, done = (x[events] for x in (profile.time, profile.accepts, profile.done))
    shown = np.maximum(accepts, time + (end - begin) / WIDTH)
    leaves = np.maximum(shown, done)
    numbers = zip(profile.program[events].tolist(), profile.instruction[events].tolist(), strict=True)
    return rows_of(
        {
            "row": rows,
            "time": time,
            "accepts": shown,
            "leaves": leaves,
            "label": [_label(profile, *place) for place in numbers],
            "solid_from": np.maximum(time, begin),  # visible ends of both parts, to place the name
            "solid_to": np.minimum(shown, end),
            "light_from": np.maximum(shown, begin),
            "light_to": np.minimum(leaves, end),
            "warp": profile.warp[events],
            "group": profile.group[events],
            "throughput_cycles": accepts - time,
            "latency_cycles": done - time,
        }
    )


def _rectangles(across: Callable[..., Any], down: Callable[..., Any], colour: Any) -> list["altair.Chart"]:
    """Draw the light and the solid part of each bar."""
    from dse.report.grammar import alt

    tooltip = [
        alt.Tooltip(f"{name}:{kind}", title=title)
        for name, kind, title in (
            ("label", "N", "instruction"),
            ("warp", "Q", "warp"),
            ("group", "Q", "group"),
            ("time", "Q", "enters"),
            ("throughput_cycles", "Q", "λ"),
            ("latency_cycles", "Q", "Λ"),
        )
    ]
    light = alt.Chart().transform_calculate(tail_top="datum.row + 0.16", tail_bottom="datum.row + 0.84")
    solid = alt.Chart().transform_calculate(top="datum.row + 0.06", bottom="datum.row + 0.94")
    return [
        light.mark_rect(clip=True, opacity=0.35).encode(
            x=across("accepts:Q"),
            x2="leaves:Q",
            y=down("tail_top:Q"),
            y2="tail_bottom:Q",
            color=colour,
            tooltip=tooltip,
        ),
        solid.mark_rect(clip=True)
        .encode(
            x=across("time:Q"), x2="accepts:Q", y=down("top:Q"), y2="bottom:Q", color=colour, tooltip=tooltip
        )
        .interactive(bind_y=False),  # on a page: pan and zoom along the cycles
    ]


def _underlines(
    profile: "Profile",
    critical: Sequence[int] | np.ndarray,
    row_of: Mapping[int, float],
    across: Callable[..., Any],
    down: Callable[..., Any],
) -> "altair.Chart":
    """Underline the critical path where its entries are drawn."""
    from dse.report.grammar import alt

    entries, ends = _path(profile, critical)
    drawn = [
        {"time": float(profile.time[i]), "end": end, "top": row_of[i] + 0.96, "bottom": row_of[i] + 1.06}
        for i, end in zip(entries.tolist(), ends.tolist(), strict=True)
        if i in row_of
    ]
    return (
        alt.Chart(alt.Data(values=drawn))
        .mark_rect(clip=True, fill="black")
        .encode(x=across("time:Q"), x2="end:Q", y=down("top:Q"), y2="bottom:Q")
    )


def _colour(profile: "Profile") -> Any:
    """Choose a colour for each warp, independent of the window; for many warps, from a gradient."""
    from dse.report.grammar import alt

    warps = np.unique(profile.warp).tolist()
    if len(warps) > len(COLOURS):
        legend = alt.Legend(gradientOpacity=1)
        scale = alt.Scale(scheme="viridis", domain=[warps[0], warps[-1]])
        return alt.Color("warp:Q", title="warp", scale=scale, legend=legend)
    scale = alt.Scale(domain=warps, range=list(COLOURS[: len(warps)]))
    return alt.Color("warp:N", title="warp", scale=scale, legend=alt.Legend(symbolOpacity=1))


def _names(across: Callable[..., Any], down: Callable[..., Any]) -> list["altair.Chart"]:
    """Write instructions' names into the solid part of bars, else the light part, if they fit.

    The viewer decides whether they fit, so names appear while zooming in.
    """
    from dse.report.grammar import alt

    need = f"({LETTER} * length(datum.label) + 4)"
    solid = "(scale('x', datum.solid_to) - scale('x', datum.solid_from))"
    light = "(scale('x', datum.light_to) - scale('x', datum.light_from))"
    ink = "luminance(scale('color', datum.warp)) > 0.3 ? 'black' : 'white'"
    chart = alt.Chart().transform_calculate(
        middle="datum.row + 0.5", centre="(datum.solid_from + datum.solid_to) / 2"
    )
    return [
        chart.mark_text(
            clip=True, fontSize=10, fill=alt.expr(ink), opacity=alt.expr(f"{solid} >= {need} ? 1 : 0")
        ).encode(x=across("centre:Q"), y=down("middle:Q"), text="label:N"),
        chart.mark_text(
            clip=True,
            fontSize=10,
            align="left",
            dx=3,
            opacity=alt.expr(f"{solid} < {need} && {light} >= {need} ? 1 : 0"),
        ).encode(x=across("light_from:Q"), y=down("middle:Q"), text="label:N"),
    ]
