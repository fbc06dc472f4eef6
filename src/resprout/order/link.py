"""A neighbour as the log sees it: a cursor, and how far each direction has come.

Bundles that cross a link are numbered from 1 in each direction by both ends, so every acknowledgement is a count: "the
first 17 that you sent me have reached level 1 here". Counts are cumulative, so a lost or late one is made good by the
next, and a link costs a few numbers however much is in flight. What a repair hands over is numbered like what was sent:
both ends of a new link begin with the same lists.
"""

from collections import deque

from resprout.core.bundle import Bundle
from resprout.core.contract import ProtocolMessage
from resprout.core.errors import PeerError
from resprout.order.entry import Entry
from resprout.order.left import Left
from resprout.order.messages import Levels


class Track:
    """The bundles that crossed a link in one direction, in order, while something is still to be said about them."""

    __slots__ = ("_left", "count", "entries", "forgotten")

    def __init__(self, left: Left) -> None:
        self._left = left
        self.count = 0
        self.entries: dict[int, Entry] = {}
        self.forgotten = 0
        """Nothing is left to say about the first so many."""

    def add(self, entry: Entry) -> None:
        self.count += 1
        self.entries[self.count] = entry

    def forget(self, upto: int) -> None:
        for number in range(self.forgotten + 1, upto + 1):
            self._left.note(self.entries.pop(number))
        self.forgotten = max(upto, self.forgotten)


class Counts:
    """How far one side has reported the bundles of both directions, in the terms of `Levels`."""

    __slots__ = ("back_firm", "back_have", "done", "firm", "have")

    def __init__(self, faults_tolerated: int) -> None:
        reaches = max(1, faults_tolerated)
        self.have = [0] * reaches
        self.firm = [0] * faults_tolerated
        self.back_have = [0] * (reaches - 1)
        self.back_firm = [0] * faults_tolerated
        self.done = 0


class News:
    """What a report says for the first time."""

    __slots__ = ("delivered", "firmer", "reached")

    def __init__(self) -> None:
        self.reached: list[tuple[int, Entry]] = []
        self.firmer: list[tuple[int, Entry]] = []
        self.delivered: list[Entry] = []


