"""The state of a log, which turns commands into entries. All replicas apply the same commands in the same order.

A command is applied only if its number follows the last one of its feed. Otherwise an earlier leader has left a hole,
which was filled with an empty command. The feeder sends all commands from the hole on again, so skipping the later ones
keeps them behind those that they may depend on.

A new feed repeats messages that an earlier feed did not acknowledge. Numbers of one origin rise in every feed, so a
number that is not above the last one of its origin is already in the log.

Changes of stored positions (`positions`) are commands that belong to no feed.

The first command of a log is the first one of a new subscription, and no later command is. Otherwise entries or
messages were lost, and the log gets a gap mark.
"""

import zlib
from typing import Final

from resprout.core.bundle import Bundle, Origin, split, to_record
from resprout.core.errors import WireError
from resprout.core.message_fields import to_marks
from resprout.logs.messages import feeding_broker
from resprout.logs.positions import Positions, read_position_command
from resprout.logs.records import LogEntry, StateFields, read_bundle, read_command, read_state, to_bytes

FEEDS_KEPT: Final = 16
"""Number of feeds that are remembered; the feeder of a forgotten feed starts a new one. At most two are in use: that of
the home, and that of a broker that does not know yet that it was declared dead."""
FEEDS_OF_BROKER: Final = 2
"""Number of feeds of one broker that are remembered, so that no broker can displace the feeds of others."""
ORIGINS_KEPT: Final = 20_000
"""Number of origins whose last number is remembered, the latest ones. A durable subscription remembers as many."""


class LogState:
    def __init__(self) -> None:
        self.next = 0
        """Number of the next entry."""
        self.end = 0
        """Offset of the next message."""
        self.id = ""
        """Name of this log that differs for an earlier log of the same name, whose replicas were all lost. Empty before
        the first command."""
        self.time_us = 0
        self.feeds: dict[str, int] = {}
        """Number of the last applied command, by feed."""
        self.positions: Final = Positions()
        self._decided_positions: dict[str, None] = {}
        """Names of positions for which a command was applied since `take_decided_positions`."""
        self._marks: dict[Origin, int] = {}

    def take_decided_positions(self) -> tuple[str, ...]:
        """Return the names of positions for which a command was applied since the last call, with or without effect."""
        names = tuple(self._decided_positions)
        self._decided_positions.clear()
        return names

    @property
    def origin(self) -> int:
        """Hash of `id`; 0 before the first command."""
        return zlib.crc32(self.id.encode()) | 1 if self.id else 0

    def apply(self, data: bytes) -> list[bytes]:
        """Apply a decided command. Return the records of the entries that it appends."""
        if (position := read_position_command(data)) is not None:
            self.positions.apply(position, self.end)
            self._decided_positions[position.name] = None
            return []
        command = read_command(data)
        if command is None or command.number != self.feeds.get(command.feed, 0) + 1:
            return []
        is_first, self.id = not self.id, self.id or f"{command.feed}@{command.time_us}"
        self._count(command.feed, command.number)
        records: list[bytes] = []
        if is_first and not command.begins:
            records.append(self._append_gap(command.time_us, "every replica of an earlier log was lost"))
        elif command.begins and not is_first:
            records.append(self._append_gap(command.time_us, "the subscription of the log was lost"))
        if command.gap:
            return [*records, self._append_gap(command.time_us, command.gap)]
        bundle = read_bundle(command.bundle)
        new = self._new_part(bundle) if bundle is not None else None
        if new is not None:
            self._mark(new)
            record = command.bundle if new is bundle else to_record(new)
            cut = bundle.count - new.count if bundle is not None and command.tseq >= 0 else 0
            records.append(self._append(command.time_us, command.tseq + cut, record, "", new.count))
        return records

    def _new_part(self, bundle: Bundle) -> Bundle | None:
        """Return the part of a bundle that no earlier feed has brought; None if there is none."""
        reached = self._marks.get(bundle.origin, 0)
        if bundle.first > reached:
            return bundle
        if bundle.last <= reached:
            return None
        try:
            return split(bundle, reached)[1]
        except WireError:
            return None

    def _append_gap(self, time_us: int, reason: str) -> bytes:
        return self._append(time_us, -1, b"", reason, 1)

    def _append(self, time_us: int, tseq: int, bundle: bytes, gap: str, count: int) -> bytes:
        self.time_us = max(self.time_us, time_us)
        record = to_bytes(LogEntry(self.next, self.end, self.time_us, tseq, bundle, gap, count))
        self.next += 1
        self.end += count
        return record

    def _count(self, feed: str, number: int) -> None:
        is_new = feed not in self.feeds
        self.feeds[feed] = number
        of_broker = [each for each in self.feeds if feeding_broker(each) == feeding_broker(feed)] if is_new else []
        if len(of_broker) > FEEDS_OF_BROKER:
            del self.feeds[of_broker[0]]
        if len(self.feeds) > FEEDS_KEPT:
            del self.feeds[next(iter(self.feeds))]

    def _mark(self, bundle: Bundle) -> None:
        marks = self._marks
        marks.pop(bundle.origin, None)
        marks[bundle.origin] = bundle.last
        if len(marks) > ORIGINS_KEPT:
            del marks[next(iter(marks))]

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def dump(self) -> bytes:
        return to_bytes(
            StateFields(
                self.next,
                self.end,
                self.time_us,
                tuple(self.feeds.items()),
                to_marks(self._marks),
                self.id,
                tuple(self.positions.by_name.values()),
            )
        )

    def load(self, data: bytes) -> None:
        """Restore the state from a snapshot. Raises ValueError if the bytes are not valid."""
        fields = read_state(data)
        self.next, self.end, self.time_us = fields.next, fields.end, fields.time_us
        self.feeds, self.id = dict(fields.feeds), fields.id
        self.positions.load(fields.positions)
        self._marks = {mark.origin: mark.seq for mark in fields.marks}
