"""The look that all charts share: size, colours, dashes and fonts."""

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import altair

WIDTH = 720  # of the axes, pixels; labels and legend bring a chart to about 900
# Any two are at least 18 units of CIELAB apart, and 25 from black, for common vision and, by the matrices of
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

_Chart = TypeVar("_Chart", bound="altair.TopLevelMixin")


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
