"""Altair, a grammar of charts, which comes with the extra `plot`: imported where a chart is drawn."""

from dse.core.optional import install, needs

with needs("altair", install("plot")):
    import altair as alt

__all__ = ["alt"]
