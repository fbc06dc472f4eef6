"""From dead neighbours to new ones: what both sides of a repair do with what was under way.

Everything that crossed the dead broker and is not stable, of all its neighbours together, is the *pool*. All of them
take in what they lack of it, in the same causal order, and the pool as a whole stands at the beginning of every new
link: so both ends go on to agree about what is stable, and nothing of it is forgotten before everybody has it.
"""

from collections.abc import Iterable, Mapping

from resprout.core.bundle import Bundle
from resprout.core.contract import CancelTimer, Timer
from resprout.core.guarantee import Guarantee
from resprout.core.marks import Marks
from resprout.spread.messages import Interested
from resprout.stacks.ginger.clients import GingerClients
from resprout.stacks.ginger.core import GingerCore
from resprout.stacks.ginger.messages import LostMessage, MessageId, TotalLock
from resprout.stacks.ginger.peers import GingerPeers
from resprout.stacks.ginger.totals import GingerTotals, Total
from resprout.stacks.ginger.view import View
from resprout.stacks.ginger.window import GingerLink, WindowEntry


class OrphansDue(Timer, frozen=True):
    """When to look after the orphans of a dead broker that did not come."""

    broker: str


class GingerHandover:
    def __init__(
        self, core: GingerCore, totals: GingerTotals, clients: GingerClients, view: View, peers: GingerPeers
    ) -> None:
        self._core = core
        self._totals = totals
        self._clients = clients
        self._view = view
        self._peers = peers
        self._new_links: list[str] = []

    def crossed(self, dead: Iterable[str]) -> list[WindowEntry]:
        """All that is not stable here and came from the dead, went there, or waits to."""
        names = list(dead)
        return [
            entry
            for entry in self._core.log.values()
            if entry.source in names or any(name in entry.waiting for name in names)
        ]

    def take_over(
        self,
        ids: Iterable[MessageId],
        lost: Mapping[MessageId, LostMessage],
        dead: Iterable[str],
        parent: str | None,
        children: Iterable[str],
    ) -> list[WindowEntry]:
        """The pool: taken in where it is new, and from now on a matter of the new neighbours."""
        core = self._core
        names = list(dead)
        for name in names:
            core.links.pop(name, None)
            core.broken.pop(name, None)
            core.forget(name)
        waiting = [*children, *([parent] if parent else [])]
        entries: list[WindowEntry] = []
        for id in ids:
            entry = core.log.get(id)
            if entry is None:
                entry = self._take_lost(id, lost.get(id), parent, waiting)
            else:
                self._keep_for(waiting, entry)
                self._clients.keep_for_ghosts(entry)
                if entry.source in names:
                    core.move(entry, parent)
                entry.safe = entry.safe or parent is not None
                for name in names:
                    core.through(entry, name)
            entries.append(entry)
        core.show_safe()
        return entries

    def _take_lost(
        self, id: MessageId, lost: LostMessage | None, parent: str | None, waiting: list[str]
    ) -> WindowEntry:
        if lost is None:
            entry = WindowEntry(_trace_of(id), 1, parent, False)
            self._keep_for(waiting, entry)
            return entry
        entry = WindowEntry(lost.bundle, max(1, lost.hops), parent, lost.prompt, lost.place)
        self._keep_for(waiting, entry)
        total = self._totals.in_progress.get(id)
        if total is not None and lost.place >= 0:
            self._totals.process(total, entry)
        elif self._core.is_old(lost.bundle):
            self._clients.keep_old_for_ghosts(entry)
        else:
            self._core.take_in_new(entry)
        return entry

    def _keep_for(self, names: list[str], entry: WindowEntry) -> None:
        for name in names:
            self._core.keep_for(name, entry)

    def pass_on_what_waited(self, dead: Iterable[str], names: Iterable[str]) -> None:
        """Taken in since this broker said what it has: the new neighbours have not heard of it."""
        core = self._core
        for entry in self.crossed(dead):
            wanting = core.wishes.table.matches(entry.bundle)
            for name in names:
                core.pass_on(core.links[name], entry, name in wanting)
            for name in dead:
                core.through(entry, name)

    def begin_link(
        self,
        name: str,
        is_parent: bool,
        wants: Iterable[Interested],
        asks: tuple[Interested, ...],
        pool: Iterable[WindowEntry],
    ) -> None:
        """`wants`: what the neighbour asks; `asks`: what it was told to be asked."""
        core = self._core
        self._peers.reserved.pop(name, None)
        self._peers.dead.pop(name, None)
        link = core.links[name] = GingerLink(name, is_parent)
        self._new_links.append(name)
        lane = link.received if is_parent else link.sent
        for entry in pool:
            lane.add(entry)
        link.left = link.sent.last  # the pool goes over as a whole, with `Attached`
        link.news = link.urgent = True
        self._peers.open(name)
        core.wishes.add_link(name, asks)
        for wanted in wants:
            core.sessions.confirm(core.wishes.hear(name, wanted), core.out)

    def bury(self, dead: Iterable[str]) -> None:
        """Others have taken their places."""
        core = self._core
        for name in dead:
            if core.wishes.has_link(name):
                core.sessions.confirm(core.wishes.remove_link(name), core.out)
            self._view.forget(name)
            core.out.append(CancelTimer(OrphansDue(name)))

    def agree(self, seen: Marks, pending: Iterable[TotalLock]) -> None:
        """What another broker has seen is decided here too, and what it has locked is locked."""
        core = self._core
        for mark in seen:
            core.seen.raise_to(mark.origin, mark.seq)
        for p in pending:
            if not core.is_old(p.bundle):
                self._totals.lock(Total(p))

    def introduce(self) -> None:
        """This broker, to its new neighbours."""
        self._view.refresh()
        for name in self._new_links:
            self._view.introduce(name)
        self._new_links.clear()


def lost_message(entry: WindowEntry) -> LostMessage:
    return LostMessage(entry.bundle, entry.hops, entry.prompt, entry.tseq)


def _trace_of(id: MessageId) -> Bundle:
    """Stands for a publication that is here no more."""
    guarantee = Guarantee.EVENTUAL if id.stream == Guarantee.EVENTUAL.stream else Guarantee.FIFO
    return Bundle(id.publisher, id.incarnation, id.seq, 1, 0, "-", (), guarantee, b"", b"")
