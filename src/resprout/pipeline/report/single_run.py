"""A run that is shown by itself: what it was, what happened in it, how long messages took, what each broker had to do.

`over_time` draws the latency of the run over its time, with its faults and repairs: a panel for each guarantee, and one
for rates. `sentence` says in words what happened to the network.
"""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

import altair as alt
import msgspec
from markupsafe import Markup

from resprout.pipeline.report.charts import NARROW, ChartPlan, Panels, charts, lines_of, panel, planned, titled, y_axis
from resprout.pipeline.report.facts import Happening, RunFacts, RunStanding, TimeSlice, Trail, standing_of
from resprout.pipeline.report.figures import Figure, FigureAxis, Shape, grid_of, in_order, percentile_figure
from resprout.pipeline.report.measures import NONE, Quantity, Style, legible, style_for
from resprout.pipeline.report.output import GivenCommand
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
from resprout.pipeline.report.sections import PageFigure, PageLegend, figure_of, legend
from resprout.pipeline.report.trees import RepairPicture, repair_pictures
from resprout.pipeline.results import LatencyRow, RepairRow
from resprout.trace import kinds

SERIES: Final = ("median", "longest")
_LATENCY: Final = "latency"
_RATE: Final = "deliveries per second"

STRIKES: Final = frozenset((kinds.CRASH, kinds.FREEZE, kinds.CUT, kinds.PARTITION))

_WORDS: Final = {
    kinds.CRASH: "{node} dies",
    kinds.RECOVER: "{node} is back",
    kinds.FREEZE: "{node} freezes",
    kinds.UNFREEZE: "{node} continues",
    kinds.HANG: "{node} hangs",
    kinds.UNHANG: "{node} continues",
    kinds.DISK_LOW: "the disk of {node} is nearly full",
    kinds.DISK_FULL: "the disk of {node} is full",
    kinds.DISK_FREE: "the disk of {node} has room again",
    kinds.UNRESOLVE: "the name {node} does not resolve",
    kinds.RESOLVE: "the name {node} resolves",
    kinds.JOIN: "{node} is started and joins",
    kinds.LEAVE: "{node} is asked to leave",
    kinds.CUT: "the link between {node} and {detail} is cut",
    kinds.HEAL: "the link between {node} and {detail} works again",
    kinds.PARTITION: "{node} is cut off from the other side of a partition",
    kinds.REPAIR_BEGIN: "{node} begins to repair the tree around {detail}",
    kinds.REPAIR_END: "{node} has its place in the tree without {detail}",
    "fenced": "{node} ends its life: {detail}",
    "joined": "{node} joins below {detail}",
    "moved": "{node} moves to another parent: {detail}",
    kinds.QUIESCENT: "the run is idle: no message is on its way",
    kinds.TIMEOUT: "the time limit ends the run",
}

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


def over_time(trail: Trail, repairs: Sequence[RepairRow]) -> tuple[Markup, ...]:
    """None of a run in which nothing was delivered. The panels of latency share a scale."""
    if not trail.slices:
        return ()
    drawer = _Drawer(trail, repairs, style_for(Quantity.TIME_US, [one.max_us for one in trail.slices]))
    latency, rate = drawer.planned(drawer.latency_layers()), drawer.planned(drawer.rate_layers())
    panels = [
        (latency, drawer.latencies(one), f"{one}: latency") for one in in_order(s.guarantee for s in trail.slices)
    ]
    panels.append((rate, drawer.rates(), f"all: {_RATE}"))
    return tuple(plan.drawn(rows, title, f"{title} over the time of the run") for plan, rows, title in panels)


