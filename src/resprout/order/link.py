"""A neighbour: a cursor in the log, how far each direction has come, and the state of its link.

Bundles that cross a link are numbered from 1 in each direction by both ends, so an acknowledgement is a count: "the
first 17 that you sent me have reached level 1 here". A link costs a few numbers however much is in flight. What a
repair hands over is numbered like what was sent: both ends of a new link begin with the same lists.

`Levels` has one count for each *rung*: a reach, a level, or `done`. A rung that waits for readers may also be reported
for ranges beyond its count (`Levels.ahead`), so that a reader that does not read delays only the bundles that it was
given.
"""

from collections import deque
from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from resprout.core.bundle import Bundle
from resprout.core.contract import ProtocolMessage
from resprout.core.errors import PeerError, transition
from resprout.core.seen import Range, Ranges, as_ranges
from resprout.order.entry import Entry, RecentlyAcked
from resprout.order.messages import Ahead, Levels

AHEAD_MAX: Final = 1_000
"""Ranges in one report; further ones are in the next, which follows at once."""


class LinkState(Enum):
    ADDED = auto()
    """Made within a session; what both ends begin with is being put on it."""
    OPEN = auto()
    """Bundles may cross."""
    IN_REPAIR = auto()
    """The neighbour was declared dead, or went: the link is owed everything, and nothing is heard from it."""
    REMOVED = auto()
    """Nothing is left of it; what it owed and was owed has been handed to others."""


LINK_STATES: Final[Mapping[LinkState, frozenset[LinkState]]] = {
    LinkState.ADDED: frozenset({LinkState.OPEN}),
    LinkState.OPEN: frozenset({LinkState.IN_REPAIR}),
    LinkState.IN_REPAIR: frozenset({LinkState.REMOVED}),
    LinkState.REMOVED: frozenset(),
}


class Track:
    """The bundles that crossed a link in one direction, in order, while reports about them are still to be sent or
    received."""

    __slots__ = ("_recently_acked", "count", "entries", "moved", "numbers", "through")

    def __init__(self, recently_acked: RecentlyAcked) -> None:
        self._recently_acked = recently_acked
        self.count = 0
        """Bundles that have crossed so far; also the number of the last one."""
        self.entries: dict[int, Entry] = {}
        """By number on this link: entries about which reports are outstanding."""
        self.numbers: dict[Entry, int] = {}
        """The inverse of `entries`."""
        self.moved: dict[int, None] = {}
        """Numbers of entries that were added, or whose reach or level has risen, since the last report."""
        self.through = 0
        """How many bundles, from the first on, both ends are through with: no report about them is outstanding."""

    def add(self, entry: Entry) -> None:
        self.count += 1
        self.entries[self.count] = entry
        self.numbers[entry] = self.count
        self.moved[self.count] = None

    def forget(self, upto: int) -> None:
        """Forget the first `upto` bundles; some may have been forgotten before."""
        if upto - self.through > 2 * len(self.entries):
            for number in [number for number in self.entries if number <= upto]:
                self.forget_one(number)
        else:
            for number in range(self.through + 1, upto + 1):
                self.forget_one(number)
        self.through = max(upto, self.through)

    def forget_one(self, number: int) -> None:
        entry = self.entries.pop(number, None)
        if entry is not None:
            self._recently_acked.note(entry)
            self.moved.pop(number, None)
            if self.numbers.get(entry) == number:  # it may have crossed once more, as a copy
                del self.numbers[entry]

    def hear(self, rung: Ranges, first: int, last: int, come: list[Range]) -> list[Entry]:
        """Take the neighbour's report of a rung for these numbers. Return the entries for which it is news, and add
        their numbers to `come`. Raises PeerError for a bundle that both sides were through with."""
        news = rung.add(first, last)
        come += news
        try:
            return [self.entries[number] for first, last in news for number in range(first, last + 1)]
        except KeyError as error:
            raise PeerError(f"bundle {error} is through, and reported once more") from None

    def forget_through(self, come: list[Range], have: int, rungs: tuple[Ranges, ...]) -> None:
        """Forget what both sides are through with; `come` has just come further on some rung. While every rung is
        one range from 1, counts are enough. Otherwise each number in `come` is looked at."""
        upto, has_islands = have, False
        for rung in rungs:
            if rung.upto < upto:
                upto = rung.upto
            has_islands = has_islands or rung.has_islands
        if upto > self.through:
            self.forget(upto)
        if has_islands:
            for first, last in come:
                for number in range(max(first, self.through + 1), min(last, have) + 1):
                    if all(number in rung for rung in rungs):
                        self.forget_one(number)


