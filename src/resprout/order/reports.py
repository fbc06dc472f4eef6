"""When a broker tells its neighbours how far bundles have come.

What somebody waits for is told at once: it makes a publication safe for those nearer to its publisher, or its publisher
waits for `delivered`. Everything else waits for company, and what only lets a neighbour forget waits longest, because
it rides along with the other reports anyway.

That a bundle is here which may not be safe at its sender is told in the step in which it came, whatever happens: until
then the sender takes what it hears from here for independent of the bundle (`order.log_holdback`).
"""

from collections.abc import Callable, Mapping

from resprout.core.contract import Effect, ProtocolMessage, SetTimer, Timer
from resprout.order.entry import Entry
from resprout.order.link import Link
from resprout.order.timers import ReportSpread, ReportTaken, ReportTotals

SPREAD_PATIENCE = 16
"""How many times longer a report that only lets a neighbour forget may wait."""
TOTALS_PATIENCE = 128
"""The same for totals with f <= 1, which are forgotten when they are done, unless somebody far away is slow."""


class Reports:
    """What is still to be told, over all links of a broker."""

    __slots__ = (
        "_arrived", "_delay_us", "_faults", "_links", "_pass_by", "_spread_set", "_spread_soon", "_taken_set",
        "_total_rose", "_totals_set", "_totals_soon", "_urgent", "due", "taken_soon",
    )  # fmt: skip

    def __init__(
        self,
        links: Mapping[str, Link],
        faults_tolerated: int,
        delay_us: int,
        pass_by: Callable[[str, ProtocolMessage], object],
        total_rose: Callable[[Entry], None],
    ) -> None:
        """`pass_by`: tell a neighbour, and do not wait behind what waits for room: what it may forget makes room.
        `total_rose`: totals are reported by name, elsewhere (`order.totals.levels`)."""
        self._links = links
        self._faults = faults_tolerated
        self._delay_us = delay_us
        self._pass_by = pass_by
        self._total_rose = total_rose
        self.due = False
        """There may be something to do at the end of this step."""
        self._arrived: dict[str, Link] = {}
        """Where something came from in this step that may not be safe there."""
        self._urgent: dict[str, Link] = {}
        self.taken_soon = False
        """Something of what neighbours or clients sent has come further."""
        self._taken_set = False
        self._spread_soon = self._spread_set = False
        self._totals_soon = self._totals_set = False

    def arrived(self, entry: Entry, source: Link) -> None:
        self.taken_soon = self.due = True
        if entry.hops <= self._faults:
            self._arrived[source.name] = source  # somebody near the publisher may be waiting for it to be safe

    def rose(self, entry: Entry) -> None:
        """The entry's reach or level has risen."""
        if entry.tseq >= 0:
            self._total_rose(entry)
        if not self._links:
            return
        self.taken_soon = self._spread_soon = self.due = True
        if entry.tseq >= 0:
            self._totals_soon = True
        else:
            for link in self._links.values():
                link.moved(entry)
        if entry.hops < self._faults and self._faults > 1:
            self._urgent.update(self._links)  # deeper copies make it safe for those nearer to the publisher

    def delivered(self, entry: Entry, source: Link) -> None:
        """Nobody on this side is owed the entry any more."""
        self.due = True
        if entry.prompt:
            self._urgent[source.name] = source
        else:
            self.taken_soon = True

    def all_soon(self) -> None:
        """Some were held back, and may be told now."""
        self.taken_soon = self._spread_soon = self._totals_soon = self.due = True

    def all_now(self) -> None:
        """A repair has handed over what may not be safe elsewhere: whoever published it nearby waits for the copies."""
        self._urgent.update(self._links)
        self.all_soon()

    def receipts_soon(self) -> None:
        """Clients are to be told something that nobody waits for."""
        self.taken_soon = self.due = True

    def flush(self, now_us: int, out: list[Effect]) -> None:
        """At the end of a step."""
        self.due = False
        if self._arrived:
            for link in self._arrived.values():
                self._report(link, silent_too=True)
            self._arrived.clear()
        if self._urgent:
            for link in self._urgent.values():
                self._report(link)
            self._urgent.clear()
        if self.taken_soon and not self._taken_set:
            self._taken_set = True
            out.append(SetTimer(ReportTaken(), now_us + self._delay_us))
        if self._spread_soon and not self._spread_set:
            self._spread_set = True
            out.append(SetTimer(ReportSpread(), now_us + SPREAD_PATIENCE * self._delay_us))
        if self._totals_soon and not self._totals_set:
            self._totals_set = True
            patience = TOTALS_PATIENCE if self._faults <= 1 else SPREAD_PATIENCE
            out.append(SetTimer(ReportTotals(), now_us + patience * self._delay_us))

    def fired(self, timer: Timer) -> None:
        if isinstance(timer, ReportTaken):
            self._taken_set = self.taken_soon = False
            concerned = [link for link in self._links.values() if link.told.done.upto < link.arrived.count]
        elif isinstance(timer, ReportTotals):
            self._totals_set = self._totals_soon = False
            concerned = []
        else:
            self._spread_set = self._spread_soon = False
            concerned = list(self._links.values())
        for link in concerned:
            self._report(link)

    def _report(self, link: Link, silent_too: bool = False) -> None:
        if link.open and (silent_too or not link.silent):
            news = link.report()
            while news is not None:
                self._pass_by(link.name, news)
                news = link.report() if link.ahead else None
