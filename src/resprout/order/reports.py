"""When a broker tells its neighbours how far bundles have come, and which bundles those reports may still bring back.

A report is sent at once if somebody waits for it: it makes a publication safe for those nearer to its publisher, or its
publisher waits for `delivered`. Other reports are batched. Reports that only let a neighbour forget wait longest,
because they can be sent along with the other reports.

The arrival of a bundle that may not be safe at its sender is always reported in the step in which it came. Until the
sender has this report, it assumes that bundles from here do not depend on that bundle (`order.log_holdback`).

`Retained` tells how far the origins have come of which something may come up again: the base of a subscription that
begins now. A bundle that is stable here has left the log, but neighbours may keep it for as long as they have not heard
so. If this broker dies then, a repair finds the bundle at a neighbour. A client that subscribed here after the bundle
was through was never owed it, and may have what depends on it. So reports that are still to be sent count like bundles
of the log, and so do reports that were sent only a moment ago: one that is on its way when this broker dies never
arrives.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from resprout.core.bundle import Origin
from resprout.core.contract import Effect, ProtocolMessage, SetTimer, Timer
from resprout.core.message_fields import NOTHING, Reached
from resprout.order.entry import Entry, RecentlyAcked
from resprout.order.link import Link
from resprout.order.log import Log
from resprout.order.messages import ReportSpread, ReportTaken, ReportTotals
from resprout.order.totals.levels import TotalAcks

SPREAD_DELAY_FACTOR = 16
"""Reports that only let a neighbour forget may wait this many times `ack_delay_us`."""
TOTALS_DELAY_FACTOR = 128
"""Like `SPREAD_DELAY_FACTOR`, for totals with f <= 1: their `done` report lets a neighbour forget them, and these
reports are needed only if a distant reader is slow."""


class Reports:
    """Schedules the reports on all links of a broker."""

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
        """`delay_us`: the option `ack_delay_us`. `pass_by`: sends a message to a neighbour ahead of the messages that
        wait for room, because a report lets the neighbour free room. `total_rose`: called for totals, which are
        reported by name (`order.totals.levels`)."""
        self._links = links
        self._faults = faults_tolerated
        self._delay_us = delay_us
        self._pass_by = pass_by
        self._total_rose = total_rose
        self.due = False
        """Whether `flush` may have something to do at the end of this step."""
        self._arrived: dict[str, Link] = {}
        """Links over which something came in this step that may not be safe at its sender."""
        self._urgent: dict[str, Link] = {}
        """Links to report on at the end of this step, because somebody waits for the report."""
        self.taken_soon = False
        """Whether the timer `ReportTaken` has to be set, for reports and receipts that no publisher waits for."""
        self._taken_set = False
        self._spread_soon = self._spread_set = False
        self._totals_soon = self._totals_set = False

    def arrived(self, entry: Entry, source: Link) -> None:
        """Note that an entry came over this link; report it in this step if it may not be safe at its sender."""
        self.taken_soon = self.due = True
        if entry.hops <= self._faults:
            self._arrived[source.name] = source  # somebody near the publisher may be waiting for it to be safe

    def rose(self, entry: Entry) -> None:
        """Schedule reports: the entry's reach or level has risen."""
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
        """Schedule a report to the source: nobody on this side is owed the entry any more."""
        self.due = True
        if entry.prompt:
            self._urgent[source.name] = source
        else:
            self.taken_soon = True

    def all_soon(self) -> None:
        """Schedule all reports for the timer: some were held back, and may be told now."""
        self.taken_soon = self._spread_soon = self._totals_soon = self.due = True

    def all_now(self) -> None:
        """Report everything in this step: a repair has handed over entries that may not be safe elsewhere, and their
        publishers wait for the copies."""
        self._urgent.update(self._links)
        self.all_soon()

    def receipts_soon(self) -> None:
        """Set the timer for receipts that nobody waits for."""
        self.taken_soon = self.due = True

    def flush(self, now_us: int, out: list[Effect]) -> None:
        """Send the reports that are due, and set timers. Called at the end of a step."""
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
            out.append(SetTimer(ReportSpread(), now_us + SPREAD_DELAY_FACTOR * self._delay_us))
        if self._totals_soon and not self._totals_set:
            self._totals_set = True
            factor = TOTALS_DELAY_FACTOR if self._faults <= 1 else SPREAD_DELAY_FACTOR
            out.append(SetTimer(ReportTotals(), now_us + factor * self._delay_us))

    def fired(self, timer: Timer) -> None:
        """Send the reports of a timer: `ReportTaken` on links with undelivered arrivals, `ReportSpread` on all. Totals
        are reported elsewhere."""
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


FEW_ENTRIES: Final = 256
"""Entries of the log that are always looked at again, in less than 0.1 ms."""
SHARE_OF_NEW: Final = 4
"""More are looked at again when a quarter has come since: so each entry is looked at about four times."""


class Retained:
    """How far origins have come among everything that a repair may still bring back.

    Clients that publish and subscribe in turn ask after each publication. So all entries are looked at again only when
    there are few, or when many have come since; otherwise the marks of before are raised by what has come. They may
    then name more than is kept: of that, too, everything up to the mark came before.
    """

    def __init__(self, log: Log, links: Mapping[str, Link], book: TotalAcks, recently_acked: RecentlyAcked) -> None:
        self._log = log
        self._links = links
        self._book = book
        self._recently_acked = recently_acked
        self._found: tuple[int, dict[Origin, Reached]] = (-1, {})
        self._searched_no = -1
        """The next number in the log when all entries were looked at last."""
        self.searches = 0
        """How often all entries were looked at."""

    def marks(self) -> dict[Origin, Reached]:
        """Return the mark of every origin of which something may be kept anywhere. The caller must not change it."""
        next_no, (found_no, found) = self._log.next_no, self._found
        if found_no != next_no:
            new = self._new_since(found_no)
            if new is not None:
                reached = _raised(dict(found), [new, self._book.entries.values()])
            else:
                self.searches += 1
                self._searched_no = next_no
                reached = _raised(self._recently_acked.marks(), self._all())
            self._found = (next_no, reached)
        return self._found[1]

    def _new_since(self, no: int) -> list[Entry] | None:
        """Return the entries that have come since, if that is enough to look at; None if one of them is gone."""
        entries, next_no = self._log.entries, self._log.next_no
        if len(entries) <= FEW_ENTRIES or SHARE_OF_NEW * (next_no - self._searched_no) >= len(entries):
            return None
        new = [entries[each] for each in range(no, next_no) if each in entries]
        return new if len(new) == next_no - no else None

    def _all(self) -> Iterable[Iterable[Entry]]:
        yield self._log.entries.values()
        for link in self._links.values():
            yield link.sent.entries.values()
            yield link.arrived.entries.values()
        yield self._book.entries.values()


def _raised(reached: dict[Origin, Reached], entries: Iterable[Iterable[Entry]]) -> dict[Origin, Reached]:
    """Raise marks by what these entries say, in place."""
    for some in entries:
        for entry in some:
            origin = entry.origin
            if entry.last > reached.get(origin, NOTHING):
                reached[origin] = entry.last
    return reached