class ReportedCounts:
    """How far one side has reported the bundles of both directions. The attributes have the names and meanings of the
    fields of `Levels`."""

    __slots__ = ("back_firm", "back_have", "done", "firm", "have", "shape")

    def __init__(self, faults_tolerated: int) -> None:
        reaches = max(1, faults_tolerated)
        self.have = [0] * reaches
        self.firm = [Ranges() for _ in range(faults_tolerated)]
        self.back_have = [0] * (reaches - 1)
        self.back_firm = [Ranges() for _ in range(faults_tolerated)]
        self.done = Ranges()
        self.shape = (reaches, faults_tolerated, reaches - 1, faults_tolerated)
        """The number of levels of `have`, `firm`, `back_have` and `back_firm`."""

    def rung(self, number: int) -> Ranges | None:
        """Return the ranges of a rung, numbered as in `Levels.ahead`; None if there is no such rung."""
        if number == 0:
            return self.done
        rungs, place = (self.firm, number - 1) if number > 0 else (self.back_firm, -number - 1)
        return rungs[place] if place < len(rungs) else None


class LinkNews:
    """The entries that a neighbour's report raises."""

    __slots__ = ("delivered", "levels", "reaches")

    def __init__(self) -> None:
        self.reaches: list[tuple[int, Entry]] = []
        """(reach, entry): the neighbour reports this reach."""
        self.levels: list[tuple[int, Entry]] = []
        """(level, entry): the neighbour reports this level."""
        self.delivered: list[Entry] = []
        """Entries that are delivered to all readers at and behind the neighbour."""