class Link:
    """One neighbour. `open` while bundles may cross; otherwise everything for it is retained."""

    __slots__ = (
        "after", "arrived", "cursor", "heard", "held_bytes", "incarnation", "name", "open", "quiet", "room", "sent",
        "told", "upto",
    )  # fmt: skip

    def __init__(
        self, name: str, incarnation: int, faults_tolerated: int, cursor: int | None, left: Left | None = None
    ) -> None:
        """`left` is told of what both ends are through with."""
        self.name = name
        self.incarnation = incarnation
        self.open = False
        self.quiet = False
        """It is not heard at the moment: reports can wait, and would only pile up."""
        self.room = 0
        """Bytes that may be sent before the next `Writable`."""
        self.cursor = cursor
        """The next place in the log to look at; None when the link has kept up, so that new entries go out at once."""
        self.after: deque[tuple[int, ProtocolMessage]] = deque()
        """What must not overtake the log: said once everything before this place has crossed."""
        self.held_bytes = 0
        """Of this neighbour's bundles, what waits for links behind and local readers."""
        left = left if left is not None else Left()
        self.sent = Track(left)
        self.arrived = Track(left)
        self.heard = Counts(faults_tolerated)
        """What the neighbour has reported."""
        self.told = Counts(faults_tolerated)
        """What it was told."""
        self.upto = -1
        """The last place in the log that the neighbour is known to have, or of what came from it and was not safe: what
        comes from it now may depend on anything up to here."""

    def take_report(self, report: Levels) -> News:
        """Raises PeerError when it speaks of what was never sent or takes something back."""
        heard, news = self.heard, News()
        if (len(report.have), len(report.firm)) != (len(heard.have), len(heard.firm)) or (
            len(report.back_have), len(report.back_firm)
        ) != (len(heard.back_have), len(heard.back_firm)):  # fmt: skip
            raise PeerError("it reports other levels than this side: both must tolerate the same number of faults")
        sent, arrived = self.sent, self.arrived
        _hear(heard.have, report.have, 0, sent.count, sent, news.reached)
        for _, entry in news.reached:
            self.upto = max(self.upto, entry.no)
        _hear(heard.firm, report.firm, 1, heard.have[0], sent, news.firmer)
        _hear(heard.back_have, report.back_have, 1, arrived.count, arrived, news.reached)
        _hear(heard.back_firm, report.back_firm, 1, arrived.count, arrived, news.firmer)
        done = report.done
        if not heard.done <= done <= heard.have[0]:
            raise PeerError(f"{done} reported as delivered of {heard.have[0]} taken, {heard.done} before")
        news.delivered = [sent.entries[number] for number in range(heard.done + 1, done + 1)]
        heard.done = done
        self._forget()
        return news

    def kept(self) -> set[int]:
        """The entries, by `id`, that the neighbour certainly keeps until it is told more of them."""
        told, heard = self.told, self.heard
        if not told.firm:
            return set()  # with f = 0 nobody keeps anything for others
        sent = [entry for n, entry in self.sent.entries.items() if told.back_firm[-1] < n <= heard.have[0]]
        return {
            id(entry) for entry in (*sent, *[entry for n, entry in self.arrived.entries.items() if n > told.firm[-1]])
        }

    def waits_with(self, bundle: Bundle) -> bool:
        """The same here: this very bundle crossed, and is not forgotten before the neighbour says more of it."""
        heard = self.heard
        if not heard.firm:
            return True
        at = (bundle.stamp, bundle.publisher, bundle.stream, bundle.incarnation, bundle.first)
        return any(n > heard.firm[-1] and entry.id == at for n, entry in self.sent.entries.items()) or any(
            n > heard.back_firm[-1] and entry.id == at for n, entry in self.arrived.entries.items()
        )

    def report(self) -> Levels | None:
        """What may be told now, if it is more than was told before."""
        told = self.told
        arrived, sent = self.arrived.entries, self.sent.entries
        news = _tell_reach(told.have, 0, arrived)
        news |= _tell_level(told.firm, arrived)
        news |= _tell_reach(told.back_have, 1, sent)
        news |= _tell_level(told.back_firm, sent)
        done = told.done
        while (entry := arrived.get(done + 1)) is not None and entry.undone == 0:
            done += 1
        if done > told.done:
            news = True
            told.done = done
        self._forget()
        if not news:
            return None
        return Levels(tuple(told.have), tuple(told.firm), tuple(told.back_have), tuple(told.back_firm), done)

    def _forget(self) -> None:
        """What both sides are through with."""
        told, heard = self.told, self.heard
        self.arrived.forget(
            min(told.done, told.have[-1], *told.firm[-1:], *heard.back_have[-1:], *heard.back_firm[-1:])
        )
        self.sent.forget(min(heard.done, heard.have[-1], *heard.firm[-1:], *told.back_have[-1:], *told.back_firm[-1:]))


def _hear(
    heard: list[int], counts: tuple[int, ...], level: int, most: int, track: Track, raised: list[tuple[int, Entry]]
) -> None:
    entries = track.entries
    for index, count in enumerate(counts):
        before = heard[index]
        if not before <= count <= most:
            raise PeerError(f"level {level + index} reported for {count} of {most}, {before} before")
        raised.extend([(level + index, entries[number]) for number in range(before + 1, count + 1)])
        heard[index] = most = count  # whatever has reached a level has reached the one below


def _tell_reach(told: list[int], first: int, entries: dict[int, Entry]) -> bool:
    news = False
    for index, count in enumerate(told):
        while (entry := entries.get(count + 1)) is not None and entry.reach >= first + index:
            count += 1
        if count != told[index]:
            told[index] = count
            news = True
    return news


def _tell_level(told: list[int], entries: dict[int, Entry]) -> bool:
    news = False
    for index, count in enumerate(told):
        while (entry := entries.get(count + 1)) is not None and entry.level > index:
            count += 1
        if count != told[index]:
            told[index] = count
            news = True
    return news
