"""The curves of a measured GPU, a panel for each, on one page."""

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
    """Draw a panel for each name of `charts`, of the rows that have it as `chart`; a line for each `series`.

    Rows have `chart`, `series`, `x` and `y`; the titles of both axes are in `charts`.
    """
    from dse.report.grammar import alt

    panels = []
    for name, (x_title, y_title) in charts.items():
        own = [row for row in rows if row["chart"] == name]
        if not own:
            continue
        order = list(dict.fromkeys(row["series"] for row in own))
        looks = [(COLOURS[i % len(COLOURS)], list(DASHES[i % len(DASHES)])) for i in range(len(order))]
        # A logarithmic axis has no place for 0.
        scale = alt.Scale(type="log", base=2) if name in LOGARITHMIC else alt.Scale()
        x = alt.X("x:Q", title=x_title, scale=scale)
        colours = alt.Scale(domain=order, range=[colour for colour, _ in looks])
        dashes = alt.Scale(domain=order, range=[dash for _, dash in looks])
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
