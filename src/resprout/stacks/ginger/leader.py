"""Leading a repair: wait for the dead broker's children, pool what all have, and send everybody on from one cut.

Nothing is counted: the orphans are a set, each with what it has said, and the repair ends when all have said what they
have and where they go. An orphan that dies leaves the set; one that does not come is waited for, though not for ever.
"""

from collections.abc import Iterable

from resprout.core.contract import Note, SetTimer
from resprout.core.marks import from_marks, is_beyond
from resprout.overlay.places import Life
from resprout.spread.messages import Interested
from resprout.stacks.ginger.clients import GingerClients
from resprout.stacks.ginger.core import GingerCore
from resprout.stacks.ginger.handover import GingerHandover, OrphansDue, lost_message
from resprout.stacks.ginger.messages import (
    Adopted,
    Attached,
    LostMessage,
    LostMessageRequest,
    MessageId,
    ParentBuffer,
    ParentRequest,
    ParentResponse,
    Placed,
)  # fmt: skip
from resprout.stacks.ginger.outcomes import LinksChanged
from resprout.stacks.ginger.peers import GingerPeers
from resprout.stacks.ginger.totals import GingerTotals
from resprout.stacks.ginger.view import View
from resprout.stacks.ginger.window import id_of


class OrphanedChild:
    """A child of the dead broker, as far as it has been heard."""

    __slots__ = ("asked", "lost", "overdue", "place", "request", "wants")

    def __init__(self) -> None:
        self.asked = False
        self.overdue = False
        """It is there, and should have asked."""
        self.place: str | None = None
        """Its new parent."""
        self.lost: dict[MessageId, LostMessage] = {}
        self.request: LostMessageRequest | None = None
        self.wants: tuple[Interested, ...] = ()


class GingerRepair:
    __slots__ = ("dead", "orphans")

    def __init__(self, dead: Iterable[str], orphans: Iterable[str]) -> None:
        self.dead = dict.fromkeys(dead)
        self.orphans = {name: OrphanedChild() for name in orphans}

    @property
    def is_complete(self) -> bool:
        return all(orphan.request is not None and orphan.place is not None for orphan in self.orphans.values())

    @property
    def requests(self) -> dict[str, LostMessageRequest]:
        return {name: orphan.request for name, orphan in self.orphans.items() if orphan.request is not None}


