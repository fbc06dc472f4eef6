"""A member's part in a repair: hand over what crossed the dead link, wait for the Grant, take it all at once.

Between the two, the dead link is owed everything that this side logs. The Grant replaces it by a link to the
coordinator that begins with the pool in one order for all; what was logged meanwhile follows.
"""

from collections.abc import Mapping
from enum import Enum, auto
from functools import partial
from itertools import chain
from typing import Final

from resprout.core.errors import PeerError
from resprout.core.states import transition
from resprout.order.link import Link
from resprout.order.totals.messages import Closed, KnownLock
from resprout.overlay.messages import Fenced
from resprout.overlay.places import Life
from resprout.stacks.resprout.client_book import ClientBook
from resprout.stacks.resprout.core import Core
from resprout.stacks.resprout.messages import Attach, AttachRequest, Grant, NotMember, ServedInterest
from resprout.stacks.resprout.outcomes import Repaired
from resprout.stacks.resprout.repair.parcels import Parcel, learn, send_parcel, shared_rows
from resprout.stacks.resprout.repair.pool import Inventory, Taking, in_order


class MemberState(Enum):
    """How far a repair has come at a member."""

    ATTACHED = auto()
    """It has handed over what crossed the dead link, and waits for the Grant."""
    FINISHING = auto()
    """All is here: the pool is being taken, in one step."""
    TAKEN_OVER = auto()
    """Its coordinator is dead, too, and another has asked."""
    DONE = auto()


MEMBER_STATES: Final[Mapping[MemberState, frozenset[MemberState]]] = {
    MemberState.ATTACHED: frozenset({MemberState.FINISHING, MemberState.TAKEN_OVER}),
    MemberState.FINISHING: frozenset({MemberState.DONE}),
    MemberState.TAKEN_OVER: frozenset(),
    MemberState.DONE: frozenset(),
}


class AttachedRepair:
    """One repair in which this broker is a member: of one dead link."""

    __slots__ = ("coordinator", "dead", "inventory", "state", "token")

    def __init__(self, coordinator: str, token: int, dead: tuple[Life, ...], inventory: Inventory) -> None:
        self.coordinator = coordinator
        self.token = token
        self.dead = dead
        self.inventory = inventory
        self.state = MemberState.ATTACHED

    def move_to(self, state: MemberState) -> None:
        self.state = transition(MEMBER_STATES, self.state, state)