class _Drawer(msgspec.Struct, frozen=True):
    trail: Trail
    repairs: Sequence[RepairRow]
    style: Style

    def planned(self, layers: list[Any]) -> ChartPlan:
        return planned([*self._repairs(), *layers, *self._strikes()], NARROW)

    def latencies(self, guarantee: str) -> list[dict[str, Any]]:
        size = self.style.unit.size
        return [
            {"x": self._seconds(one.number + 0.5), "series": name, "value": us / size, "tip": self._tip(one)}
            for one in self.trail.slices
            if one.guarantee == guarantee
            for name, us in zip(SERIES, (one.median_us, one.max_us), strict=True)
        ]

    def latency_layers(self) -> list[Any]:
        most = max(one.max_us for one in self.trail.slices) / self.style.unit.size
        scale = alt.Scale(domain=[0, most or 1], nice=True)
        up = alt.Y("value:Q", scale=scale, axis=y_axis(titled(_LATENCY, self.style)))
        return [*lines_of(panel().encode(x=self._across, y=up), SERIES, thickness=1.8, points=12)]

    def rates(self) -> list[dict[str, Any]]:
        numbers = [one.number for one in self.trail.slices]
        counts = dict.fromkeys(range(min(numbers), max(numbers) + 1), 0)
        for one in self.trail.slices:
            counts[one.number] += one.deliveries
        rates = {number: count * 1e6 / self.trail.slice_us for number, count in counts.items()}
        return [
            {
                "x": self._seconds(number),
                "end": self._seconds(number + 1),
                "value": rate,
                "ground": 0,
                "tip": f"{self._seconds(number):,.2f} s: {rate:,.0f} {_RATE}",
            }
            for number, rate in rates.items()
        ]

    def rate_layers(self) -> list[Any]:
        base = panel().encode(x=self._across, x2="end:Q", description="tip:N")
        up = alt.Y("value:Q", scale=alt.Scale(zero=True, nice=True), axis=y_axis(_RATE))
        return [base.mark_rect(color="var(--f4)", stroke="var(--c4)", strokeWidth=0.5).encode(y=up, y2="ground:Q")]

    @property
    def _limits(self) -> tuple[float, float]:
        numbers = [one.number for one in self.trail.slices]
        return self._seconds(min(numbers)), self._seconds(max(numbers) + 1)

    @property
    def _across(self) -> Any:
        scale = alt.Scale(domain=list(self._limits), nice=False, zero=False)
        return alt.X("x:Q", scale=scale, axis=alt.Axis(title="time of the run, s", grid=False, tickCount=5))

    def _seconds(self, slices: float) -> float:
        return slices * self.trail.slice_us / 1e6

    def _tip(self, one: TimeSlice) -> str:
        median, longest = map(self.style.text, (one.median_us, one.max_us))
        return f"{self._seconds(one.number):,.2f} s: median {median}, longest {longest}, {one.deliveries:,} deliveries"

    def _repairs(self) -> list[Any]:
        """Shaded."""
        first, last = self._limits
        rows = [
            {
                "x": max(first, one.began_us / 1e6),
                "end": last if one.ended_us is None else min(last, one.ended_us / 1e6),
                "tip": legible(f"{' '.join(one.dead)} is repaired"),
            }
            for one in self.repairs
            if one.began_us / 1e6 <= last and (one.ended_us is None or one.ended_us / 1e6 >= first)
        ]
        base = alt.Chart(alt.InlineData(values=rows)).encode(x=self._across, x2="end:Q", description="tip:N")
        return [base.mark_rect(color="var(--mending)")] if rows else []

    def _strikes(self) -> list[Any]:
        """Upright lines."""
        first, last = self._limits
        rows = [
            {"x": one.time_us / 1e6, "tip": legible(f"{one.time_us / 1e6:,.3f} s: {sentence(one)}")}
            for one in self.trail.happenings
            if one.kind in STRIKES and first <= one.time_us / 1e6 <= last
        ]
        base = alt.Chart(alt.InlineData(values=rows)).encode(x=self._across, description="tip:N")
        return [base.mark_rule(color="var(--bad)", strokeWidth=1.6)] if rows else []


def sentence(one: Happening) -> str:
    if one.kind == kinds.HEAL and not one.detail:
        return "every cut is healed"
    return _WORDS.get(one.kind, "{node}: {kind} {detail}").format(node=one.node, kind=one.kind, detail=one.detail)


def worth_telling(happenings: Sequence[Happening]) -> Iterator[Happening]:
    """That the tree of the scenario comes to stand, and that a run without trouble ends, is no news."""
    is_quiet = True
    for one in happenings:
        is_quiet = is_quiet and one.kind in ("joined", kinds.QUIESCENT)
        if not is_quiet:
            yield one


class RunSection(msgspec.Struct, frozen=True, kw_only=True):
    TEMPLATE: ClassVar[str] = "run.html"

    id: str
    title: str
    standing: RunStanding
    size: str
    happened: PageTable | None
    left_out: int
    repairs: PageTable | None
    pictures: tuple[RepairPicture, ...]
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
        pictures=repair_pictures(trail.parents, trail.joins, facts.repairs),
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
