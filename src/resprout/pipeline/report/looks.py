"""How the series of a chart are told apart: each has a colour and a form of its own (fill or hatching, kind of line,
kind of point), so nothing hangs on colours alone.

Colours are names of the page's style sheet, so one drawing serves light, dark and print.
"""

from collections.abc import Sequence
from typing import Final

import msgspec


class SeriesLook(msgspec.Struct, frozen=True):
    colour: str
    fill: str
    """Of bars."""
    dash: str
    """Of lines: lengths of strokes and gaps; empty for a line without any."""
    shape: str
    """Of points, as Vega calls it."""
    sign: str
    """A letter of that shape, for legends."""


LOOKS: Final = (
    SeriesLook("var(--c0)", "var(--c0)", "", "circle", "●"),
    SeriesLook("var(--c1)", "url(#hatch1)", "6 3", "square", "■"),
    SeriesLook("var(--c2)", "var(--ground)", "2 3", "triangle-up", "▲"),
    SeriesLook("var(--c3)", "url(#hatch3)", "9 3 2 3", "diamond", "◆"),
    SeriesLook("var(--c4)", "var(--f4)", "12 4", "triangle-down", "▼"),
    SeriesLook("var(--c5)", "url(#hatch5)", "4 2 1 2", "cross", "✚"),
)
"""A seventh series would look like the first."""
_FIXED: Final = {"resprout": 0, "ginger": 1}


def looks_of(series: Sequence[str]) -> list[SeriesLook]:
    """The stacks that most figures compare look the same in all of them."""
    if not _FIXED.keys() & set(series):
        return [LOOKS[place % len(LOOKS)] for place in range(len(series))]
    others = [name for name in series if name not in _FIXED]
    places = [_FIXED[name] if name in _FIXED else len(_FIXED) + others.index(name) for name in series]
    return [LOOKS[place % len(LOOKS)] for place in places]
