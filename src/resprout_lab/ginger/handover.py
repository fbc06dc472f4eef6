"""From dead neighbours to new ones: what both sides of a repair do with what was under way.

Everything that crossed the dead broker and is not stable, of all its neighbours together, is the *pool*. All of them
take in what they lack of it, in the same causal order, and the pool as a whole stands at the beginning of every new
link: so both ends go on to agree about what is stable, and nothing of it is forgotten before everybody has it.
"""

from collections.abc import Iterable, Mapping, Sequence

from resprout.core.bundle import shadow
from resprout.core.contract import CancelTimer, Timer
from resprout.core.message_fields import from_marks, to_marks
from resprout.spread.messages import Interested
from resprout_lab.ginger.clients import GingerClients
from resprout_lab.ginger.core import GingerCore
from resprout_lab.ginger.messages import Adopted, ClientMessageId, Cut, LostMessage, TotalLock
from resprout_lab.ginger.totals import GingerTotals, Total
from resprout_lab.ginger.window import GingerLink, WindowEntry


class OrphansDue(Timer, frozen=True):
    """When to look after the orphans of a dead broker that did not come."""

    broker: str


class GingerHandover:
    def __init__(self, core: GingerCore, totals: GingerTotals, clients: GingerClients) -> None:
        self._core = core
        self._totals = totals
        self._clients = clients

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
        ids: Iterable[ClientMessageId],
        lost: Mapping[ClientMessageId, LostMessage],
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
                core.keep_for(entry, *waiting)
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
        self, id: ClientMessageId, lost: LostMessage | None, parent: str | None, waiting: list[str]
    ) -> WindowEntry:
        found = lost or LostMessage(shadow(id.publisher, id.stream, id.incarnation, id.seq, id.seq, 0), 1, False)
        entry = WindowEntry(found.bundle, max(1, found.hops), parent, found.prompt, found.place)
        self._core.keep_for(entry, *waiting)
        total = self._totals.in_progress.get(id)
        if lost is None:
            pass  # it is stable here, and the others have to hear so
        elif total is not None and lost.place >= 0:
            self._totals.process(total, entry)
        elif self._core.seen.has(lost.bundle):
            self._clients.keep_old_for_ghosts(entry)
        else:
            self._core.take_in_new(entry)
        return entry

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
        core.peers.reserved.pop(name, None)
        core.peers.dead.pop(name, None)
        link = core.links[name] = GingerLink(name, is_parent)
        lane = link.received if is_parent else link.sent
        for entry in pool:
            lane.add(entry)
        link.left = link.sent.last  # the pool goes over as a whole, with `Attached`
        link.news = link.urgent = True
        core.peers.open(name)
        core.wishes.add_link(name, asks)
        for wanted in wants:
            core.sessions.confirm(core.wishes.hear(name, wanted), core.out)

    def replaced(self, dead: Iterable[str]) -> None:
        """Others have taken their places."""
        core = self._core
        for name in dead:
            if core.wishes.has_link(name):
                core.sessions.confirm(core.wishes.remove_link(name), core.out)
            core.view.forget(name)
            core.out.append(CancelTimer(OrphansDue(name)))

    def cut(self, unsafe: Sequence[WindowEntry] = ()) -> Cut:
        """`unsafe`: what is sent behind it, and lies beyond it."""
        core = self._core
        seen = from_marks(core.seen.marks())
        seen.update({entry.bundle.origin: entry.bundle.first - 1 for entry in reversed(unsafe)})
        locks = [TotalLock(entry.lock, entry.bundle, entry.hops) for entry in unsafe if entry.lock]
        return Cut(to_marks(seen), core.clock, core.epoch, (*locks, *self._totals.pending()))

    def have_seen(self, cut: Cut) -> None:
        """What another broker has seen is decided here too."""
        self._core.clock = max(self._core.clock, cut.clock)
        for mark in cut.seen:
            self._core.seen.raise_to(mark.origin, mark.seq)

    def lock(self, pending: Iterable[TotalLock]) -> None:
        """What others have locked is locked."""
        for lock in sorted(pending, key=lambda lock: lock.no):
            if not self._core.seen.has(lock.bundle):
                self._totals.lock(Total(lock))


def lost_message(entry: WindowEntry) -> LostMessage:
    return LostMessage(entry.bundle, entry.hops, entry.prompt, entry.tseq)


def with_adopted(wants: tuple[Interested, ...], adopted: Iterable[Adopted]) -> tuple[Interested, ...]:
    """What an orphan asks of the leader for itself and for those that it adopts; both ends number it alike."""
    known = {(wanted.filter, wanted.where) for wanted in wants}
    further = {(w.filter, w.where): None for child in adopted for w in child.wants if (w.filter, w.where) not in known}
    first = 1 + max((wanted.id for wanted in wants), default=0)
    return (*wants, *(Interested(no, *what) for no, what in enumerate(further, start=first)))
