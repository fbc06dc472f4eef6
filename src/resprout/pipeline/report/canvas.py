"""The frame of a chart as SVG: a title, horizontal grid lines with their numbers, labels below.

Colours and type come from the page's style sheet by class, so one drawing serves light, dark and print. Sizes are those
of the page on a phone; on a wide page several charts stand side by side instead of growing.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from resprout.pipeline.report.markup import Content, Markup, element
from resprout.pipeline.report.quantities import Quantity, Style, style_for
from resprout.pipeline.report.scales import Scale

LETTER: Final = 6.5
"""About the width of a letter of the charts' type; the browser knows better, so room is left."""
_TOP: Final = 30.0
_TOP_PLAIN: Final = 12.0
_BOTTOM: Final = 42.0
_RIGHT: Final = 8.0
_GAP: Final = 6.0


class Frame(msgspec.Struct, frozen=True):
    """A chart's outside: everything but its marks."""

    title: str
    x_title: str
    scale: Scale
    style: Style
    width: float
    height: float

    @property
    def left(self) -> float:
        return _GAP + LETTER * max(len(self.tick(tick)) for tick in self.scale.ticks)

    @property
    def right(self) -> float:
        return self.width - _RIGHT

    @property
    def top(self) -> float:
        return _TOP if self.title else _TOP_PLAIN

    @property
    def bottom(self) -> float:
        return self.height - _BOTTOM

    def tick(self, value: float) -> str:
        return self.style.mark(value) if self.scale.is_log else self.style.text(value)

    def y(self, value: float) -> float:
        return self.bottom - self.scale.share(value) * (self.bottom - self.top)

    def x(self, share: float) -> float:
        return self.left + share * (self.right - self.left)


def tick_style(quantity: Quantity, scale: Scale) -> Style:
    return style_for(quantity, scale.ticks)


def drawing(frame: Frame, labels: Sequence[tuple[float, str]], marks: Content, told: str) -> Markup:
    """`labels`: what stands below the axis, and at which x. `told`: the whole of it in a sentence, for those who
    cannot see it."""
    return element(
        "svg",
        element("title", told),
        _heading(frame),
        [_grid_line(frame, tick) for tick in frame.scale.ticks],
        [element("text", text, x=x, y=frame.bottom + 15, class_="tick mid") for x, text in _thinned(frame, labels)],
        element("text", frame.x_title, x=(frame.left + frame.right) / 2, y=frame.height - 6, class_="axis mid"),
        marks,
        viewBox=f"0 0 {frame.width:.0f} {frame.height:.0f}",
        role="img",
    )


def _heading(frame: Frame) -> Markup | None:
    return element("text", frame.title, x=0, y=13, class_="panel") if frame.title else None


def _grid_line(frame: Frame, tick: float) -> list[Markup]:
    y = frame.y(tick)
    is_base = tick == frame.scale.low
    return [
        element("line", x1=frame.left, x2=frame.right, y1=y, y2=y, class_="line-base" if is_base else "line-grid"),
        element("text", frame.tick(tick), x=frame.left - _GAP, y=y + 3.5, class_="tick end"),
    ]


def _thinned(frame: Frame, labels: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """So many that they do not touch each other; labels that are too long for their place are cut."""
    room = (frame.right - frame.left) / max(len(labels), 1)
    longest = max((len(text) for _, text in labels), default=0) * LETTER
    step = max(1, round(min(longest, 60.0) / room + 0.49)) if labels else 1
    letters = max(3, int(room * step / LETTER))
    return [(x, shortened(text, letters)) for x, text in labels[::step]]


def shortened(text: str, letters: int) -> str:
    return text if len(text) <= letters else text[: letters - 1] + "…"