class Link:
    """One neighbour. Bundles cross while the link is open; otherwise everything for it is retained."""

    __slots__ = (
        "_arrived_rungs", "_sent_rungs", "after", "ahead", "arrived", "asked_back_us", "copies", "cursor", "heard",
        "held_bytes", "incarnation", "listeners", "name", "open", "sent", "silent", "state", "told", "unsaid", "upto",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        incarnation: int,
        faults_tolerated: int,
        cursor: int | None,
        recently_acked: RecentlyAcked | None = None,
    ) -> None:
        """`recently_acked` is told of entries that both ends are through with."""
        self.name = name
        self.incarnation = incarnation
        self.state = LinkState.ADDED
        self.open = False
        """Whether `state` is OPEN; read for every bundle."""
        self.silent = False
        """Whether the neighbour is not heard at the moment: reports to it wait."""
        self.asked_back_us: int | None = None
        """When the neighbour ended its session, as a child, and was asked whether this broker was declared dead."""
        self.listeners: set[str] = set()
        """Clients with subscriptions that the neighbour serves, or keeps a ghost for, as it says."""
        self.unsaid: list[ProtocolMessage] | None = None
        """In a repair: messages for the link since this broker handed over its state."""
        self.cursor = cursor
        """The next place in the log to send; None when the link has kept up, so that new entries leave at once."""
        self.after: deque[tuple[int, ProtocolMessage]] = deque()
        """(place, message): sent once everything before this place has crossed, so that it does not overtake the
        log."""
        self.copies: deque[Entry] = deque()
        """Entries to send as copies for others, as soon as there is room."""
        self.held_bytes = 0
        """Bytes of this neighbour's bundles that wait for links that have fallen behind."""
        recently_acked = recently_acked if recently_acked is not None else RecentlyAcked()
        self.sent = Track(recently_acked)
        """Bundles that this broker sent to the neighbour."""
        self.arrived = Track(recently_acked)
        """Bundles that came from the neighbour."""
        self.heard = ReportedCounts(faults_tolerated)
        """Counts that the neighbour has reported."""
        self.told = ReportedCounts(faults_tolerated)
        """Counts that the neighbour was told."""
        told, heard = self.told, self.heard
        self._arrived_rungs = (told.done, *told.firm[-1:], *heard.back_firm[-1:])
        self._sent_rungs = (heard.done, *heard.firm[-1:], *told.back_firm[-1:])
        """The rungs that must have been reported, in both directions, until both sides are through with a bundle."""
        self.ahead: deque[Ahead] = deque()
        """Parts of `Levels.ahead` that did not fit into the last report."""
        self.upto = -1
        """The last place in the log that the neighbour has confirmed, or that came from it and was not safe. Bundles
        that come from the neighbour from now on may depend on entries up to here, and on no later ones."""

    def move_to(self, state: LinkState) -> None:
        self.state = transition(LINK_STATES, self.state, state)
        self.open = state is LinkState.OPEN

    @property
    def crossed(self) -> int:
        """The number of bundles that have crossed, in both directions."""
        return self.sent.count + self.arrived.count

    def take_report(self, report: Levels) -> LinkNews:
        """Take a report, and return the entries that it raises. Raises PeerError when it speaks of what was never
        sent, or takes something back."""
        heard, news = self.heard, LinkNews()
        if heard.shape != (len(report.have), len(report.firm), len(report.back_have), len(report.back_firm)):
            raise PeerError("it reports other levels than this side: both must tolerate the same number of faults")
        sent, arrived = self.sent, self.arrived
        come_sent: list[Range] = []
        come_arrived: list[Range] = []
        _hear(heard.have, report.have, 0, sent.count, sent, come_sent, news.reaches)
        for _, entry in news.reaches:
            self.upto = max(self.upto, entry.no)
        _hear_firm(heard.firm, report.firm, heard.have[0], sent, come_sent, news.levels)
        if report.back_have:
            _hear(heard.back_have, report.back_have, 1, arrived.count, arrived, come_arrived, news.reaches)
        _hear_firm(heard.back_firm, report.back_firm, arrived.count, arrived, come_arrived, news.levels)
        if not heard.done.upto <= report.done <= heard.have[0]:
            raise PeerError(f"{report.done} reported as delivered of {heard.have[0]} taken, {heard.done.upto} before")
        if report.done > heard.done.upto:
            news.delivered += sent.hear(heard.done, 1, report.done, come_sent)
        for part in report.ahead:
            self._hear_ahead(part, come_arrived if part.rung < 0 else come_sent, news)
        self._forget(come_sent, come_arrived)
        return news

    def _hear_ahead(self, part: Ahead, come: list[Range], news: LinkNews) -> None:
        rung, first, last = part.rung, part.first, part.last
        reported = self.heard.rung(rung)
        most = self.arrived.count if rung < 0 else self.heard.have[0]
        if reported is None or not 1 <= first <= last <= most:
            raise PeerError(f"rung {rung} reported for {first} to {last} of {most}")
        track = self.arrived if rung < 0 else self.sent
        entries = track.hear(reported, first, last, come)
        if rung == 0:
            news.delivered += entries
        else:
            news.levels += [(abs(rung), entry) for entry in entries]

    def kept(self) -> set[int]:
        """Return the `id` of each entry that the neighbour stores, or will when it arrives, until this side reports
        more about it."""
        told = self.told
        if not told.firm:
            return set()  # with f = 0 nobody keeps anything for others
        firm, back_firm = told.firm[-1], told.back_firm[-1]
        sent = [entry for n, entry in self.sent.entries.items() if n not in back_firm]
        return {id(entry) for entry in (*sent, *[entry for n, entry in self.arrived.entries.items() if n not in firm])}

    def keeps(self, entry: Entry) -> bool:
        """Whether the neighbour has confirmed this entry and still stores it."""
        told, sent = self.told, self.sent.numbers.get(entry)
        if sent is not None and sent <= self.heard.have[0] and sent not in told.back_firm[-1]:
            return True
        arrived = self.arrived.numbers.get(entry)
        return arrived is not None and arrived not in told.firm[-1]

    def has(self, entry: Entry) -> bool:
        """Whether the neighbour has confirmed this entry, or sent it."""
        return (
            self.sent.numbers.get(entry, self.heard.have[0] + 1) <= self.heard.have[0] or entry in self.arrived.numbers
        )

    def waits_with(self, bundle: Bundle) -> bool:
        """Whether this broker has this bundle from or for the link, and stores it until the neighbour reports more
        about it."""
        if not self.heard.firm:
            return True
        at = (bundle.stamp, bundle.publisher, bundle.stream, bundle.incarnation, bundle.first)
        firm, back_firm = self.heard.firm[-1], self.heard.back_firm[-1]
        return any(entry.id == at and n not in firm for n, entry in self.sent.entries.items()) or any(
            entry.id == at and n not in back_firm for n, entry in self.arrived.entries.items()
        )

    def moved(self, entry: Entry) -> None:
        """Look at this entry for the next report: it has come further."""
        arrived, sent = self.arrived, self.sent
        number = arrived.numbers.get(entry)
        if number is not None:
            arrived.moved[number] = None
        number = sent.numbers.get(entry)
        if number is not None:
            sent.moved[number] = None

    def report(self) -> Levels | None:
        """Return a report for the neighbour, or None if nothing has changed. Call again while `ahead` is not empty."""
        told = self.told
        come_sent: list[Range] = []
        come_arrived: list[Range] = []
        news = _tell_reach(told.have, 0, self.arrived.entries, come_arrived)
        if told.back_have:
            news |= _tell_reach(told.back_have, 1, self.sent.entries, come_sent)
        arrived, sent = list(self.arrived.moved), list(self.sent.moved)
        self.arrived.moved.clear()
        self.sent.moved.clear()
        for index in range(len(told.firm)):
            news |= self._tell(index + 1, told.firm[index], index, self.arrived, arrived, come_arrived)
            news |= self._tell(-index - 1, told.back_firm[index], index, self.sent, sent, come_sent)
        news |= self._tell(0, told.done, -1, self.arrived, arrived, come_arrived)
        self._forget(come_sent, come_arrived)
        if not news and not self.ahead:
            return None
        ahead = [self.ahead.popleft() for _ in range(min(AHEAD_MAX, len(self.ahead)))]
        firm = tuple([rung.upto for rung in told.firm])
        back_firm = tuple([rung.upto for rung in told.back_firm])
        return Levels(tuple(told.have), firm, tuple(told.back_have), back_firm, told.done.upto, tuple(ahead))

    def _tell(self, rung: int, told: Ranges, level: int, track: Track, moved: list[int], come: list[Range]) -> bool:
        """Add to what was `told` of a rung every number that has reached it: the next ones in order, and those among
        `moved` as ranges ahead. Append them to `come`, too. `level`: -1 for `done`. Return True when the count has
        risen."""
        entries, before = track.entries, told.upto
        upto = before
        while (entry := entries.get(upto + 1)) is not None and _has_come(entry, level):
            upto += 1
        if upto > before:
            come += told.add(before + 1, upto)
        if track.count > upto + 1:  # that one has not come, or is through
            islands = [
                number
                for number in moved
                if number > upto + 1
                and number not in told
                and (entry := entries.get(number)) is not None
                and _has_come(entry, level)
            ]
            for first, last in as_ranges(islands):
                come += told.add(first, last)
                if last > told.upto:
                    self.ahead.append(Ahead(rung, first, last))
        return told.upto > before

    def _forget(self, sent: list[Range], arrived: list[Range]) -> None:
        """Forget what both sides are through with. `sent`, `arrived`: numbers of which something was just told or
        heard."""
        told, heard = self.told, self.heard
        if arrived:
            have = told.have[-1]
            if heard.back_have:
                have = min(have, heard.back_have[-1])
            self.arrived.forget_through(arrived, have, self._arrived_rungs)
        if sent:
            have = heard.have[-1]
            if told.back_have:
                have = min(have, told.back_have[-1])
            self.sent.forget_through(sent, have, self._sent_rungs)


