"""Where a query is: positions in the journal of one broker, by the lives of that broker; and the ranges that tasks
read.

For Spark, which writes it into the checkpoint, an offset is `{"tap.4e3c6f88": {"7": 41}}`: of the journal tap.4e3c6f88
everything before position 41 was read, and 41 lies in life 7. Lives that ended earlier stay beside it, each with the
position at which it ended. Positions go on from life to life, so the highest is where the query is.

A position is that of a bundle. In the column `offset` the place of a message in its bundle follows in the lowest bits,
so that the number is unique in a journal, and rises. The same offsets and options give the same tasks, after a restart
too.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final, Literal

import msgspec

from resprout.client.asking import Offset, read_offset
from resprout.core.errors import UsageError

INDEX_BITS: Final = 16
"""Of the column `offset`, for the place of a message in its bundle: more than a bundle may hold."""

ReadPlace = Offset | datetime | Literal["earliest", "latest"]
"""Where to begin, or to end."""


class JournalOffset(msgspec.Struct, frozen=True):
    """What was read of a journal."""

    journal: str
    lives: tuple[tuple[int, int], ...]
    """(life, position behind its last that was read), rising; at least one."""

    @property
    def position(self) -> int:
        return self.lives[-1][1]

    @property
    def life(self) -> int:
        return self.lives[-1][0]

    def moved(self, segments: tuple[tuple[int, int], ...]) -> "JournalOffset":
        """Further on: (life, end) of what follows, rising."""
        lives = dict(self.lives) | dict(segments)
        if 0 in lives and len(lives) > 1:
            del lives[0]  # nothing had been kept when the query began
        return JournalOffset(self.journal, tuple(sorted(lives.items(), key=lambda one: (one[1], one[0]))))


def to_json(offset: JournalOffset) -> dict[str, dict[str, int]]:
    """As Spark keeps it."""
    return {offset.journal: {str(life): position for life, position in offset.lives}}


def from_json(kept: Mapping[str, Any]) -> JournalOffset:
    """UsageError for what is no offset of one journal."""
    try:
        ((journal, lives),) = kept.items()
        if isinstance(lives, int):
            lives = {"0": lives}
        pairs = sorted(((int(life), position) for life, position in lives.items()), key=lambda one: (one[1], one[0]))
        if not journal or not pairs or any(type(position) is not int or position < 0 for _, position in pairs):
            raise ValueError
    except (ValueError, TypeError, AttributeError):
        raise UsageError(
            f'{msgspec.json.encode(kept).decode()} is no offset: {{"JOURNAL": {{"LIFE": POSITION}}}}, of one journal'
        ) from None
    return JournalOffset(journal, tuple(pairs))


def read_place(text: str) -> ReadPlace:
    """What a user writes: `earliest`, `latest`, JSON as above, an offset as `resprout read` prints it, or a time."""
    text = text.strip()
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    if text.startswith("{"):
        try:
            offset = from_json(msgspec.json.decode(text, type=dict[str, Any]))
        except msgspec.MsgspecError as error:
            raise UsageError(f"{text}: {error}") from None
        return Offset(offset.journal, offset.position, offset.life)
    if "@" in text:
        return read_offset(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is neither earliest nor latest, nor JSON, an offset or a time") from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


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