class Leader:
    def __init__(
        self,
        core: GingerCore,
        totals: GingerTotals,
        clients: GingerClients,
        view: View,
        peers: GingerPeers,
        handover: GingerHandover,
    ) -> None:
        self._core = core
        self._totals = totals
        self._clients = clients
        self._view = view
        self._peers = peers
        self._handover = handover
        self.repairs: list[GingerRepair] = []

    # -- who takes part ------------------------------------------------------------------------------------------------

    def lead(self, dead: Iterable[str], orphans: Iterable[str]) -> None:
        core = self._core
        repair = GingerRepair(dead, (name for name in orphans if name not in self._peers.dead and name != core.name))
        self.repairs.append(repair)
        for name in repair.dead:
            core.out.append(SetTimer(OrphansDue(name), core.now_us + core.options.timer_us))
        self._finish_if_complete(repair)

    def orphans_due(self, timer: OrphansDue) -> None:
        """Call those that did not come; go on without those that are silent, or are there and do not ask."""
        core = self._core
        for repair in list(self.repairs):
            if timer.broker not in repair.dead:
                continue
            for name, orphan in list(repair.orphans.items()):
                if not orphan.asked and (self._peers.cannot_be_reached(name) or orphan.overdue):
                    del repair.orphans[name]
                elif not orphan.asked:
                    orphan.overdue = self._peers.is_up(name)
                    self._peers.open(name)
            core.out.append(SetTimer(timer, core.now_us + core.options.timer_us))
            self._finish_if_complete(repair)

    def expects(self, name: str) -> bool:
        return any(name in repair.orphans for repair in self.repairs)

    def lose(self, name: str) -> None:
        """An orphan died, or turns out to be none; whoever wanted to go there must look elsewhere."""
        for repair in list(self.repairs):
            if repair.orphans.pop(name, None) is not None:
                for orphan in repair.orphans.values():
                    if orphan.place == name:
                        orphan.place = None
                self._finish_if_complete(repair)

    # -- what orphans say ----------------------------------------------------------------------------------------------

    def degree_left(self) -> int:
        return self._view.degree_left - len(self._peers.reserved)

    def respond(self, name: str, accepted: bool) -> None:
        if accepted:
            self._peers.reserved[name] = None
        self._core.outbox.send(name, ParentResponse(accepted))

    def accept(self, name: str, message: ParentRequest) -> None:
        repair = next((r for r in self.repairs if r.dead.keys() & set(message.dead)), None)
        if repair is None:  # it was not expected, or comes late
            repair = GingerRepair(message.dead, (name,))
            self.repairs.append(repair)
        repair.dead.update(dict.fromkeys(message.dead))
        orphan = repair.orphans.setdefault(name, OrphanedChild())
        orphan.asked = True
        orphan.wants = message.wants
        accepted = name in self._peers.reserved or self.degree_left() > 0 or message.break_degree
        if accepted:
            orphan.place = self._core.name
        self.respond(name, accepted)
        if not message.break_degree:
            orphan.request = None
            buffered = tuple(entry.id for entry in self._handover.crossed(repair.dead))
            self._core.outbox.send(name, ParentBuffer(message.dead, buffered))
        self._finish_if_complete(repair)

    def hear_lost(self, name: str, message: LostMessage) -> None:
        for repair in self.repairs:
            if (orphan := repair.orphans.get(name)) is not None:
                orphan.lost[id_of(message.bundle)] = message

    def hear_lost_request(self, name: str, message: LostMessageRequest) -> None:
        for repair in list(self.repairs):
            if (orphan := repair.orphans.get(name)) is not None:
                orphan.request = message
                self._finish_if_complete(repair)

    def hear_placed(self, name: str, message: Placed) -> None:
        for repair in list(self.repairs):
            if (orphan := repair.orphans.get(name)) is not None:
                orphan.place = message.parent
                self._finish_if_complete(repair)

    # -- the end -------------------------------------------------------------------------------------------------------

    def finish_all(self) -> None:
        for repair in list(self.repairs):
            self._finish_if_complete(repair)

    def _finish_if_complete(self, repair: GingerRepair) -> None:
        if repair in self.repairs and repair.is_complete and not self._core.orphaned:
            self.repairs.remove(repair)
            self._finish(repair)

    def _finish(self, repair: GingerRepair) -> None:
        core = self._core
        requests = repair.requests
        follows_root = any(name in core.links and core.links[name].is_parent for name in repair.dead)
        if follows_root:
            core.is_root = True
            core.epoch = 1 + max(core.epoch, *(request.epoch for request in requests.values()), 0)
        core.clock = max(core.clock, *(request.clock for request in requests.values()), 0)
        self._expect_clients(repair)
        lost = {entry.id: lost_message(entry) for entry in self._handover.crossed(repair.dead)}
        for orphan in repair.orphans.values():
            lost = orphan.lost | lost
        pool = sorted(lost, key=lambda id: _causally(id, lost[id]))
        direct = [name for name, orphan in repair.orphans.items() if orphan.place == core.name]
        entries = self._handover.take_over(pool, lost, repair.dead, None, direct)
        asks = {name: self._asks_of(name, repair) for name in repair.orphans}
        adopted = {name: self._adopted_by(name, repair, asks) for name in repair.orphans}
        for name in direct:
            wants = with_adopted(repair.orphans[name].wants, adopted[name])
            self._handover.begin_link(name, False, wants, asks[name], entries)
        self._handover.bury(repair.dead)
        for request in requests.values():
            self._handover.agree(request.seen, ())
        self._handover.agree((), sorted((p for r in requests.values() for p in r.pending), key=lambda p: p.no))
        for name, request in requests.items():
            seen = from_marks(request.seen)
            for id in pool:
                if is_beyond(lost[id].bundle, seen):
                    core.outbox.send(name, lost[id])
            place = repair.orphans[name].place or core.name
            attached = self.attached(place, tuple(repair.dead), tuple(pool), asks[name], adopted[name])
            core.outbox.send(name, attached)
        if follows_root:
            core.out.append(Note("repair_end", {"detail": next(iter(repair.dead))}))
            self._totals.request_again()
        core.outcomes.append(LinksChanged())

    def attached(
        self,
        parent: str,
        dead: tuple[str, ...],
        pool: tuple[MessageId, ...],
        asks: tuple[Interested, ...],
        adopted: tuple[Adopted, ...] = (),
    ) -> Attached:
        core = self._core
        pending = self._totals.pending()
        return Attached(parent, dead, pool, core.marks(), core.clock, core.epoch, asks, pending, adopted)

    def _asks_of(self, name: str, repair: GingerRepair) -> tuple[Interested, ...]:
        """What an orphan is asked by whoever becomes its parent: all that anybody wants who is not below it."""
        wanted = {(ask.filter, ask.where): None for ask in self._core.wishes.asks_for(name)}
        for other, orphan in repair.orphans.items():
            if other != name and orphan.place != name:
                wanted.update({(ask.filter, ask.where): None for ask in orphan.wants})
        return tuple(Interested(no, *what) for no, what in enumerate(wanted, start=1))

    def _adopted_by(
        self, name: str, repair: GingerRepair, asks: dict[str, tuple[Interested, ...]]
    ) -> tuple[Adopted, ...]:
        return tuple(
            Adopted(other, self._view.addresses.get(other, ""), orphan.wants, asks[other])
            for other, orphan in repair.orphans.items()
            if orphan.place == name
        )

    def _expect_clients(self, repair: GingerRepair) -> None:
        for name in repair.dead:
            clients = self._view.of[name].clients if name in self._view.of else ()
            if clients and name in self._core.links:
                life = Life(name, self._peers.lives.get(name, 0))
                self._clients.expect(life, clients, self._core.wishes.table.of(name))


def with_adopted(wants: tuple[Interested, ...], adopted: Iterable[Adopted]) -> tuple[Interested, ...]:
    """What an orphan asks of the leader for itself and for those that it adopts; both ends number it alike."""
    known = {(wanted.filter, wanted.where) for wanted in wants}
    further = {(w.filter, w.where): None for child in adopted for w in child.wants if (w.filter, w.where) not in known}
    first = 1 + max((wanted.id for wanted in wants), default=0)
    return (*wants, *(Interested(no, *what) for no, what in enumerate(further, start=first)))


def _causally(id: MessageId, lost: LostMessage) -> tuple[int, str, str, int]:
    """Lamport clocks: whatever a publication depends on has a smaller stamp."""
    return (lost.bundle.stamp, id.publisher, id.stream, id.seq)
