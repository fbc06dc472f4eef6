"""The latency of a run over its time, with its faults and repairs: a panel for each guarantee, and one for rates.

`sentence` says in words what happened to the network.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import altair as alt
import msgspec
from markupsafe import Markup

from resprout.pipeline.report.charts import NARROW, lines_of, titled, y_axis
from resprout.pipeline.report.drawing import ChartPlan, panel, planned
from resprout.pipeline.report.figures import in_order
from resprout.pipeline.report.quantities import Quantity, Style, legible, style_for
from resprout.pipeline.report.trail import Happening, TimeSlice, Trail
from resprout.pipeline.tables import RepairRow
from resprout.trace import kinds

SERIES: Final = ("median", "longest")
_LATENCY: Final = "latency"
_RATE: Final = "deliveries per second"

STRIKES: Final = frozenset((kinds.CRASH, kinds.FREEZE, kinds.CUT, kinds.PARTITION))

_WORDS: Final = {
    kinds.CRASH: "{node} dies",
    kinds.RECOVER: "{node} is back",
    kinds.FREEZE: "{node} freezes",
    kinds.UNFREEZE: "{node} goes on",
    kinds.HANG: "{node} hangs",
    kinds.UNHANG: "{node} goes on",
    kinds.DISK_LOW: "there is little room on the disk of {node}",
    kinds.DISK_FULL: "the disk of {node} is full",
    kinds.DISK_FREE: "there is room on the disk of {node}",
    kinds.UNRESOLVE: "the name {node} does not resolve",
    kinds.RESOLVE: "the name {node} resolves",
    kinds.JOIN: "{node} is started, to join",
    kinds.LEAVE: "{node} is asked to leave",
    kinds.CUT: "nothing passes between {node} and {detail} any more",
    kinds.HEAL: "{node} and {detail} reach each other again",
    kinds.PARTITION: "{node} is on the far side of a cut",
    kinds.REPAIR_BEGIN: "{node} begins to repair what {detail} leaves behind",
    kinds.REPAIR_END: "{node} has its place again, without {detail}",
    "fenced": "{node} ends its life: {detail}",
    "joined": "{node} has a place below {detail}",
    "moved": "{node} moves: {detail}",
    kinds.QUIESCENT: "nothing is under way any more",
    kinds.TIMEOUT: "the time limit ends the run",
}


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
