"""Curves of latency by percentile: what a median hides, and what those see who wait longest."""

from typing import Final

from resprout.pipeline.report.figures import Figure, FigureAxis, Shape

_AXIS: Final = FigureAxis("percentile", "percentile")
_NOTE: Final = "At 99, what 99 of 100 deliveries do not exceed; the more nines, the further to the right."


def percentile_figure(
    panels: FigureAxis,
    rows: FigureAxis | None = None,
    series: FigureAxis | None = None,
    measure: str = "latency_percentiles",
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
