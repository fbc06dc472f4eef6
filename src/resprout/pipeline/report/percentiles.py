"""Curves of latency by percentile: what a median hides, and what those see who wait longest."""

from typing import Final

from resprout.pipeline.report import measures
from resprout.pipeline.report.figures import Figure, FigureAxis, Shape
from resprout.pipeline.report.measures import Measure

_AXIS: Final = FigureAxis("percentile", "percentile", is_percentile=True)
_NOTE: Final = "At 99, what 99 of 100 deliveries do not exceed; the more nines, the further to the right."


def percentile_figure(
    panels: FigureAxis,
    rows: FigureAxis | None = None,
    series: FigureAxis | None = None,
    measure: Measure = measures.LATENCY_PERCENTILES,
    note: str = "",
) -> Figure:
    """`series`: the stacks, unless it is said."""
    return Figure(
        title="Latency by percentile",
        measure=measure,
        value="latency",
        x=_AXIS,
        panels=panels,
        rows=rows,
        shape=Shape.LINES,
        series=series or FigureAxis("stack", "stack"),
        note=f"{_NOTE} {note}".strip(),
    )
