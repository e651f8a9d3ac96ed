"""The style of all charts: size, colours, dashes and fonts."""

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import altair

WIDTH = 720  # of the axes, pixels; with labels and legend about 900
# Any two differ by at least 18 units of CIELAB, and by 25 from black, for normal vision and, with matrices of
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
DASHES = ((1, 0), (7, 3), (2, 2), (9, 3, 2, 3), (4, 4))  # 5 and 12: styles repeat after 60 series

_Chart = TypeVar("_Chart", bound="altair.TopLevelMixin")


def styled(chart: _Chart, **options: Any) -> _Chart:
    """Apply the style of all charts, and further `options` of one."""
    return chart.configure(  # each call copies the chart, with its data
        axis={"labelFontSize": 12, "titleFontSize": 13, "titleFontWeight": "normal", "gridColor": "#E5E5E5"},
        legend={"labelFontSize": 12, "titleFontSize": 12, "labelLimit": 220},
        title={"fontSize": 15, "subtitleFontSize": 12, "anchor": "start", "offset": 12},
        view={"stroke": None},
        **options,
    )
