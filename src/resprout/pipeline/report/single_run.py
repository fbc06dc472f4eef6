"""A run that is shown by itself: what it was, what happened in it, how long messages took, who had how much to do."""

from collections.abc import Sequence
from typing import Final

from resprout.pipeline.report import measures
from resprout.pipeline.report.charts import charts
from resprout.pipeline.report.facts import RunFacts
from resprout.pipeline.report.figures import Figure, FigureAxis, grid_of, in_order
from resprout.pipeline.report.happenings import sentence, worth_telling
from resprout.pipeline.report.markup import Content, Markup, element
from resprout.pipeline.report.number_tables import boxed_table, cells_of, header, rows_by_label
from resprout.pipeline.report.over_time import over_time
from resprout.pipeline.report.quantities import NONE, Quantity, style_for
from resprout.pipeline.report.sections import GivenCommand, anchor
from resprout.pipeline.report.standing import standing_of, tag
from resprout.pipeline.report.trail import Trail
from resprout.pipeline.tables import LatencyRow, RepairRow

BROKERS_MAX: Final = 24
"""Brokers that can be told apart in a chart; the table has any number."""
_LOAD: Final = Figure(
    title="Load of each node",
    measure=measures.BROKER_LOAD,
    value="frames sent for each publication",
    x=FigureAxis("broker", "broker"),
)
_LOAD_COLUMNS: Final = ("frames_sent", "bytes_sent", "frames_received", "bytes_received", "published", "delivered")


def run_section(facts: RunFacts, trail: Trail, asked: GivenCommand) -> Markup:
    run = facts.run
    return element(
        "section",
        element("h2", run.scenario or run.experiment),
        element("p", tag(standing_of(facts)), f" {_size(facts)}"),
        element("div", _happened(trail), _repairs(facts.repairs), class_="beside"),
        over_time(trail, facts.repairs),
        _latencies(facts.latency),
        _load(facts),
        _again(trail, asked),
        id=anchor(run.experiment),
    )


def _size(facts: RunFacts) -> str:
    run = facts.run
    ended = {"quiescent": "came to rest", "timeout": "hit its time limit"}.get(run.ended, f"ended: {run.ended}")
    return (
        f"Stack {run.stack}, seed {run.seed}: {run.brokers} brokers, {run.clients} clients,"
        f" {run.publications:,} publications, {run.deliveries:,} deliveries in {run.duration_us / 1e6:,.1f} s;"
        f" the run {ended}."
    )


def _happened(trail: Trail) -> Markup | None:
    told = list(worth_telling(trail.happenings))
    if not told:
        return None
    rows = [(_seconds(one.time_us), sentence(one)) for one in told]
    heads = element("tr", element("th", "at, s", scope="col", class_="num"), element("th", "what", scope="col"))
    cells = [element("tr", element("td", at, class_="num"), element("td", what)) for at, what in rows]
    more = element("p", f"... and {trail.left_out:,} more.", class_="quiet") if trail.left_out else None
    table = boxed_table("Faults, and what brokers noted about their repairs", heads, cells, "What happened")
    return element("div", element("h3", "What happened"), table, more)


def _seconds(us: int) -> str:
    return f"{us / 1e6:,.3f}"


def _repairs(repairs: Sequence[RepairRow]) -> Markup | None:
    if not repairs:
        return None
    rows = [((" ".join(one.dead),), cells_of(_repair(one), numeric_from=2)) for one in repairs]
    names = ("repaired", "cause", "led by", "noticed, ms", "took, ms", "round trips", "requests")
    about = (
        "Noticed: from the fault to the beginning of the repair. Took: from there until the last broker around the "
        "dead had its place. A round trip is there and back over the slowest link around the dead; requests are those "
        "for a parent."
    )
    table = boxed_table(about, header(*names, numeric_from=3), rows_by_label(rows), "Repairs")
    return element("div", element("h3", "Repairs"), table)


def _repair(one: RepairRow) -> tuple[str, ...]:
    trips = NONE
    if one.duration_us is not None and one.round_trip_us:
        trips = f"{one.duration_us / one.round_trip_us:.2f}"
    return one.cause or NONE, one.node, _ms(one.detection_us), _ms(one.duration_us), trips, _count(one.rounds)


def _ms(us: int | None) -> str:
    return NONE if us is None else f"{us / 1e3:,.1f}"


def _count(number: int | None) -> str:
    return NONE if number is None else f"{number:,}"


def _latencies(found: Sequence[LatencyRow]) -> list[Content]:
    if not found:
        return []
    style = style_for(Quantity.TIME_US, [one.median_us for one in found])
    rows = []
    for one in found:
        waits = (one.mean_us, one.median_us, one.p95_us, one.p99_us, one.max_us)
        rows.append(((one.guarantee, one.phase), cells_of([f"{one.count:,}", *map(style.number, waits)])))
    names = ("guarantee", "phase", "deliveries", "mean", "median", "95 %", "99 %", "longest")
    about = (
        f"From publish to deliver, in {style.unit.name}. The phase, before, during or after the repairs, is that in"
        " which it was published; 95 % is what 95 of 100 deliveries do not exceed."
    )
    table = boxed_table(about, header(*names, numeric_from=2), rows_by_label(rows), "Latency of each guarantee")
    return [element("h3", "Latency of each guarantee"), table]


def _load(facts: RunFacts) -> list[Content]:
    tables = [table for role in in_order(one.role for one in facts.load) if (table := _load_table(facts, role))]
    if not tables:
        return []
    grid = grid_of(_LOAD, [facts])
    if grid is None or len(grid.xs) > BROKERS_MAX:
        return [element("h3", _LOAD.title), tables]
    caption = "Frames that each broker sent on all its links, for each publication of the run."
    drawn = element("figure", charts(grid), element("figcaption", caption))
    return [element("h3", _LOAD.title), element("div", drawn, element("div", tables), class_="beside")]


def _load_table(facts: RunFacts, role: str) -> Markup | None:
    """Columns that nobody has anything in are left out."""
    some = [one for one in facts.load if one.role == role]
    used = [name for name in _LOAD_COLUMNS if any(getattr(one, name) for one in some)]
    if not used:
        return None
    order = in_order(one.node for one in some)
    nodes = sorted(some, key=lambda one: order.index(one.node))
    rows = [((one.node,), cells_of(_count(getattr(one, name)) for name in used)) for one in nodes]
    heads = header(role, *(name.replace("_", " ") for name in used))
    return boxed_table(f"What went through each {role}", heads, rows_by_label(rows), f"Load of each {role}")


def _again(trail: Trail, asked: GivenCommand) -> list[Content]:
    if trail.recipe is None:
        return [element("h3", "Make this page again"), element("pre", asked.report, tabindex="0")]
    return [
        element("h3", "Make it again"),
        element(
            "p", "In virtual time, with the scenario below in a file; with real processes, say run instead of sim."
        ),
        element("pre", f"resprout sim scenario.toml --trace DIR\n{asked.report}", tabindex="0"),
        element("details", element("summary", "scenario.toml"), element("pre", trail.recipe, tabindex="0")),
    ]
