"""A neighbour: a cursor in the log, how far each direction has come, and what is known of it while its link lasts.

Bundles that cross a link are numbered from 1 in each direction by both ends, so an acknowledgement is a count: "the
first 17 that you sent me have reached level 1 here". A link costs a few numbers however much is in flight. What a
repair hands over is numbered like what was sent: both ends of a new link begin with the same lists.

That readers have taken something, here or behind here, is also said of bundles behind one that somebody does not take
(`Levels.ahead`): whoever does not read holds up nothing but what it was given.
"""

from collections import deque
from typing import Final

from resprout.core.bundle import Bundle
from resprout.core.contract import ProtocolMessage
from resprout.core.errors import PeerError
from resprout.core.seen import Range, Ranges, as_ranges
from resprout.core.states import transition
from resprout.order.entry import Entry
from resprout.order.left import Left
from resprout.order.link_state import LINK_STATES, LinkState
from resprout.order.messages import Ahead, Levels

AHEAD_MAX: Final = 1_000
"""Ranges in one report; further ones are in the next, which follows at once."""


class Track:
    """The bundles that crossed a link in one direction, in order, while something is still to be said about them."""

    __slots__ = ("_left", "count", "entries", "moved", "numbers", "through")

    def __init__(self, left: Left) -> None:
        self._left = left
        self.count = 0
        self.entries: dict[int, Entry] = {}
        self.numbers: dict[Entry, int] = {}
        self.moved: dict[int, None] = {}
        """Those that have come further, or have just come, since they were last looked at."""
        self.through = 0
        """Nothing is left to say about the first so many."""

    def add(self, entry: Entry) -> None:
        self.count += 1
        self.entries[self.count] = entry
        self.numbers[entry] = self.count
        self.moved[self.count] = None

    def forget(self, upto: int) -> None:
        """All of the first so many, of which some may have been forgotten before."""
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
            self._left.note(entry)
            self.moved.pop(number, None)
            if self.numbers.get(entry) == number:  # it may have crossed once more, as a copy
                del self.numbers[entry]

    def hear(self, rung: Ranges, first: int, last: int, come: list[Range]) -> list[Entry]:
        """The neighbour reports a rung for these. Those of which it is news, by number in `come`; raises PeerError when
        nothing is left to be said about one of them."""
        news = rung.add(first, last)
        come += news
        try:
            return [self.entries[number] for first, last in news for number in range(first, last + 1)]
        except KeyError as error:
            raise PeerError(f"bundle {error} is through, and reported once more") from None

    def forget_through(self, come: list[Range], have: int, rungs: tuple[Ranges, ...]) -> None:
        """What both sides are through with; `come` has just come further on any rung. While no rung has islands, counts
        say it all. Otherwise whatever has come further may be through."""
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
    """How far one side has reported the bundles of both directions, in the terms of `Levels`."""

    __slots__ = ("back_firm", "back_have", "done", "firm", "have", "shape")

    def __init__(self, faults_tolerated: int) -> None:
        reaches = max(1, faults_tolerated)
        self.have = [0] * reaches
        self.firm = [Ranges() for _ in range(faults_tolerated)]
        self.back_have = [0] * (reaches - 1)
        self.back_firm = [Ranges() for _ in range(faults_tolerated)]
        self.done = Ranges()
        self.shape = (reaches, faults_tolerated, reaches - 1, faults_tolerated)
        """How many levels each of these has."""

    def rung(self, number: int) -> Ranges | None:
        """As `Levels.ahead` names it."""
        if number == 0:
            return self.done
        rungs, place = (self.firm, number - 1) if number > 0 else (self.back_firm, -number - 1)
        return rungs[place] if place < len(rungs) else None


class LinkNews:
    """What a report says for the first time."""

    __slots__ = ("delivered", "firmer", "reached")

    def __init__(self) -> None:
        self.reached: list[tuple[int, Entry]] = []
        self.firmer: list[tuple[int, Entry]] = []
        self.delivered: list[Entry] = []


