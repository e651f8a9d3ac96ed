"""Charts of throughput against occupancy by several models: a few labelled lines, or a small panel a model.

Coinciding lines are merged, each line has its own colour, and the throughput axis is logarithmic, so that one
model far above the others does not flatten them.
"""

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dse.report.chart import COLOURS, WIDTH, styled
from dse.report.numbers import number, plain

if TYPE_CHECKING:
    import altair

Row = Mapping[str, Any]

ALIKE = 0.01  # largest relative difference of coinciding lines
FEW = 6  # lines in one panel
LABEL = 17  # pixels between the middles of labels
COLUMNS, PANEL = 4, (196, 132)  # of small panels, pixels
OTHERS, OWN = "#D5D9DD", "#1F5FA8"


def occupancy_curves(
    rows: Sequence[Row], *, title: str = "", subtitle: str = ""
) -> "altair.LayerChart | altair.ConcatChart":
    """Draw `throughput` against `warps`, a line for each `model` or several coinciding ones.

    Throughput is in warps per million cycles; values not finite and positive are omitted.
    """
    lines = _lines(rows)
    points = [
        {"line": name, "warps": warps, "throughput": value}
        for name, line in lines.items()
        for warps, value in line
    ]
    values = [point["throughput"] for point in points] or [1.0]
    domain = (min(values) / 1.25, max(values) * 1.25)
    most = max((point["warps"] for point in points), default=1)
    merged = any(", " in name for name in lines)
    notes = textwrap.wrap(subtitle, 130) + (
        [f"Models on one line agree within {ALIKE:.0%}."] if merged else []
    )
    draw = _together if len(lines) <= FEW else _panels
    drawn = draw(lines, points, domain, most, {"text": title, "subtitle": notes})
    description = title or "throughput against resident warps"  # for screen readers
    return styled(drawn.properties(description=f"{description}; lines: {'; '.join(lines)}"))


def _lines(rows: Sequence[Row]) -> dict[str, list[tuple[float, float]]]:
    """Return (warps, throughput) of each line; coinciding models share one."""
    models: dict[str, dict[float, float]] = {}
    for row in rows:
        warps, value = plain(row["warps"]), plain(row["throughput"])
        points = models.setdefault(str(row["model"]), {})
        if math.isfinite(value) and value > 0:
            points[warps] = value
    groups: list[tuple[list[str], dict[float, float]]] = []
    for name, line in models.items():
        same = next((names for names, first in groups if _coincide(first, line)), None)
        if same is None:
            groups.append(([name], line))
        else:
            same.append(name)
    return {", ".join(names): sorted(line.items()) for names, line in groups}


def _coincide(first: Mapping[float, float], other: Mapping[float, float]) -> bool:
    return first.keys() == other.keys() and all(abs(other[x] / y - 1) <= ALIKE for x, y in first.items())


def _axes(
    domain: tuple[float, float], most: float, *, size: int = 12, across: bool = True, **y_axis: Any
) -> tuple["altair.X", "altair.Y"]:
    """Both axes; `across`: whether the x axis has a title; `size`: of labels."""
    from dse.report.grammar import alt

    small: dict[str, Any] = {"labelFontSize": size, "titleFontSize": size}
    below = alt.Axis(
        tickMinStep=1,
        labelFlush=False,
        tickCount=6,
        title="warps resident on an SM" if across else None,
        **small,
    )
    beside = alt.Axis(values=_ticks(*domain), format=",~g", **small, **y_axis)
    scale = alt.Scale(type="log", domain=list(domain), nice=False)
    return (
        alt.X("warps:Q", axis=below, scale=alt.Scale(domain=[0, most], nice=False)),
        alt.Y("throughput:Q", scale=scale, axis=beside),
    )


