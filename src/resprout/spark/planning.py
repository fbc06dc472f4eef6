"""What of a journal a task reads. The same offsets and options give the same tasks, after a restart too."""

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from resprout.spark.offsets import JournalOffset


class JournalRange(msgspec.Struct, frozen=True):
    """Positions `start` to `end - 1`, all of one life."""

    journal: str
    life: int
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def ranges_between(start: JournalOffset, end: JournalOffset) -> list[JournalRange]:
    """What lies between two offsets: one range for each life."""
    ranges = []
    position = start.position
    for life, last in end.lives:
        if last > position:
            ranges.append(JournalRange(end.journal, life, position, last))
            position = last
    return ranges


def split(ranges: Sequence[JournalRange], least: int) -> list[JournalRange]:
    """At least so many, where there are as many positions; larger ranges are cut into more."""
    total = sum(each.size for each in ranges)
    if least <= len(ranges) or not total:
        return list(ranges)
    portion = max(1, -(-total // least))
    parts = []
    for each in ranges:
        count = -(-each.size // portion)
        cuts = [each.start + each.size * number // count for number in range(count + 1)]
        parts += [JournalRange(each.journal, each.life, begin, end) for begin, end in pairwise(cuts) if end > begin]
    return parts