class Link:
    """One neighbour. Bundles cross while it is open; otherwise everything for it is retained."""

    __slots__ = (
        "_arrived_rungs", "_sent_rungs", "after", "ahead", "arrived", "asked_back_us", "copies", "cursor", "heard",
        "held_bytes", "incarnation", "listeners", "name", "open", "sent", "silent", "state", "told", "unsaid", "upto",
    )  # fmt: skip

    def __init__(
        self, name: str, incarnation: int, faults_tolerated: int, cursor: int | None, left: Left | None = None
    ) -> None:
        """`left` is told of what both ends are through with."""
        self.name = name
        self.incarnation = incarnation
        self.state = LinkState.ADDED
        self.open = False
        """As the state says; read for every bundle."""
        self.silent = False
        """It is not heard at the moment: reports can wait, and would only pile up."""
        self.asked_back_us: int | None = None
        """When the neighbour ended its session, as a child, and was asked whether this broker was declared dead."""
        self.listeners: set[str] = set()
        """The clients with subscriptions that the neighbour stands for, as it says."""
        self.unsaid: list[ProtocolMessage] | None = None
        """In a repair: what was to be said on the link since this broker handed over what it had said before."""
        self.cursor = cursor
        """The next place in the log to look at; None when the link has kept up, so that new entries go out at once."""
        self.after: deque[tuple[int, ProtocolMessage]] = deque()
        """What must not overtake the log: said once everything before this place has crossed."""
        self.copies: deque[Entry] = deque()
        """What it is to keep for others as soon as it has room."""
        self.held_bytes = 0
        """Of this neighbour's bundles, what waits for links behind and local readers."""
        left = left if left is not None else Left()
        self.sent = Track(left)
        self.arrived = Track(left)
        self.heard = ReportedCounts(faults_tolerated)
        """What the neighbour has reported."""
        self.told = ReportedCounts(faults_tolerated)
        """What it was told."""
        told, heard = self.told, self.heard
        self._arrived_rungs = (told.done, *told.firm[-1:], *heard.back_firm[-1:])
        self._sent_rungs = (heard.done, *heard.firm[-1:], *told.back_firm[-1:])
        """What must be said and heard of a bundle until both sides are through with it."""
        self.ahead: deque[Ahead] = deque()
        """What it is to be told in the terms of `Levels.ahead`, and the last report could not hold."""
        self.upto = -1
        """The last place in the log that the neighbour is known to have, or of what came from it and was not safe: what
        comes from it now may depend on anything up to here."""

    def move_to(self, state: LinkState) -> None:
        self.state = transition(LINK_STATES, self.state, state)
        self.open = state is LinkState.OPEN

    @property
    def crossed(self) -> int:
        """Bundles that have crossed, in both directions."""
        return self.sent.count + self.arrived.count

    def take_report(self, report: Levels) -> LinkNews:
        """Raises PeerError when it speaks of what was never sent or takes something back."""
        heard, news = self.heard, LinkNews()
        if heard.shape != (len(report.have), len(report.firm), len(report.back_have), len(report.back_firm)):
            raise PeerError("it reports other levels than this side: both must tolerate the same number of faults")
        sent, arrived = self.sent, self.arrived
        come_sent: list[Range] = []
        come_arrived: list[Range] = []
        _hear(heard.have, report.have, 0, sent.count, sent, come_sent, news.reached)
        for _, entry in news.reached:
            self.upto = max(self.upto, entry.no)
        _hear_firm(heard.firm, report.firm, heard.have[0], sent, come_sent, news.firmer)
        if report.back_have:
            _hear(heard.back_have, report.back_have, 1, arrived.count, arrived, come_arrived, news.reached)
        _hear_firm(heard.back_firm, report.back_firm, arrived.count, arrived, come_arrived, news.firmer)
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
            news.firmer += [(abs(rung), entry) for entry in entries]

    def kept(self) -> set[int]:
        """The entries, by `id`, that the neighbour keeps, or will when they come, until it is told more of them."""
        told = self.told
        if not told.firm:
            return set()  # with f = 0 nobody keeps anything for others
        firm, back_firm = told.firm[-1], told.back_firm[-1]
        sent = [entry for n, entry in self.sent.entries.items() if n not in back_firm]
        return {id(entry) for entry in (*sent, *[entry for n, entry in self.arrived.entries.items() if n not in firm])}

    def keeps(self, entry: Entry) -> bool:
        """The same of one entry, and of what has certainly come."""
        told, sent = self.told, self.sent.numbers.get(entry)
        if sent is not None and sent <= self.heard.have[0] and sent not in told.back_firm[-1]:
            return True
        arrived = self.arrived.numbers.get(entry)
        return arrived is not None and arrived not in told.firm[-1]

    def has(self, entry: Entry) -> bool:
        """It has crossed, and the neighbour has said so, or sent it."""
        return (
            self.sent.numbers.get(entry, self.heard.have[0] + 1) <= self.heard.have[0] or entry in self.arrived.numbers
        )

    def waits_with(self, bundle: Bundle) -> bool:
        """The same here: this very bundle crossed, and is not forgotten before the neighbour says more of it."""
        if not self.heard.firm:
            return True
        at = (bundle.stamp, bundle.publisher, bundle.stream, bundle.incarnation, bundle.first)
        firm, back_firm = self.heard.firm[-1], self.heard.back_firm[-1]
        return any(entry.id == at and n not in firm for n, entry in self.sent.entries.items()) or any(
            entry.id == at and n not in back_firm for n, entry in self.arrived.entries.items()
        )

    def moved(self, entry: Entry) -> None:
        """It has come further: look at it for the next report."""
        arrived, sent = self.arrived, self.sent
        number = arrived.numbers.get(entry)
        if number is not None:
            arrived.moved[number] = None
        number = sent.numbers.get(entry)
        if number is not None:
            sent.moved[number] = None

    def report(self) -> Levels | None:
        """What may be told now, if it is more than was told before; to be asked again while there is more `ahead`."""
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
        """Look at the first that was not told, and at all that have moved. True when the count has risen."""
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
        """What both sides are through with. `sent` and `arrived`: of which something was just said or heard; of others
        nobody can have become through with more."""
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
