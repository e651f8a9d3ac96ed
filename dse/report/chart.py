"""Line charts: throughput against occupancy, and over all pairs of occupancy and group size."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import altair

Row = Mapping[str, Any]

WIDTH = 720  # of the axes, pixels; labels and legend bring a chart to about 900
# Any two lie at least 18 units of CIELAB apart, and 25 from black, for common vision and, by the matrices of
# Machado et al. (2009), for protanopia, deuteranopia and tritanopia. The first few are the most distinct.
COLOURS = (
    "#008DF9",
    "#EE7733",
    "#661100",
    "#000088",
    "#888888",
    "#AA4499",
    "#FFC33B",
    "#9F0162",
    "#E20134",
    "#8400CD",
    "#00C2F9",
    "#117733",
)
DASHES = ((1, 0), (7, 3), (2, 2), (9, 3, 2, 3), (4, 4))  # 5 and 12: a look recurs after 60 series
MEASURED = "#000000"

_Chart = TypeVar("_Chart", bound="altair.TopLevelMixin")


def occupancy_curve(
    rows: Sequence[Row],
    *,
    title: str = "",
    subtitle: str = "",
    x: str = "warps",
    y: str = "throughput",
    series: str = "model",
    x_title: str = "resident warps",
    y_title: str = "throughput",
    measured: str | None = None,
) -> "altair.LayerChart":
    """Draw throughput against resident warps, a line for each value of `series`.

    `measured` names the series that is no model: black, and first in the legend. A value that is not
    finite leaves a gap.
    """
    from dse.report.grammar import alt

    points = [{"x": _plain(row[x]), "y": _plain(row[y]), "series": _plain(row[series])} for row in rows]
    axis = alt.Axis(tickMinStep=1, labelFlush=False)
    lines = _lines(
        points,
        alt.X("x:Q", title=x_title, scale=alt.Scale(zero=True, nice=False), axis=axis),
        alt.Y("y:Q", title=y_title, scale=alt.Scale(zero=True)),
        _order(points, measured),
        measured,
        tooltip=[
            alt.Tooltip("series:N", title=series),
            alt.Tooltip("x:Q", title=x_title),
            alt.Tooltip("y:Q", title=y_title, format=".4g"),
        ],
    )
    titles = alt.TitleParams(title, subtitle=textwrap.wrap(subtitle, 110)) if subtitle else title
    return styled(lines.properties(width=WIDTH, height=400, title=titles))


def steps(
    rows: Sequence[Row],
    *,
    title: str = "",
    occupancy: str = "warps",
    group: str = "group_size",
    y: str = "throughput",
    series: str = "model",
    panel: str = "gpu",
    y_title: str = "throughput",
    measured: str | None = None,
) -> "altair.VConcatChart":
    """Draw throughput over all pairs of occupancy and group size, sorted by the one, then by the other.

    A panel for each value of `panel`, a line for each value of `series`, a band for each occupancy.
    """
    from dse.report.grammar import alt

    order = _order([{"series": _plain(row[series])} for row in rows], measured)
    panels = []
    for name in dict.fromkeys(_plain(row[panel]) for row in rows):
        here = [row for row in rows if _plain(row[panel]) == name]
        pairs = sorted({(_plain(row[occupancy]), _plain(row[group])) for row in here})
        at = {pair: i for i, pair in enumerate(pairs)}
        points = [
            {
                "x": at[_plain(row[occupancy]), _plain(row[group])],
                "y": _plain(row[y]),
                "series": _plain(row[series]),
                "occupancy": _plain(row[occupancy]),
                "group": _plain(row[group]),
            }
            for row in here
        ]
        scale = alt.Scale(domain=[-0.5, len(pairs) - 0.5], nice=False)
        no_axis = alt.X("from:Q", scale=scale, axis=None)
        bands = _bands([pair[0] for pair in pairs])
        shades = (
            alt.Chart(alt.Data(values=bands[::2])).mark_rect(color="#EDEDED").encode(x=no_axis, x2="to:Q")
        )
        labels = (
            alt.Chart(alt.Data(values=[band for band in bands if band["label"]]))
            .mark_text(baseline="top", dy=6, fontSize=11, clip=False)
            .encode(x=alt.X("middle:Q", scale=scale, axis=None), y=alt.value(280), text="label:N")
        )
        lines = _lines(
            points,
            alt.X("x:Q", scale=scale, axis=None),
            alt.Y("y:Q", title=y_title, scale=alt.Scale(zero=True)),
            order,
            measured,
            tooltip=[
                alt.Tooltip("series:N", title=series),
                alt.Tooltip("occupancy:Q", title="warps"),
                alt.Tooltip("group:Q", title="group size"),
                alt.Tooltip("y:Q", title=y_title, format=".4g"),
            ],
            size=14,
        )
        panels.append(alt.layer(shades, lines, labels).properties(width=WIDTH, height=280, title=str(name)))
    subtitle = "bands: resident warps; within one, group size rises to the right"
    heading = alt.TitleParams(title, subtitle=subtitle)
    return styled(alt.vconcat(*panels, spacing=36, title=heading))


def styled(chart: _Chart) -> _Chart:
    """Give a chart the look that all charts have."""
    return (
        chart.configure_axis(
            labelFontSize=12, titleFontSize=13, titleFontWeight="normal", gridColor="#E5E5E5"
        )
        .configure_legend(labelFontSize=12, titleFontSize=12, labelLimit=220)
        .configure_title(fontSize=15, subtitleFontSize=12, anchor="start", offset=12)
        .configure_view(stroke=None)
    )


def _lines(
    points: Sequence[Row],
    x: "altair.X",
    y: "altair.Y",
    order: Sequence[str],
    measured: str | None,
    tooltip: Sequence["altair.Tooltip"],
    size: int = 40,
) -> "altair.LayerChart":
    """Draw lines with points, told apart by colour and dash; the measured one in black, above the others."""
    from dse.report.grammar import alt

    models = [name for name in order if name != measured]
    looks = {name: (COLOURS[i % len(COLOURS)], DASHES[i % len(DASHES)]) for i, name in enumerate(models)}
    if measured is not None:
        looks[measured] = (MEASURED, DASHES[0])
    colours = alt.Scale(domain=list(order), range=[looks[name][0] for name in order])
    dashes = alt.Scale(domain=list(order), range=[list(looks[name][1]) for name in order])
    legend = alt.Legend(
        title=None, orient="right", symbolType="stroke", symbolSize=900, rowPadding=-8, symbolStrokeWidth=2
    )

    chart = alt.Chart(alt.Data(values=sorted(points, key=lambda point: point["series"] == measured)))
    line = chart.mark_line(strokeWidth=1.8, strokeJoin="round").encode(
        x=x,
        y=y,
        order="x:Q",
        stroke=alt.Stroke("series:N", scale=colours, legend=legend),
        strokeDash=alt.StrokeDash("series:N", scale=dashes, legend=legend),
    )
    # fill, not colour: its legend can be left out
    point = chart.mark_circle(size=size, opacity=1).encode(
        x=x, y=y, fill=alt.Fill("series:N", scale=colours, legend=None), tooltip=list(tooltip)
    )
    return alt.LayerChart(layer=[line, point])


def _order(points: Sequence[Row], measured: str | None) -> list[Any]:
    """Return the series as they come, the measured one first."""
    names = list(dict.fromkeys(point["series"] for point in points))
    return sorted(names, key=lambda name: name != measured)


def _bands(occupancies: Sequence[Any]) -> list[dict[str, Any]]:
    """Find where each run of one occupancy lies, labelled wherever the labels keep clear of one another."""
    room = 22 * len(occupancies) / WIDTH  # of one label
    bands, last = [], -math.inf
    start = 0
    for value, run in groupby(occupancies):
        end = start + len(list(run))
        middle = (start + end - 1) / 2
        shown = middle - last >= room
        last = middle if shown else last
        bands.append(
            {"from": start - 0.5, "to": end - 0.5, "middle": middle, "label": str(value) if shown else ""}
        )
        start = end
    return bands


def _plain(x: Any) -> Any:
    """Return a value in Python's own types; a number that is not finite as None."""
    x = x.item() if hasattr(x, "item") else x
    return None if isinstance(x, float) and not math.isfinite(x) else x
