"""Leading a repair: wait for the dead broker's children, pool what all have, and send everybody on from one cut.

Nothing is counted: the orphans are a set, each with what it has said, and the repair ends when all have said what they
have and where they go. An orphan that dies leaves the set; one that does not come is waited for, though not for ever.
"""

from collections.abc import Iterable

from resprout.core.contract import SetTimer
from resprout.core.message_fields import from_marks, is_beyond
from resprout.overlay.places import Life
from resprout.spread.messages import Interested
from resprout_lab.ginger.clients import GingerClients
from resprout_lab.ginger.core import GingerCore
from resprout_lab.ginger.handover import GingerHandover, OrphansDue, lost_message, with_adopted
from resprout_lab.ginger.messages import (
    Adopted,
    Attached,
    ClientMessageId,
    LostMessage,
    LostMessageRequest,
    ParentBuffer,
    ParentRequest,
    ParentResponse,
    Placed,
)  # fmt: skip
from resprout_lab.ginger.orphan import Seeker
from resprout_lab.ginger.outcomes import LinksChanged
from resprout_lab.ginger.view import NOBODY
from resprout_lab.ginger.window import id_of


class OrphanedChild:
    """A child of the dead broker, as far as it has been heard."""

    def __init__(self) -> None:
        self.asked = False
        self.overdue = False
        """It is there, and should have asked."""
        self.place: str | None = None
        """Its new parent."""
        self.lost: dict[ClientMessageId, LostMessage] = {}
        self.request: LostMessageRequest | None = None
        self.wants: tuple[Interested, ...] = ()


class GingerRepair:
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
    def __init__(self, core: GingerCore, clients: GingerClients, handover: GingerHandover, seeker: Seeker) -> None:
        self._core = core
        self._clients = clients
        self._handover = handover
        self._seeker = seeker
        self.repairs: list[GingerRepair] = []

    # -- who takes part ------------------------------------------------------------------------------------------------

    def lead(self, dead: Iterable[str], orphans: Iterable[str]) -> None:
        core = self._core
        repair = GingerRepair(dead, (name for name in orphans if name not in core.peers.dead and name != core.name))
        self.repairs.append(repair)
        for name in repair.dead:
            core.out.append(SetTimer(OrphansDue(name), core.now_us + core.options.timer_us))
        self.finish()

    def orphans_due(self, timer: OrphansDue) -> None:
        """Call those that did not come; go on without those that are silent, or are there and do not ask."""
        core = self._core
        for repair in self.repairs:
            if timer.broker not in repair.dead:
                continue
            for name, orphan in list(repair.orphans.items()):
                if not orphan.asked and (core.peers.is_silent(name) or orphan.overdue):
                    del repair.orphans[name]
                elif not orphan.asked:
                    orphan.overdue = core.peers.is_up(name)
                    core.peers.open(name)
            core.out.append(SetTimer(timer, core.now_us + core.options.timer_us))
        self.finish()

    def lose(self, name: str) -> None:
        """An orphan died, or turns out to be none; whoever wanted to go there must look elsewhere."""
        for repair in self.repairs:
            if repair.orphans.pop(name, None) is not None:
                for orphan in repair.orphans.values():
                    if orphan.place == name:
                        orphan.place = None
        self.finish()

    # -- what orphans say ----------------------------------------------------------------------------------------------

    def respond(self, name: str, accepted: bool) -> None:
        if accepted:
            self._core.peers.reserved[name] = None
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
        accepted = name in self._core.peers.reserved or self._core.view.degree_left > 0 or message.break_degree
        if accepted:
            orphan.place = self._core.name
        self.respond(name, accepted)
        if not message.break_degree:
            orphan.request = None
            buffered = tuple(entry.id for entry in self._handover.crossed(repair.dead))
            self._core.outbox.send(name, ParentBuffer(message.dead, buffered))
        self.finish()

    def hear_lost(self, name: str, message: LostMessage) -> None:
        for orphan in self.expected(name):
            orphan.lost[id_of(message.bundle)] = message

    def hear_lost_request(self, name: str, message: LostMessageRequest) -> None:
        for orphan in self.expected(name):
            orphan.request = message
        self.finish()

    def hear_placed(self, name: str, message: Placed) -> None:
        for orphan in self.expected(name):
            orphan.place = message.parent
        self.finish()

    def expected(self, name: str) -> list[OrphanedChild]:
        """Of each repair that it is an orphan of."""
        return [repair.orphans[name] for repair in self.repairs if name in repair.orphans]

    # -- the end -------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """What is complete; but an orphan itself finishes nothing."""
        for repair in [repair for repair in self.repairs if repair.is_complete]:
            if self._seeker.quest is None:
                self.repairs.remove(repair)
                self._finish(repair)

    def _finish(self, repair: GingerRepair) -> None:
        core = self._core
        cuts = [request.cut for request in repair.requests.values()]
        follows_root = any(name in core.links and core.links[name].is_parent for name in repair.dead)
        if follows_root:
            core.is_root = True
            core.epoch = 1 + max(core.epoch, *(cut.epoch for cut in cuts), 0)
        self._expect_clients(repair)
        lost = {entry.id: lost_message(entry) for entry in self._handover.crossed(repair.dead)}
        for orphan in repair.orphans.values():
            lost = orphan.lost | lost
        pool = sorted(lost, key=lambda id: lost[id].bundle.causal_key)
        direct = [name for name, orphan in repair.orphans.items() if orphan.place == core.name]
        entries = self._handover.take_over(pool, lost, repair.dead, None, direct)
        asks = {name: self._asks_of(name, repair) for name in repair.orphans}
        adopted = {name: self._adopted_by(name, repair, asks) for name in repair.orphans}
        for name in direct:
            wants = with_adopted(repair.orphans[name].wants, adopted[name])
            self._handover.begin_link(name, False, wants, asks[name], entries)
        self._handover.replaced(repair.dead)
        for cut in cuts:
            self._handover.have_seen(cut)
        self._handover.lock(lock for cut in cuts for lock in cut.pending)
        for name, request in repair.requests.items():
            seen = from_marks(request.cut.seen)
            for id in pool:
                if is_beyond(lost[id].bundle, seen):
                    core.outbox.send(name, lost[id])
            place = repair.orphans[name].place or core.name
            cut = self._handover.cut()
            core.outbox.send(name, Attached(place, tuple(repair.dead), tuple(pool), cut, asks[name], adopted[name]))
        if follows_root:
            core.note("repair_end", next(iter(repair.dead)))
        core.outcomes.append(LinksChanged())

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
            Adopted(other, self._core.view.addresses.get(other, ""), orphan.wants, asks[other])
            for other, orphan in repair.orphans.items()
            if orphan.place == name
        )

    def _expect_clients(self, repair: GingerRepair) -> None:
        for name in repair.dead:
            clients = self._core.view.of.get(name, NOBODY).clients
            if clients and name in self._core.links:
                life = Life(name, self._core.peers.lives.get(name, 0))
                self._clients.expect(life, clients, self._core.wishes.table.of(name))
