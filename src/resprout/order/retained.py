"""How far the origins have come of which something may come up again: the base of what becomes wanted now.

A bundle that is stable here has left the log, but neighbours may keep it for as long as they have not heard so. If this
broker dies then, a repair finds the bundle at a neighbour. Whoever subscribed here after it was through was never owed
it, and may have what depends on it. So what is to be said about a bundle counts as well as the bundle, and so does what
was said only a moment ago: a report that is on its way when this broker dies never arrives.
"""

from collections.abc import Iterable, Mapping

from resprout.core.bundle import Origin
from resprout.core.message_fields import NOTHING, Reached
from resprout.order.entry import Entry
from resprout.order.left import Left
from resprout.order.link import Link
from resprout.order.log import Log
from resprout.order.totals.levels import TotalBook


class Retained:
    def __init__(self, log: Log, links: Mapping[str, Link], book: TotalBook, left: Left) -> None:
        self._log = log
        self._links = links
        self._book = book
        self._left = left
        self._found: tuple[int, dict[Origin, Reached]] = (-1, {})

    def marks(self) -> dict[Origin, Reached]:
        """Of everything that may be kept anywhere, or was a moment ago. Not to be changed."""
        if self._found[0] != self._log.next_no:
            reached = self._left.marks()
            for entries in self._all():
                for entry in entries:
                    origin = entry.origin
                    if entry.last > reached.get(origin, NOTHING):
                        reached[origin] = entry.last
            self._found = (self._log.next_no, reached)
        return self._found[1]

    def _all(self) -> Iterable[Iterable[Entry]]:
        yield self._log.entries.values()
        for link in self._links.values():
            yield link.sent.entries.values()
            yield link.arrived.entries.values()
        yield self._book.entries.values()
