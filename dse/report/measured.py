"""The curves of a measured GPU, a panel each, on one page."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dse.report.chart import COLOURS, DASHES, WIDTH, styled

if TYPE_CHECKING:
    import altair

Row = Mapping[str, Any]

HEIGHT = 300
LOGARITHMIC = ("latency", "strided reads", "instruction mix")  # x doubles from point to point


def curves(
    rows: Sequence[Row], charts: Mapping[str, tuple[str, str]], *, title: str = ""
) -> "altair.VConcatChart":
    """Draw a panel for each of `charts` with a line for each `series` of its rows.

    Rows have `chart`, `series`, `x` and `y`; `charts` holds the titles of both axes.
    """
    from dse.report.grammar import alt

    panels = []
    for name, (x_title, y_title) in charts.items():
        own = [row for row in rows if row["chart"] == name]
        if not own:
            continue
        order = list(dict.fromkeys(row["series"] for row in own))
        # A logarithmic axis cannot show 0.
        scale = alt.Scale(type="log", base=2) if name in LOGARITHMIC else alt.Scale()
        x = alt.X("x:Q", title=x_title, scale=scale)
        count = range(len(order))
        colours = alt.Scale(domain=order, range=[COLOURS[i % len(COLOURS)] for i in count])
        dashes = alt.Scale(domain=order, range=[list(DASHES[i % len(DASHES)]) for i in count])
        legend = alt.Legend(title=None, symbolType="stroke", symbolLimit=0, columns=1 + len(order) // 20)
        lines = (
            alt.Chart(alt.Data(values=[{key: row[key] for key in ("series", "x", "y")} for row in own]))
            .mark_line(point=True)
            .encode(
                x=x,
                y=alt.Y("y:Q", title=y_title, scale=alt.Scale(zero=name != "clock")),
                color=alt.Color("series:N", scale=colours, legend=legend),
                strokeDash=alt.StrokeDash("series:N", scale=dashes, legend=legend),
                tooltip=["series:N", "x:Q", alt.Tooltip("y:Q", format=".4g")],
            )
        )
        panels.append(lines.properties(width=WIDTH, height=HEIGHT, title=name))
    page = alt.vconcat(*panels, spacing=36, title=title)
    return styled(page.resolve_scale(color="independent", strokeDash="independent"))
