"""What stands for a number in a chart: bars, points, lines, whiskers. How each series looks is up to its class.

Every series has a colour and a form of its own (fill or hatching, kind of line, kind of point), so nothing hangs on
colours alone.
"""

from collections.abc import Sequence
from typing import Final

from resprout.pipeline.report.markup import Content, Markup, element

LOOKS: Final = 6
"""Series that look different; a seventh would look like the first."""
_FIXED: Final = {"resprout": 0, "ginger": 1}
_CAP: Final = 3.0
_POINT: Final = 3.6

Point = tuple[float, float]


def looks_of(series: Sequence[str]) -> list[int]:
    """Which look each has; the stacks that most figures compare look the same in all of them."""
    if not _FIXED.keys() & set(series):
        return [place % LOOKS for place in range(len(series))]
    others = [name for name in series if name not in _FIXED]
    return [_FIXED[name] if name in _FIXED else (len(_FIXED) + others.index(name)) % LOOKS for name in series]


def in_look(look: int, *content: Content) -> Markup:
    return element("g", *content, class_=f"s{look}")


def with_tip(tip: str, *content: Content) -> Markup:
    """Shown when one points at it."""
    return element("g", element("title", tip), *content)


def bar(middle: float, width: float, top: float, bottom: float) -> Markup:
    return element("rect", x=middle - width / 2, y=top, width=width, height=bottom - top, class_="bar")


def line(points: Sequence[Point]) -> Markup:
    return element("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), class_="line")


def whisker(x: float, low: float, high: float) -> Markup | None:
    """From y to y; none where they are the same."""
    if low == high:
        return None
    caps = "".join(f"M{x - _CAP:.1f} {y:.1f}h{2 * _CAP:.0f}" for y in (low, high))
    return element("path", d=f"{caps}M{x:.1f} {high:.1f}V{low:.1f}", class_="whisker")


def point(look: int, x: float, y: float, size: float = _POINT) -> Markup:
    """Circle, square, triangle, and again."""
    if look % 3 == 0:
        return element("circle", cx=x, cy=y, r=size, class_="point")
    if look % 3 == 1:
        half = 0.9 * size
        return element("rect", x=x - half, y=y - half, width=2 * half, height=2 * half, class_="point")
    half = 1.15 * size
    return element("path", d=f"M{x:.1f} {y - half:.1f}l{half:.1f} {2 * size:.1f}h{-2 * half:.1f}z", class_="point")


def bar_key(look: int) -> Markup:
    return _key(look, element("rect", x=1, y=1, width=20, height=11, class_="bar"))


def line_key(look: int) -> Markup:
    return _key(look, element("path", d="M0 6.5H22", class_="line"), point(look, 11, 6.5))


def _key(look: int, *content: Content) -> Markup:
    return element("svg", in_look(look, *content), viewBox="0 0 22 13", aria_hidden="true")
