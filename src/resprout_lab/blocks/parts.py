"""What is too much for one message, in parts of which each fits."""

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


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
