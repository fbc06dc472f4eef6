"""Numbers with units, written for people: one unit and one number of decimals for everything that is compared; and text
without the letters that a page cannot hold.
"""

import enum
import math
from collections.abc import Iterable
from typing import Final

import msgspec

from resprout.core.escaping import escape

NONE: Final = "–"
_DECIMALS_MAX: Final = 3
_DIGITS: Final = 3
"""That the largest number shows at least."""
_DIGITS_SMALLEST: Final = 2
_SHARE_DECIMALS: Final = 2
"""Of a percent: whether all came, or all but a few, must be seen."""


class Unit(msgspec.Struct, frozen=True):
    name: str
    """Empty for plain counts."""
    size: float
    """How many of what the tables hold make one of it."""


SECOND: Final = Unit("s", 1e6)
MILLISECOND: Final = Unit("ms", 1e3)


class Quantity(enum.Enum):
    """What a number is; the units it is written in, smallest first."""

    TIME_US = (Unit("µs", 1), MILLISECOND, SECOND)
    BYTES = (Unit("B", 1), Unit("kB", 1e3), Unit("MB", 1e6))
    COUNT = (Unit("", 1),)
    SHARE = (Unit("%", 0.01),)


_ENOUGH: Final = 10
"""A unit is used when the largest number is at least so many of it."""


class Style(msgspec.Struct, frozen=True):
    """How the numbers of one table or axis are written."""

    unit: Unit
    decimals: int

    def number(self, value: float | None) -> str:
        """Without its unit."""
        return NONE if value is None else f"{value / self.unit.size:,.{self.decimals}f}"

    def text(self, value: float | None) -> str:
        """With its unit; the space does not break."""
        if value is None or not self.unit.name:
            return self.number(value)
        return f"{self.number(value)}\u00a0{self.unit.name}"

    def mark(self, value: float) -> str:
        """With its unit, and without decimals that say nothing: for axes whose numbers differ in size."""
        number = self.number(value)
        short = number.rstrip("0").rstrip(".") if "." in number else number
        return f"{short}\u00a0{self.unit.name}" if self.unit.name else short

    def span(self, low: float, high: float) -> str:
        return f"{self.number(low)} – {self.number(high)}"


def style_for(quantity: Quantity, values: Iterable[float]) -> Style:
    """One that keeps the smallest of these apart from nothing, and the largest short."""
    sizes = sorted(abs(value) for value in values if value)
    largest = sizes[-1] if sizes else 0
    unit = next((unit for unit in reversed(quantity.value) if largest >= _ENOUGH * unit.size), quantity.value[0])
    if not sizes or all((size / unit.size).is_integer() for size in sizes):
        return Style(unit, 0)
    if quantity is Quantity.SHARE:
        return Style(unit, _SHARE_DECIMALS)
    wanted = max(_places(largest / unit.size, _DIGITS), _places(sizes[0] / unit.size, _DIGITS_SMALLEST))
    return Style(unit, min(wanted, _DECIMALS_MAX))


def _places(value: float, digits: int) -> int:
    """Decimals with which a number shows this many digits."""
    return max(0, digits - 1 - math.floor(math.log10(value)))


def legible(text: str) -> str:
    """Control characters and halves of surrogate pairs have no place in a page, and would make it unreadable."""
    return escape(text, keep="\n\t\u00a0\u202f")
