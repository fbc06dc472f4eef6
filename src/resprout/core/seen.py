"""Duplicate detection: has this bundle been here before?

There are two answers, and a stack has to know which one is right for it.

`Seen` keeps one watermark per origin. It is exact where the bundles of one origin pass any broker in order, over all
topics: on FIFO links along a tree without cycles, also where interest lets only some of them through. The default
stack, `ginger` and flooding along a tree use it, and LoCaMu for what its own clients publish.

`SeenRanges` keeps ranges of numbers per origin. It is right where a later bundle may come before an earlier one of the
same origin: where copies come on many ways (gossip), where nodes are bypassed (CBCAST and delta, each while a way
around is used), and for a client that returns to another broker. Scribe needs neither: a topic's log gives each bundle
a position, and counts a client's publications on that topic in their order.

A restarted publisher counts from one again under a higher incarnation, which is another origin.

`Ranges` are sets of numbers from 1 on that are nearly without gaps: all of the first so many, and some islands beyond.
Reports about the bundles of a link, or the publications of a client, mostly come in order. Where one of them waits for
a subscriber that does not read, those behind it do not wait; they are islands then. There are no more islands than
gaps, so a set stays small however many numbers have passed one that waits.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from resprout.core.bundle import Bundle, Origin
from resprout.core.errors import PeerError
from resprout.core.message_fields import NOTHING, Mark, Reached

Range = tuple[int, int]
"""(first, last), both included."""

ORIGINS_KEPT = 100_000
"""Origins that are remembered for certain, the latest ones; up to twice as many are. Clients come and go under ever new
names, and what has been quiet for so long has long been stable everywhere."""
GAPS_MAX = 256
"""Of one origin: so many bundles, or runs of them, may be missing while later ones are there."""
RANGES_KEPT = 100_000
"""Ranges of all origins that are remembered for certain, the latest ones; up to twice as many are. An origin without
gaps has one."""


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


class Seen:
    """How far each origin has come at this broker. Two generations: what is met again moves to the young one, and when
    that is full the old one is forgotten."""

    __slots__ = ("_marks", "_old")

    def __init__(self) -> None:
        self._marks: dict[Origin, Reached] = {}
        self._old: dict[Origin, Reached] = {}

    def mark(self, origin: Origin) -> Reached:
        return self._marks.get(origin) or self._old.get(origin, NOTHING)

    def __len__(self) -> int:
        return len(self._marks) + len(self._old)

    def is_new(self, bundle: Bundle) -> bool:
        """True, and remembered, when nothing of the bundle was seen before. A bundle is atomic: one that is partly new
        can only come from a peer that cut it in two, and is refused."""
        origin = bundle.origin
        last = self._marks.get(origin) or self._old.get(origin, NOTHING)
        if bundle.first <= last:
            if bundle.last > last:
                raise PeerError(f"{bundle!r} overlaps what was seen up to {last}")
            return False
        self._remember(origin, bundle.last)
        return True

    def has(self, bundle: Bundle) -> bool:
        origin = bundle.origin
        return bundle.last <= (self._marks.get(origin) or self._old.get(origin, NOTHING))

    def raise_to(self, origin: Origin, reached: Reached) -> None:
        """Others have come so far."""
        if reached > (self._marks.get(origin) or self._old.get(origin, NOTHING)):
            self._remember(origin, reached)

    def marks(self) -> Iterator[Mark]:
        """Everything that is remembered."""
        for origin, reached in self._old.items():
            if origin not in self._marks:
                yield Mark(*origin, reached)
        for origin, reached in self._marks.items():
            yield Mark(*origin, reached)

    def _remember(self, origin: Origin, mark: Reached) -> None:
        self._marks[origin] = mark
        if len(self._marks) > ORIGINS_KEPT:
            self._old, self._marks = self._marks, {}
        elif self._old:
            self._old.pop(origin, None)


class SeenRanges:
    """Which numbers of each origin were here. Bounded in two ways, and each errs on another side:

    - An origin with more than `GAPS_MAX` gaps: the lowest is closed, and its numbers count as seen. If one of them
      comes after all, it is taken for a repeat and *lost* here; `given_up` counts the numbers. Where interest lets only
      some topics through, what never comes is a gap as well: closing it is harmless then, because whoever asks for a
      topic later is owed nothing of what was before.
    - Origins that have been quiet while others brought `RANGES_KEPT` ranges are forgotten. If something of theirs comes
      again, it is taken for new, and there is a *duplicate*. Two generations, as in `Seen`.
    """

    __slots__ = ("_old", "_weight", "_young", "given_up")

    def __init__(self) -> None:
        self._young: dict[Origin, Ranges] = {}
        self._old: dict[Origin, Ranges] = {}
        self._weight = 0
        """Ranges of the young."""
        self.given_up = 0

    def __len__(self) -> int:
        """Ranges that are remembered."""
        return self._weight + sum(1 + ranges.gaps for ranges in self._old.values())

    def is_new(self, bundle: Bundle) -> bool:
        """True, and remembered, when nothing of the bundle was seen before. A bundle is atomic: one that is partly new
        can only come from a peer that cut it in two, and is refused."""
        ranges = self._ranges(bundle.origin)
        if ranges is not None and ranges.touches(bundle.first, bundle.last):
            if not ranges.holds(bundle.first, bundle.last):
                raise PeerError(f"{bundle!r} overlaps what was seen")
            return False
        self._add(bundle.origin, bundle.first, bundle.last)
        return True

    def has(self, bundle: Bundle) -> bool:
        ranges = self._ranges(bundle.origin)
        return ranges is not None and ranges.holds(bundle.first, bundle.last)

    def upto(self, origin: Origin) -> Reached:
        """Everything of it up to here counts as seen."""
        ranges = self._ranges(origin)
        return NOTHING if ranges is None else ranges.upto

    def raise_to(self, origin: Origin, reached: Reached) -> None:
        """Nothing up to here is to come any more: others have it, or it lies before what this broker is owed."""
        if reached > self.upto(origin):
            self._add(origin, 1, reached)

    def missing(self, origin: Origin, first: int, last: int) -> list[Range]:
        """Of these numbers, those that were not seen."""
        ranges = self._ranges(origin)
        return [(first, last)] if ranges is None else ranges.lacks(first, last)

    def pass_over(self, origin: Origin, first: int, last: int) -> None:
        """These count as seen: they are not owed here."""
        self._add(origin, first, last)

    def _ranges(self, origin: Origin) -> Ranges | None:
        return self._young.get(origin) or self._old.get(origin)

    def _add(self, origin: Origin, first: int, last: int) -> None:
        ranges = self._young.get(origin)
        if ranges is None:
            ranges = self._young[origin] = self._old.pop(origin) if origin in self._old else Ranges()
            self._weight += 1 + ranges.gaps
        before = ranges.gaps
        ranges.add(first, last)
        if ranges.gaps > GAPS_MAX:
            low, high = ranges.close_gap()
            self.given_up += high - low + 1
        self._weight += ranges.gaps - before
        if self._weight > RANGES_KEPT:
            self._old, self._young, self._weight = self._young, {}, 0
