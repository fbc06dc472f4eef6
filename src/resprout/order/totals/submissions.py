"""Totals on their way up to the root, and how far each publisher's totals have been ordered.

A broker keeps what it passed up until the lock comes down, so that nothing is lost with a broker above: whoever gets a
new parent submits again. What is not newer than its publisher's last ordered total has been ordered already; that makes
submitting again harmless.
"""

from collections.abc import Iterable

from resprout.core.bundle import Bundle
from resprout.core.marks import Mark
from resprout.order.totals.backlog import Backlog
from resprout.order.totals.last import LastPlaces
from resprout.order.totals.messages import TotalId, id_of


class Submissions:
    __slots__ = ("_backlog", "last", "waiting")

    def __init__(self, backlog: Backlog) -> None:
        self._backlog = backlog
        self.last = LastPlaces()
        self.waiting: dict[TotalId, Bundle] = {}
        """Submitted and not yet locked."""

    def keep(self, id: TotalId, bundle: Bundle) -> None:
        self.waiting[id] = bundle
        self._backlog.add(id, bundle)

    def locked(self, id: TotalId, bundle: Bundle) -> None:
        """It has its place, and still waits for its delivery."""
        self._backlog.add(id, bundle)
        self.waiting.pop(id, None)
        self.note_ordered((Mark(bundle.publisher, bundle.stream, bundle.incarnation, bundle.first),))

    def drop(self, id: TotalId) -> None:
        if self.waiting.pop(id, None) is not None:
            self._backlog.remove(id)

    def note_ordered(self, marks: Iterable[Mark]) -> None:
        """Publishers have come this far. What waits here and is not newer will never be ordered: it has been, or a
        newer life of its publisher has overtaken it."""
        for mark in marks:
            self.last.note(mark)
            for bundle in self._backlog.of(mark.publisher):
                if not self.last.is_newer(id := id_of(bundle)):
                    self.drop(id)
