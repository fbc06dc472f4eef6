"""A run that is shown by itself: what it was, what happened in it, how long messages took, who had how much to do."""

from collections.abc import Sequence
from typing import ClassVar, Final

import msgspec
from markupsafe import Markup

from resprout.pipeline.report.charts import Panels, charts
from resprout.pipeline.report.facts import RunFacts, RunStanding, standing_of
from resprout.pipeline.report.figures import Figure, FigureAxis, Shape, grid_of, in_order, percentile_figure
from resprout.pipeline.report.output import GivenCommand
from resprout.pipeline.report.over_time import SERIES, over_time, sentence, worth_telling
from resprout.pipeline.report.page_figures import PageFigure, PageLegend, figure_of, legend
from resprout.pipeline.report.page_tables import (
    LabelledRow,
    PageCell,
    PageRow,
    PageTable,
    anchor,
    cells_of,
    header,
    rows_by_label,
)
from resprout.pipeline.report.quantities import NONE, Quantity, style_for
from resprout.pipeline.report.trail import Trail
from resprout.pipeline.tables import LatencyRow, RepairRow

BROKERS_MAX: Final = 24
"""Brokers that can be told apart in a chart; the table has any number."""
_LOAD: Final = Figure(
    title="Load of each node",
    measure="broker_load",
    value="frames sent for each publication",
    x=FigureAxis("broker", "broker"),
)
_LOAD_COLUMNS: Final = ("frames_sent", "bytes_sent", "frames_received", "bytes_received", "published", "delivered")
_PERCENTILES: Final = percentile_figure(
    panels=FigureAxis("phase", "phase"),
    series=FigureAxis("guarantee", "guarantee"),
    measure="percentiles_by_phase",
    note="By the phase of the repairs in which it was published; all: the whole run.",
)


class RunSection(msgspec.Struct, frozen=True, kw_only=True):
    TEMPLATE: ClassVar[str] = "run.html"

    id: str
    title: str
    standing: RunStanding
    size: str
    happened: PageTable | None
    left_out: int
    repairs: PageTable | None
    over_time: tuple[Markup, ...]
    over_time_legend: PageLegend
    slice_s: str
    latencies: PageTable | None
    percentiles: PageFigure | None
    load: Panels | None
    load_tables: tuple[PageTable, ...]
    recipe: str | None
    again: str


def run_section(facts: RunFacts, trail: Trail, asked: GivenCommand) -> RunSection:
    run = facts.run
    percentiles = grid_of(_PERCENTILES, [facts])
    return RunSection(
        id=anchor(run.experiment),
        title=run.scenario or run.experiment,
        standing=standing_of(facts),
        size=_size(facts),
        happened=_happened(trail),
        left_out=trail.left_out,
        repairs=_repairs(facts.repairs),
        over_time=over_time(trail, facts.repairs),
        over_time_legend=legend(SERIES, Shape.LINES),
        slice_s=f"{trail.slice_us / 1e6:,.3g}",
        latencies=_latencies(facts.latency),
        percentiles=None if percentiles is None else _without_table(figure_of(percentiles)),
        load=_load(facts),
        load_tables=tuple(
            table for role in in_order(one.role for one in facts.load) if (table := _load_table(facts, role))
        ),
        recipe=trail.recipe,
        again=asked.report,
    )


def _size(facts: RunFacts) -> str:
    run = facts.run
    ended = {"quiescent": "came to rest", "timeout": "hit its time limit"}.get(run.ended, f"ended: {run.ended}")
    return (
        f"Stack {run.stack}, seed {run.seed}: {run.brokers} brokers, {run.clients} clients,"
        f" {run.publications:,} publications, {run.deliveries:,} deliveries in {run.duration_us / 1e6:,.1f} s;"
        f" the run {ended}."
    )


def _happened(trail: Trail) -> PageTable | None:
    told = list(worth_telling(trail.happenings))
    if not told:
        return None
    heads = (PageRow((PageCell("at, s", scope="col", look="num"), PageCell("what", scope="col"))),)
    rows = [PageRow((PageCell(_seconds(one.time_us), look="num"), PageCell(sentence(one)))) for one in told]
    return PageTable("What happened", "Faults, and what brokers noted about their repairs", heads, tuple(rows))


def _seconds(us: int) -> str:
    return f"{us / 1e6:,.3f}"


def _repairs(repairs: Sequence[RepairRow]) -> PageTable | None:
    if not repairs:
        return None
    rows = [LabelledRow((" ".join(one.dead),), cells_of(_repair(one), numeric_from=2)) for one in repairs]
    names = ("repaired", "cause", "led by", "noticed, ms", "took, ms", "round trips", "requests")
    about = (
        "Noticed: from the fault to the beginning of the repair. Took: from there until the last broker around the "
        "dead had its place. A round trip is there and back over the slowest link around the dead; requests are those "
        "for a parent."
    )
    return PageTable("Repairs", about, header(*names, numeric_from=3), tuple(rows_by_label(rows)))


def _repair(one: RepairRow) -> tuple[str, ...]:
    trips = NONE
    if one.duration_us is not None and one.round_trip_us:
        trips = f"{one.duration_us / one.round_trip_us:.2f}"
    return one.cause or NONE, one.node, _ms(one.detection_us), _ms(one.duration_us), trips, _count(one.rounds)


def _ms(us: int | None) -> str:
    return NONE if us is None else f"{us / 1e3:,.1f}"


def _count(number: int | None) -> str:
    return NONE if number is None else f"{number:,}"


def _latencies(found: Sequence[LatencyRow]) -> PageTable | None:
    if not found:
        return None
    style = style_for(Quantity.TIME_US, [one.median_us for one in found])
    rows = []
    for one in found:
        waits = (one.mean_us, one.median_us, one.p90_us, one.p95_us, one.p99_us, one.p999_us, one.max_us)
        rows.append(LabelledRow((one.guarantee, one.phase), cells_of([f"{one.count:,}", *map(style.number, waits)])))
    names = ("guarantee", "phase", "deliveries", "mean", "median", "90 %", "95 %", "99 %", "99.9 %", "longest")
    about = (
        f"From publish to deliver, in {style.unit.name}. The phase, before, during or after the repairs, is that in"
        " which it was published; 95 % is what 95 of 100 deliveries do not exceed."
    )
    return PageTable("Latency of each guarantee", about, header(*names, numeric_from=2), tuple(rows_by_label(rows)))


def _without_table(figure: PageFigure) -> PageFigure:
    """The table of all latencies follows."""
    return msgspec.structs.replace(figure, table=None, is_beside=False)


def _load(facts: RunFacts) -> Panels | None:
    grid = grid_of(_LOAD, [facts])
    return None if grid is None or len(grid.xs) > BROKERS_MAX else charts(grid)


def _load_table(facts: RunFacts, role: str) -> PageTable | None:
    """Columns that nobody has anything in are left out."""
    some = [one for one in facts.load if one.role == role]
    used = [name for name in _LOAD_COLUMNS if any(getattr(one, name) for one in some)]
    if not used:
        return None
    order = in_order(one.node for one in some)
    nodes = sorted(some, key=lambda one: order.index(one.node))
    rows = [LabelledRow((one.node,), cells_of(_count(getattr(one, name)) for name in used)) for one in nodes]
    heads = header(role, *(name.replace("_", " ") for name in used))
    return PageTable(f"Load of each {role}", f"What went through each {role}", heads, tuple(rows_by_label(rows)))
