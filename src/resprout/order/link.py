"""A neighbour as the log sees it: a cursor, and how far each direction has come.

Bundles that cross a link are numbered from 1 in each direction by both ends, so every acknowledgement is a count: "the
first 17 that you sent me have reached level 1 here". Counts are cumulative, so a lost or late one is made good by the
next, and a link costs a few numbers however much is in flight.
"""

from resprout.core.errors import PeerError
from resprout.order.entry import Entry


class Track:
    """The bundles that crossed a link in one direction, in order, while something is still to be said about them."""

    __slots__ = ("count", "entries", "forgotten")

    def __init__(self) -> None:
        self.count = 0
        self.entries: dict[int, Entry] = {}
        self.forgotten = 0
        """Nothing is left to say about the first so many."""

    def add(self, entry: Entry) -> None:
        self.count += 1
        self.entries[self.count] = entry

    def forget(self, upto: int) -> None:
        for number in range(self.forgotten + 1, upto + 1):
            del self.entries[number]
        self.forgotten = max(upto, self.forgotten)


class Link:
    """One neighbour. `open` when both sides have told each other what they want; until then everything is retained."""

    __slots__ = (
        "arrived", "cursor", "heard_done", "heard_spread", "heard_taken", "held_bytes", "lost", "name", "open",
        "ready_sent", "room", "sent", "told_done", "told_spread", "told_taken", "up",
    )  # fmt: skip

    def __init__(self, name: str, faults_tolerated: int, cursor: int | None) -> None:
        self.name = name
        self.up = False
        """A session stands."""
        self.lost = False
        """A session stood and is over for good: what crosses no more is owed until the tree is repaired."""
        self.open = False
        self.ready_sent = False
        self.room = 0
        """Bytes that may be sent before the next `Writable`."""
        self.cursor = cursor
        """The next place in the log to look at; None when the link has kept up, so that new entries go out at once."""
        self.held_bytes = 0
        """Of this neighbour's bundles, what waits for links behind and local readers."""
        self.sent = Track()
        self.heard_taken = [0] * (faults_tolerated + 1)
        """heard_taken[k]: the neighbour reported level k for the first so many that were sent to it."""
        self.heard_done = 0
        self.told_spread = [0] * faults_tolerated
        """told_spread[k - 1]: the neighbour was told level k of the first so many that were sent to it."""
        self.arrived = Track()
        self.heard_spread = [0] * faults_tolerated
        self.told_taken = [0] * (faults_tolerated + 1)
        self.told_done = 0

    def take_report(
        self, taken: tuple[int, ...], spread: tuple[int, ...], done: int
    ) -> tuple[list[tuple[int, Entry]], list[Entry]]:
        """What a neighbour's report newly says: (level, entry) pairs, and entries delivered behind it.

        Raises PeerError when it speaks of what was never sent or takes something back.
        """
        if len(taken) != len(self.heard_taken) or len(spread) != len(self.heard_spread):
            raise PeerError(f"{len(taken)} levels reported where {len(self.heard_taken)} are used")
        raised: list[tuple[int, Entry]] = []
        most = self.sent.count
        for level, count in enumerate(taken):
            _hear(level, self.heard_taken, level, count, most, self.sent, raised)
            most = count  # whatever has reached a level has reached the one below
        most = self.arrived.count
        for index, count in enumerate(spread):
            _hear(index + 1, self.heard_spread, index, count, most, self.arrived, raised)
            most = count
        if not self.heard_done <= done <= self.heard_taken[0]:
            raise PeerError(f"{done} reported as delivered of {self.heard_taken[0]} taken, {self.heard_done} before")
        delivered = [self.sent.entries[number] for number in range(self.heard_done + 1, done + 1)]
        self.heard_done = done
        self._forget()
        return raised, delivered

    def report(self) -> tuple[tuple[int, ...], tuple[int, ...], int] | None:
        """What may be told now and was not yet told: (taken, spread, done); None when there is no news."""
        news = False
        arrived, sent = self.arrived.entries, self.sent.entries
        for level in range(len(self.told_taken)):
            news |= _tell(self.told_taken, level, level, arrived)
        for index in range(len(self.told_spread)):
            news |= _tell(self.told_spread, index, index + 1, sent)
        done = self.told_done
        while (entry := arrived.get(done + 1)) is not None and entry.undone == 0:
            done += 1
        if done > self.told_done:
            news = True
            self.told_done = done
        self._forget()
        return (tuple(self.told_taken), tuple(self.told_spread), done) if news else None

    def _forget(self) -> None:
        """What both sides are through with."""
        self.arrived.forget(min(self.told_done, self.told_taken[-1], *self.heard_spread[-1:]))
        self.sent.forget(min(self.heard_done, self.heard_taken[-1], *self.told_spread[-1:]))


def _hear(
    level: int, heard: list[int], index: int, count: int, most: int, track: Track, raised: list[tuple[int, Entry]]
) -> None:
    if not heard[index] <= count <= most:
        raise PeerError(f"level {level} reported for {count} of {most}, {heard[index]} before")
    entries = track.entries
    raised.extend((level, entries[number]) for number in range(heard[index] + 1, count + 1))
    heard[index] = count


def _tell(told: list[int], index: int, level: int, entries: dict[int, Entry]) -> bool:
    count = told[index]
    while (entry := entries.get(count + 1)) is not None and entry.level >= level:
        count += 1
    if count == told[index]:
        return False
    told[index] = count
    return True
