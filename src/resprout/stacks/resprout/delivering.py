"""Shows entries of the log to local readers, and reports them as delivered (`Delivering`). Computes the bytes that
count against a neighbour or local publisher, for back-pressure (`Charges`).

"This side" of an entry means this broker and every broker behind it, seen from the neighbour that the entry came from.
"""

from collections.abc import Callable, Mapping
from typing import Final

from resprout.edge.broker.sessions import ClientSessions
from resprout.order.entry import Entry
from resprout.order.link import Link
from resprout.order.log import Log
from resprout.order.reports import Reports
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.pauses import PauseSeen

PAUSED_BYTES_MAX: Final = 1 << 20
"""A publisher that has more than this in line for a paused subscriber is held back; less where logs are small."""


class Delivering:
    """Shows safe entries to local readers in order, and tells the source of an entry when all readers have it."""

    def __init__(self, life: BrokerLife, log: Log, sessions: ClientSessions, reports: Reports) -> None:
        self._life = life
        self._log = log
        self._sessions = sessions
        self._reports = reports
        self.next_to_show = log.next_to_show
        """Returns the next entry to show. `values.ValueDesk` replaces it while something waits for its turn."""
        self._watched: dict[int, tuple[Entry, Callable[[], None]]] = {}
        """By `id` of an entry: the entry, and who is told when it is shown."""
        self.stand_ins: dict[int, tuple[Entry, Entry]] = {}
        """By `id` of a plain entry: that entry, and the total of the same bundle that counts as delivered with it."""

    def show(self) -> None:
        """Show local readers every entry that the hold-back queue releases: safe, and not behind one that is not."""
        while (entry := self.next_to_show()) is not None:
            self._sessions.show(entry, self._life.out)
            if self._watched and (watched := self._watched.pop(id(entry), None)) is not None:
                watched[1]()

    def watch(self, entry: Entry, shown: Callable[[], None]) -> None:
        """Call `shown` once an entry of this broker is safe and shown."""
        if entry.shown:
            shown()
        else:
            self._watched[id(entry)] = (entry, shown)

    def stand_in(self, plain: Entry, total: Entry) -> None:
        """Let a total count as delivered when the plain entry of the same bundle is."""
        total.undone += 1
        self.stand_ins[id(plain)] = (plain, total)

    def finished(self, entry: Entry) -> None:
        """Report an entry as delivered on this side: turn the receipt if a local client published it, otherwise
        schedule a report to the neighbour that sent it."""
        if entry.source is None:
            self._sessions.delivered(entry)
        else:
            self._reports.delivered(entry, entry.source)
        if self.stand_ins and (pair := self.stand_ins.pop(id(entry), None)) is not None:
            self._log.deliver_one(pair[1])


class Charges:
    """Bytes that count against a neighbour or a local publisher, to be compared with `log_bytes`.

    Local publishers share what they may use: with n of them the bytes of each count n times, as long as all together
    use too much. A publisher may keep little in line for a paused subscriber (`PAUSED_BYTES_MAX`).
    """

    def __init__(self, log_bytes: int, links: Mapping[str, Link], log: Log, sessions: ClientSessions) -> None:
        self._log_bytes = log_bytes
        self._links = links
        self._log = log
        self._sessions = sessions
        self.paused_for: dict[str, PauseSeen] = {}
        """Local publishers whose next publication waits for a subscriber."""

    def of(self, source: str) -> int:
        link, log = self._links.get(source), self._log
        if link is not None:
            return link.held_bytes
        session = self._sessions.all.get(source)
        waiting = session.waiting_bytes if session is not None else 0
        charged = min(log.local_bytes, (log.local.get(source, 0) + waiting) * max(1, len(log.local)))
        if waiting and source in self.paused_for:
            most = self._log_bytes
            charged = max(charged, waiting * (most // min(PAUSED_BYTES_MAX, most // 4)))
        return charged