def _ticks(low: float, high: float) -> list[float]:
    """Powers of ten, with their doubles and fivefolds if there would be few."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    multiples = (1, 2, 5) if high / low < 300 else (1,)
    return [m * 10.0**k for k in decades for m in multiples if low <= m * 10.0**k <= high]


def _tooltip() -> list["altair.Tooltip"]:
    from dse.report.grammar import alt

    return [
        alt.Tooltip("line:N", title="model"),
        alt.Tooltip("warps:Q"),
        alt.Tooltip("throughput:Q", title="warps per million cycles", format=".4g"),
    ]


def _together(
    lines: Mapping[str, list[tuple[float, float]]],
    points: list[dict[str, Any]],
    domain: tuple[float, float],
    most: float,
    title: dict[str, Any],
) -> Any:
    """Draw all lines in one panel, labelled at their ends."""
    from dse.report.grammar import alt

    height = 400
    x, y = _axes(domain, most, title="warps per million cycles")
    names = list(lines)
    colour = alt.Color(
        "line:N", scale=alt.Scale(domain=names, range=list(COLOURS[: len(names)])), legend=None
    )
    chart = alt.Chart().encode(x=x, y=y, color=colour)
    ends = {name: line[-1] for name, line in lines.items() if line}
    span = math.log(domain[1] / domain[0])
    heights = {name: height * math.log(domain[1] / value) / span for name, (_, value) in ends.items()}
    labels = [
        {"line": name, "throughput": domain[1] * math.exp(-y / height * span)}
        for name, y in zip(heights, apart(list(heights.values()), LABEL), strict=True)
    ]
    named = (
        alt.Chart(alt.Data(values=labels))
        .mark_text(align="left", dx=8, fontSize=12, clip=False)
        .encode(x=alt.value(WIDTH), y=y, text="line:N", color=colour)
    )
    drawn = alt.layer(
        chart.mark_line(strokeWidth=2, strokeJoin="round"),
        chart.mark_circle(size=30, opacity=1).encode(tooltip=_tooltip()),
        named,
        data=alt.Data(values=points),
    )
    return drawn.properties(width=WIDTH, height=height, title=alt.TitleParams(**title))


def _panels(
    lines: Mapping[str, list[tuple[float, float]]],
    points: list[dict[str, Any]],
    domain: tuple[float, float],
    most: float,
    title: dict[str, Any],
) -> "altair.ConcatChart":
    """Draw a panel for each line, with the others in grey, labelled with its last value."""
    from dse.report.grammar import alt

    width, height = PANEL
    everything = alt.Data(values=points)
    charts = []
    for i, (name, line) in enumerate(lines.items()):
        first = i % COLUMNS == 0
        x, y = _axes(
            domain,
            most,
            size=11,
            across=i + COLUMNS >= len(lines),
            title="warps per million cycles" if first else None,
            labels=first,
            ticks=first,
        )
        behind = (
            alt.Chart(everything).mark_line(strokeWidth=1, color=OTHERS).encode(x=x, y=y, detail="line:N")
        )
        own = [point for point in points if point["line"] == name]
        chart = alt.Chart(alt.Data(values=own))
        drawn = chart.mark_line(strokeWidth=2.2, color=OWN).encode(x=x, y=y)
        dots = chart.mark_circle(size=14, color=OWN, opacity=1).encode(x=x, y=y, tooltip=_tooltip())
        layers = [behind, drawn, dots]
        if line:
            # Above the line, or below if there is no room.
            up = math.log(domain[1] / line[-1][1]) / math.log(domain[1] / domain[0]) * height > 18
            end = [{"warps": line[-1][0], "throughput": line[-1][1], "label": number(line[-1][1])}]
            layers.append(
                alt.Chart(alt.Data(values=end))
                .mark_text(align="right", dy=-9 if up else 11, fontSize=11, color=OWN, fontWeight="bold")
                .encode(x=x, y=y, text="label:N")
            )
        heading = alt.TitleParams(
            textwrap.wrap(name, 30), fontSize=12, offset=6, anchor="start", fontWeight="bold"
        )
        charts.append(alt.layer(*layers).properties(width=width, height=height, title=heading))
    notes = [
        *title["subtitle"],
        "Blue: the model named above; grey: all others. The number is its last value.",
    ]
    return alt.concat(*charts, columns=COLUMNS, spacing={"row": 22, "column": 18}).properties(
        title=alt.TitleParams(title["text"], subtitle=notes, offset=16)
    )


def apart(wanted: Sequence[float], room: float) -> list[float]:
    """Move positions as little as needed so that neighbours are at least `room` apart."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    blocks: list[tuple[float, int]] = []  # (centre, count) of labels that touch and move together
    for i in order:
        centre, count = wanted[i], 1
        while blocks and centre - blocks[-1][0] < room * (count + blocks[-1][1]) / 2:
            last, last_count = blocks.pop()
            centre = (centre * count + last * last_count) / (count + last_count)
            count += last_count
        blocks.append((centre, count))
    positions = [0.0] * len(wanted)
    labels = iter(order)
    for centre, count in blocks:
        for k in range(count):
            positions[next(labels)] = centre + (k - (count - 1) / 2) * room
    return positions
