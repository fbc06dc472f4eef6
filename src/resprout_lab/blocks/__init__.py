"""Building blocks that several systems of the laboratory share; periods that users may set, and lists in parts."""

from collections.abc import Callable, Iterable
from typing import Annotated, Final, TypeVar

import msgspec

T = TypeVar("T")

PERIOD_US_MAX: Final = 366 * 24 * 3600 * 1_000_000
"""A year. What is more was meant for something else, and clocks that add such numbers up leave the range of a trace."""

Period = Annotated[int, msgspec.Meta(ge=1, le=PERIOD_US_MAX)]


def parts_of(things: Iterable[T], most: int, bulk: Callable[[T], int]) -> list[list[T]]:
    """In order. A thing that is too large by itself is a part by itself; of nothing there is none."""
    parts: list[list[T]] = []
    room = 0
    for one in things:
        size = bulk(one)
        if not parts or room < size:
            parts.append([])
            room = most
        parts[-1].append(one)
        room -= size
    return parts