def _has_come(entry: Entry, level: int) -> bool:
    """Whether the entry is above this level; for -1, whether it is delivered on this side."""
    return entry.undone == 0 if level < 0 else entry.level > level


def _hear(
    heard: list[int], counts: tuple[int, ...], level: int, most: int, track: Track, come: list[Range],
    raised: list[tuple[int, Entry]],
) -> None:  # fmt: skip
    entries = track.entries
    for index, count in enumerate(counts):
        before = heard[index]
        if not before <= count <= most:
            raise PeerError(f"level {level + index} reported for {count} of {most}, {before} before")
        if count > before:
            come.append((before + 1, count))
            raised.extend([(level + index, entries[number]) for number in range(before + 1, count + 1)])
        heard[index] = most = count  # whatever has reached a level has reached the one below


def _hear_firm(
    heard: list[Ranges], counts: tuple[int, ...], most: int, track: Track, come: list[Range],
    raised: list[tuple[int, Entry]],
) -> None:  # fmt: skip
    for index, (rung, count) in enumerate(zip(heard, counts, strict=True)):
        if not rung.upto <= count <= most:
            raise PeerError(f"level {index + 1} reported for {count} of {most}, {rung.upto} before")
        if count > rung.upto:
            raised += [(index + 1, entry) for entry in track.hear(rung, 1, count, come)]
        most = count


def _tell_reach(told: list[int], first: int, entries: dict[int, Entry], come: list[Range]) -> bool:
    news = False
    for index, count in enumerate(told):
        while (entry := entries.get(count + 1)) is not None and entry.reach >= first + index:
            count += 1
        if count != told[index]:
            come.append((told[index] + 1, count))
            told[index] = count
            news = True
    return news
