"""Sets of numbers from 1 on that are nearly without gaps: all of the first so many, and some islands beyond.

What is said about the bundles of a link, or about the publications of a client, mostly comes in order. Where one of
them waits for somebody who does not read, those behind it do not wait with it; they are islands then. There are no more
islands than there are gaps, so however much has passed by one that waits, this stays small.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

Range = tuple[int, int]
"""(first, last), both included."""


class Ranges:
    __slots__ = ("_firsts", "_lasts", "has_islands", "upto")

    def __init__(self) -> None:
        self.upto = 0
        """All of the first so many."""
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self.has_islands = False
        """Whether there are any."""

    def __contains__(self, number: int) -> bool:
        if number <= self.upto:
            return True
        if not self._firsts:
            return False
        place = bisect_right(self._firsts, number) - 1
        return place >= 0 and number <= self._lasts[place]

    def holds(self, first: int, last: int) -> bool:
        """All of these, first to last."""
        if last <= self.upto:
            return True
        place = bisect_right(self._firsts, first) - 1
        return place >= 0 and last <= self._lasts[place]

    def touches(self, first: int, last: int) -> bool:
        """Whether any number from first to last is in it."""
        if first <= self.upto:
            return True
        place = bisect_left(self._lasts, first)
        return place < len(self._firsts) and self._firsts[place] <= last

    def lacks(self, first: int, last: int) -> list[Range]:
        """The parts of these that are missing, in order."""
        at, missing = max(first, self.upto + 1), []
        for place in range(bisect_left(self._lasts, at), len(self._firsts)):
            if self._firsts[place] > last:
                break
            if self._firsts[place] > at:
                missing.append((at, self._firsts[place] - 1))
            at = self._lasts[place] + 1
        return [*missing, (at, last)] if at <= last else missing

    @property
    def highest(self) -> int:
        """The last number in it; 0 when it is empty."""
        return self._lasts[-1] if self._lasts else self.upto

    def above(self, number: int) -> list[Range]:
        """The parts of it that lie above a number, in order."""
        parts = [(number + 1, self.upto)] if self.upto > number else []
        return [*parts, *[(max(first, number + 1), last) for first, last in self.islands() if last > number]]

    @property
    def gaps(self) -> int:
        """As many as islands: one before each."""
        return len(self._firsts)

    def islands(self) -> Iterator[Range]:
        return zip(self._firsts, self._lasts, strict=True)

    def add(self, first: int, last: int) -> list[Range]:
        """The parts of it that are new, in order."""
        first = max(first, self.upto + 1)
        if first > last:
            return []
        firsts, lasts = self._firsts, self._lasts
        if not firsts and first == self.upto + 1:
            self.upto = last
            return [(first, last)]
        begin, end = bisect_left(lasts, first - 1), bisect_right(firsts, last + 1)
        new: list[Range] = []
        at = first
        for place in range(begin, end):
            if firsts[place] > at:
                new.append((at, firsts[place] - 1))
            at = max(at, lasts[place] + 1)
        if at <= last:
            new.append((at, last))
        if begin < end:
            first, last = min(first, firsts[begin]), max(last, lasts[end - 1])
        firsts[begin:end], lasts[begin:end] = [first], [last]
        if firsts[0] == self.upto + 1:
            self.upto = lasts.pop(0)
            del firsts[0]
        self.has_islands = bool(firsts)
        return new

    def close_gap(self) -> Range:
        """Count the lowest gap as if it had been added; what it was."""
        gap = (self.upto + 1, self._firsts.pop(0) - 1)
        self.upto = self._lasts.pop(0)
        self.has_islands = bool(self._firsts)
        return gap


def joined(ranges: Iterable[Range]) -> list[Range]:
    """The same numbers, in order, in as few ranges as possible."""
    found: list[Range] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def as_ranges(numbers: Iterable[int]) -> list[Range]:
    """The same numbers, in order, neighbours joined."""
    ranges: list[Range] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] >= number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges
