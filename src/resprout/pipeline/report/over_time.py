"""The latency of a run over its time, with its faults and repairs: a panel for each guarantee."""

from collections.abc import Sequence
from typing import Final

import msgspec

from resprout.pipeline.report.canvas import Frame, drawing, tick_style
from resprout.pipeline.report.charts import NARROW, legend
from resprout.pipeline.report.figures import Shape, in_order
from resprout.pipeline.report.happenings import STRIKES, sentence
from resprout.pipeline.report.marks import bar, in_look, line, point, with_tip
from resprout.pipeline.report.markup import Content, Markup, element
from resprout.pipeline.report.quantities import SECOND, Quantity, Style
from resprout.pipeline.report.scales import Scale, linear_scale
from resprout.pipeline.report.trail import Happening, Trail
from resprout.pipeline.tables import RepairRow

_SERIES: Final = ("median", "longest")


def over_time(trail: Trail, repairs: Sequence[RepairRow]) -> list[Content]:
    if not trail.slices:
        return []
    first, last = min(one.number for one in trail.slices), max(one.number for one in trail.slices)
    drawer = _Drawer(trail, repairs, linear_scale((last + 1) * trail.slice_us, first * trail.slice_us))
    up = linear_scale(max(one.max_us for one in trail.slices))
    guarantees = in_order(one.guarantee for one in trail.slices)
    about = (
        f"Latency and number of what was delivered in each slice of {trail.slice_us / 1e6:,.3g} s. Upright lines are"
        " faults, shaded is the time of repairs."
    )
    return [
        element("h3", "Latency over time"),
        element(
            "figure",
            legend(_SERIES, Shape.LINES),
            element(
                "div",
                [drawer.latencies(guarantee, up) for guarantee in guarantees],
                drawer.deliveries(),
                class_="panels narrow",
            ),
            element("figcaption", about),
        ),
    ]


class _Drawer(msgspec.Struct, frozen=True):
    trail: Trail
    repairs: Sequence[RepairRow]
    across: Scale

    def latencies(self, guarantee: str, up: Scale) -> Markup:
        frame = self._frame(f"{guarantee}: latency", up, Quantity.TIME_US)
        shown = [one for one in self.trail.slices if one.guarantee == guarantee]
        longest = self._line(frame, 1, [(one.number, one.max_us) for one in shown])
        median = self._line(frame, 0, [(one.number, one.median_us) for one in shown])
        return self._panel(frame, [longest, median])

    def deliveries(self) -> Markup:
        counts = dict.fromkeys(range(min(self._numbers), max(self._numbers) + 1), 0)
        for one in self.trail.slices:
            counts[one.number] += one.deliveries
        rates = [(number, count * 1e6 / self.trail.slice_us) for number, count in counts.items()]
        frame = self._frame("all: deliveries per second", linear_scale(max(rate for _, rate in rates)), Quantity.COUNT)
        return self._panel(frame, in_look(4, [self._bar(frame, *rate) for rate in rates]))

    @property
    def _numbers(self) -> list[int]:
        return [one.number for one in self.trail.slices]

    def _frame(self, title: str, up: Scale, quantity: Quantity) -> Frame:
        return Frame(title, "time of the run", up, tick_style(quantity, up), *NARROW)

    def _panel(self, frame: Frame, lines: Content) -> Markup:
        seconds = Style(SECOND, 0 if all(tick % SECOND.size == 0 for tick in self.across.ticks) else 1)
        labels = [(self._x(frame, tick), seconds.text(tick)) for tick in self.across.ticks]
        marks: list[Content] = [
            [self._repair(frame, one) for one in self.repairs if one.began_us <= self.across.high],
            [self._strike(frame, one) for one in self.trail.happenings if one.kind in STRIKES],
            lines,
        ]
        return drawing(frame, labels, marks, f"{frame.title} over the time of the run")

    def _x(self, frame: Frame, time_us: float) -> float:
        return frame.x(min(1.0, max(0.0, self.across.share(time_us))))

    def _repair(self, frame: Frame, repair: RepairRow) -> Markup:
        begin = self._x(frame, repair.began_us)
        end = self._x(frame, self.across.high if repair.ended_us is None else repair.ended_us)
        width, height = max(1.0, end - begin), frame.bottom - frame.top
        shade = element("rect", x=begin, y=frame.top, width=width, height=height, class_="mending")
        return with_tip(f"{' '.join(repair.dead)} is repaired", shade)

    def _strike(self, frame: Frame, one: Happening) -> Markup | None:
        if one.time_us > self.across.high:
            return None
        x = self._x(frame, one.time_us)
        mark = element("line", x1=x, x2=x, y1=frame.top, y2=frame.bottom, class_="struck")
        return with_tip(f"{one.time_us / 1e6:,.3f} s: {sentence(one)}", mark)

    def _bar(self, frame: Frame, number: int, rate: float) -> Markup | None:
        begin, end = (self._x(frame, place * self.trail.slice_us) for place in (number, number + 1))
        return bar((begin + end) / 2, end - begin, frame.y(rate), frame.bottom) if rate else None

    def _line(self, frame: Frame, look: int, values: Sequence[tuple[int, float]]) -> Markup:
        slice_us = self.trail.slice_us
        points = [(self._x(frame, (number + 0.5) * slice_us), frame.y(value)) for number, value in values]
        return in_look(look, line(points), [point(look, x, y, 2.0) for x, y in points])
