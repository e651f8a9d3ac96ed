"""Import of Altair, from the extra `plot`, when a chart is drawn."""

from dse.core.optional import install, needs

with needs("altair", install("plot")):
    import altair as alt

__all__ = ["alt"]
