"""Sets of numbers that are mostly dense: flat lists of first and last, ascending."""

from bisect import bisect_right
from typing import Final

PIECES_MAX: Final = 64
"""A set in more pieces than this loses its lowest: old numbers are forgotten, and the memory stays small."""


def add(intervals: list[int], number: int) -> None:
    if not intervals or number > intervals[-1] + 1:
        intervals += (number, number)
        if len(intervals) > 2 * PIECES_MAX:
            del intervals[:2]
        return
    if number == intervals[-1] + 1:
        intervals[-1] = number
        return
    _insert(intervals, number)


def _insert(intervals: list[int], number: int) -> None:
    """Into the middle: rare, so simply done."""
    if contains(intervals, number):
        return
    at = bisect_right(intervals, number)  # even: the first of the interval behind it
    intervals[at:at] = (number, number)
    if at + 2 < len(intervals) and intervals[at + 2] == number + 1:
        del intervals[at + 1 : at + 3]
    if at > 0 and intervals[at - 1] == number - 1:
        del intervals[at - 1 : at + 1]
    if len(intervals) > 2 * PIECES_MAX:
        del intervals[:2]


def contains(intervals: list[int], number: int) -> bool:
    at = bisect_right(intervals, number)
    return at % 2 == 1 or (at > 0 and intervals[at - 1] == number)


def is_full(intervals: list[int]) -> bool:
    """Whether lower numbers may have been forgotten."""
    return len(intervals) >= 2 * PIECES_MAX