class Member:
    """All repairs in which this broker is a member."""

    def __init__(
        self,
        core: Core,
        book: ClientBook,
    ) -> None:
        self._core = core
        self._book = book
        self._repairs: dict[str, AttachedRepair] = {}
        """By the dead neighbour."""

    # -- attach --------------------------------------------------------------------------------------------------------

    def requested(self, peer: str, message: AttachRequest) -> None:
        core = self._core
        view = core.view
        if view.is_dead_speaker(peer):
            core.peers.post(peer, Fenced(view.tombstones[peer]))
            return
        dead = {life.name: life for life in message.dead}
        mine = dead.get(core.seat.name)
        if mine is not None and mine.incarnation >= core.seat.incarnation:
            core.retire(f"{peer} repairs the tree around this broker")
            return
        hit = [name for name, link in core.links.items() if self._is_among(link, dead)]
        for name, repair in self._repairs.items():  # whoever led its repair is dead: it belongs to this star, too
            if name not in hit and repair.coordinator in dead and name in core.links:
                hit.append(name)
                dead[name] = Life(name, core.links[name].incarnation)
        if not hit:
            core.peers.post(peer, NotMember(message.token))
            return
        for life in dead.values():
            core.neighbours.mark_dead(life)
        for name in hit:
            known = self._repairs.get(name)
            if known is not None and (known.coordinator, known.token) == (peer, message.token):
                continue  # once for each repair: a second time would undo its Grant
            self._attach(core.links[name], peer, message.token, tuple(dead.values()))

    @staticmethod
    def _is_among(link: Link, dead: dict[str, Life]) -> bool:
        return link.name in dead and dead[link.name].incarnation >= link.incarnation

    def _attach(self, link: Link, coordinator: str, token: int, dead: tuple[Life, ...]) -> None:
        core = self._core
        core.speaking.say_all()
        inventory = Inventory(core, link)
        if link.name in self._repairs:
            self._repairs[link.name].move_to(MemberState.TAKEN_OVER)
        self._repairs[link.name] = AttachedRepair(coordinator, token, dead, inventory)
        core.view.attached[link.name] = coordinator
        core.speaking.unsaid[link.name] = []
        asks, served = core.interest.standing(link.name)

        send_parcel(
            partial(core.peers.post, coordinator),
            Attach(token, link.name, dead, core.clock.now, core.view.epoch),
            chain(
                shared_rows(core, asks, core.handover.report((link.name,)), core.handover.last()),
                [ServedInterest(predicate.filter, predicate.where_text) for predicate in served],
                self._book.rows(link.name),
                inventory.items(),
            ),
        )

    # -- grant ---------------------------------------------------------------------------------------------------------

    def granted(self, peer: str, incarnation: int, parcel: Parcel) -> None:
        core = self._core
        head: Grant = parcel.head
        dead = next((name for name, r in self._repairs.items() if (r.coordinator, r.token) == (peer, head.token)), None)
        if dead is None or dead not in core.links:
            return  # of a repair that another coordinator has taken over
        if core.seat.name not in head.members:
            raise PeerError("a Grant for others")
        repair = self._repairs.pop(dead)
        repair.move_to(MemberState.FINISHING)
        core.view.attached.pop(dead, None)
        self._replace(repair, core.links[dead], peer, incarnation, parcel)
        names = tuple([life.name for life in head.dead])
        core.note("repair_end", " ".join(names))
        core.outcomes.append(Repaired(names, peer))
        repair.move_to(MemberState.DONE)

    def _replace(self, repair: AttachedRepair, old: Link, coordinator: str, incarnation: int, parcel: Parcel) -> None:
        core = self._core
        head: Grant = parcel.head
        view = core.view
        # The terms of the dead link, before it goes.
        owed = core.interest.owing(old.name)
        unsaid = core.speaking.unsaid.get(old.name, [])
        for life in head.dead:
            view.mark_dead(life.name, life.incarnation)
        view.mark_replaced([life.name for life in head.dead])
        view.follow(head.configuration)
        view.epoch = max(view.epoch, head.epoch)
        core.clock.raise_to(head.clock)
        if view.parent == old.name or view.parent in {life.name for life in head.dead}:
            view.parent = coordinator
        # The link to the coordinator takes its place. Its cursor stands where this side attached, so that what was
        # logged since follows the pool.
        core.interest.replace_neighbour(old.name, coordinator)
        core.neighbours.remove(old)
        self._book.lost(old.name)
        link = core.neighbours.add(coordinator, incarnation)
        self._book.meet(coordinator, parcel)
        learn(core, parcel)
        link.cursor = repair.inventory.snapshot
        core.handover.take_locks(parcel.locks, parcel.last_totals, (old.name,), (coordinator,))
        if core.book.heard:
            core.book.replace((old.name,), (coordinator,))
        # The pool, in the order that all take it in (I4): what came from here as sent, all else as arrived (I5).
        taking = Taking(core, repair.inventory, owed, spread=head.spread)
        me = head.members.index(core.seat.name) + 1
        for thing in in_order(parcel.items, parcel.locks):
            if isinstance(thing, KnownLock):
                taking.deliver(thing, (coordinator,))
                continue
            is_mine = thing.side == me
            entry, entered = taking.take(thing, link, 1, keeps_source=is_mine)
            if not entered:
                core.log.enter_link(link, entry, sent=is_mine)
        assert link.crossed == len(parcel.items), "I5: both ends begin with the pool"
        base = core.retained.marks()
        core.confirmed(core.interest.reconcile(coordinator, parcel.asks, core.outbound))
        core.interest.rebase(coordinator, base)
        for origin, reached in parcel.seen.items():
            core.forwarding.raise_seen(origin, reached)
        core.handover.follow(coordinator)
        self.close_behind(link, repair.inventory.snapshot)
        # What had to wait for the Grant, then everything as on any link.
        for message in unsaid:
            core.outbox.send(coordinator, message)
        core.peers.open(coordinator)
        core.neighbours.open(link)
        taking.settle()
        core.waves.start(view.publish_place(), view.reach, lambda: None)
        core.waves.exchange(coordinator)
        core.handover.resume()

    def close_behind(self, link: Link, since: int) -> None:
        """Totals that were delivered here since the report, on what the dead had said, are not in the pool. The new
        link is told of each that this side is closed, at its place among what was logged since and crosses now: behind
        what came before it, and before what came after it."""
        for entry in self._core.log.entries.values():
            if entry.tseq >= 0 and entry.no >= since:
                assert entry.bundle is not None
                link.after.append((entry.no, Closed(entry.publisher, entry.incarnation, entry.first, entry.stamp - 1)))
