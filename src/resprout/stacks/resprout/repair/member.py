"""A member's part in a repair: hand over what crossed the dead link (Attach), wait for the Grant, take it in one step.

In between, everything that this broker logs is owed to the dead link. The Grant replaces the dead link by a link to the
coordinator. The new link begins with the pool, in the order that all brokers use; then follows what was logged
meanwhile.
"""

from collections.abc import Mapping
from enum import Enum, auto
from functools import partial
from itertools import chain
from typing import Final

from resprout.core.errors import PeerError, transition
from resprout.core.seen import Seen
from resprout.order.clock import Clock
from resprout.order.link import Link
from resprout.order.log import Log
from resprout.order.messages import Closed, KnownLock
from resprout.order.reports import Retained
from resprout.order.totals.handover import Handover
from resprout.order.totals.levels import TotalAcks
from resprout.overlay.council import Council
from resprout.overlay.messages import Fenced, Life
from resprout.overlay.waves import Waves
from resprout.spread.interest import Interest
from resprout.stacks.peers import Peer, Peers
from resprout.stacks.resprout.client_book import ClientBook
from resprout.stacks.resprout.forwarding import Forwarding
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.messages import Attach, AttachRequest, Grant, NotMember, Repaired, ServedInterest
from resprout.stacks.resprout.neighbours import Neighbours
from resprout.stacks.resprout.repair.parcels import Parcel, learn, send_parcel, shared_rows
from resprout.stacks.resprout.repair.pool import Inventory, PoolParts, PoolTaker, in_order
from resprout.stacks.resprout.speaking import Speaking
from resprout.stacks.resprout.subscribing import Wishes


class MemberState(Enum):
    """How far a repair has come at a member."""

    ATTACHED = auto()
    """It has handed over what crossed the dead link, and waits for the Grant."""
    FINISHING = auto()
    """The Grant is here: the pool is being taken, in one step."""
    TAKEN_OVER = auto()
    """Its coordinator is dead too, and another one has asked."""
    DONE = auto()


MEMBER_STATES: Final[Mapping[MemberState, frozenset[MemberState]]] = {
    MemberState.ATTACHED: frozenset({MemberState.FINISHING, MemberState.TAKEN_OVER}),
    MemberState.FINISHING: frozenset({MemberState.DONE}),
    MemberState.TAKEN_OVER: frozenset(),
    MemberState.DONE: frozenset(),
}


class AttachedRepair:
    """One repair in which this broker is a member, for one dead link."""

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
        life: BrokerLife,
        peers: Peers,
        waves: Waves,
        council: Council,
        links: dict[str, Link],
        log: Log,
        clock: Clock,
        seen: Seen,
        interest: Interest,
        total_acks: TotalAcks,
        handover: Handover,
        retained: Retained,
        speaking: Speaking,
        forwarding: Forwarding,
        neighbours: Neighbours,
        wishes: Wishes,
        book: ClientBook,
        pool: PoolParts,
    ) -> None:
        self._life = life
        self._peers = peers
        self._waves = waves
        self._council = council
        self._links = links
        self._log = log
        self._clock = clock
        self._seen = seen
        self._interest = interest
        self._total_acks = total_acks
        self._handover = handover
        self._retained = retained
        self._speaking = speaking
        self._forwarding = forwarding
        self._neighbours = neighbours
        self._wishes = wishes
        self._book = book
        self._pool = pool
        self._repairs: dict[str, AttachedRepair] = {}
        """By name of the dead neighbour."""

    # -- attach --------------------------------------------------------------------------------------------------------

    def requested(self, peer: Peer, message: AttachRequest) -> None:
        """A coordinator asks for the state of the links to these dead brokers: mark them dead, and attach with each
        such link."""
        life, coordinator = self._life, peer.name
        view = life.view
        if not self._council.may_repair(coordinator, message.dead, life.now_us):
            return
        if view.is_dead_speaker(coordinator):
            self._peers.post(coordinator, Fenced(view.tombstones[coordinator]))
            return
        dead = {one.name: one for one in message.dead}
        mine = dead.get(life.seat.name)
        if mine is not None and mine.incarnation >= life.seat.incarnation:
            life.retire(f"{coordinator} repairs the tree around this broker")
            return
        dead_links = [name for name, link in self._links.items() if self._is_among(link, dead)]
        for name, repair in self._repairs.items():  # a repair whose coordinator is dead becomes part of this one
            if name not in dead_links and repair.coordinator in dead and name in self._links:
                dead_links.append(name)
                dead[name] = Life(name, self._links[name].incarnation)
        if not dead_links:
            asked = (coordinator, message.token)
            if all((repair.coordinator, repair.token) != asked for repair in self._repairs.values()):
                self._peers.post(coordinator, NotMember(message.token))
            return  # asked a second time: it has attached, with a link that it added to the list of the dead itself
        for one in dead.values():
            self._neighbours.mark_dead(one)
        for name in dead_links:
            known = self._repairs.get(name)
            if known is not None and (known.coordinator, known.token) == (coordinator, message.token):
                continue  # it attaches once for each repair: attaching again would undo the Grant
            self._attach(self._links[name], coordinator, message.token, tuple(dead.values()))

    @staticmethod
    def _is_among(link: Link, dead: dict[str, Life]) -> bool:
        return link.name in dead and dead[link.name].incarnation >= link.incarnation

    def _attach(self, link: Link, coordinator: str, token: int, dead: tuple[Life, ...]) -> None:
        """Hand over the state of a dead link to the coordinator, as a parcel."""
        life = self._life
        self._speaking.say_all()
        inventory = Inventory(self._log, link)
        if link.name in self._repairs:
            self._repairs[link.name].move_to(MemberState.TAKEN_OVER)
        self._repairs[link.name] = AttachedRepair(coordinator, token, dead, inventory)
        life.view.attached[link.name] = coordinator
        link.unsaid = []
        asks, served = self._interest.standing(link.name)

        send_parcel(
            partial(self._peers.post, coordinator),
            Attach(token, link.name, dead, self._clock.now, life.view.epoch),
            chain(
                shared_rows(
                    life.view,
                    self._seen,
                    asks,
                    self._handover.report((link.name,)),
                    self._handover.last(),
                    self._handover.topics(),
                ),
                [ServedInterest(predicate.filter, predicate.where_text) for predicate in served],
                self._book.rows(link.name),
                inventory.items(),
            ),
        )

    # -- grant ---------------------------------------------------------------------------------------------------------

    def granted(self, peer: Peer, parcel: Parcel) -> None:
        """Finish the repair with the coordinator's complete parcel."""
        life = self._life
        head: Grant = parcel.head
        sought = (peer.name, head.token)
        dead = next((name for name, one in self._repairs.items() if (one.coordinator, one.token) == sought), None)
        if dead is None or dead not in self._links:
            return  # of a repair that another coordinator has taken over
        if life.seat.name not in head.members:
            raise PeerError("a Grant for others")
        if life.view.is_dead_speaker(peer.name):  # this broker may already lead the repair of its coordinator
            self._peers.post(peer.name, Fenced(life.view.tombstones[peer.name]))
            return
        repair = self._repairs.pop(dead)
        repair.move_to(MemberState.FINISHING)
        life.view.attached.pop(dead, None)
        self._replace(repair, self._links[dead], peer, parcel)
        names = tuple([one.name for one in head.dead])
        life.note("repair_end", " ".join(names))
        life.outcomes.append(Repaired(names, peer.name))
        repair.move_to(MemberState.DONE)

    def _replace(self, repair: AttachedRepair, old: Link, peer: Peer, parcel: Parcel) -> None:
        """Replace the dead link by a link to the coordinator, and take the pool."""
        life, coordinator = self._life, peer.name
        head: Grant = parcel.head
        view = life.view
        # What this side was owed over the dead link, before that goes.
        owed = self._interest.owing(old.name)
        for one in head.dead:
            view.mark_dead(one.name, one.incarnation)
        view.mark_replaced([one.name for one in head.dead])
        view.follow(head.configuration)
        view.epoch = max(view.epoch, head.epoch)
        self._clock.raise_to(head.clock)
        if view.parent == old.name or view.parent in {one.name for one in head.dead}:
            view.parent = coordinator
        # The link to the coordinator takes its place. Its cursor stands where this side attached, so that what was
        # logged since follows the pool.
        self._book.lost(old.name)
        lives = {coordinator: peer.incarnation}
        link = self._neighbours.begin_links(lives, {coordinator: parcel}, [old], inherits=True)[coordinator]
        learn(life, parcel)
        link.cursor = repair.inventory.snapshot
        self._handover.take_topics(parcel.topics)
        self._handover.take_locks(parcel.locks, parcel.last_totals, (old.name,), (coordinator,))
        if self._total_acks.heard:
            self._total_acks.replace((old.name,), (coordinator,))
        # The pool, in the order that all take it in (I4): what came from here as sent, all else as arrived (I5).
        taker = PoolTaker(self._pool, repair.inventory, owed, spread=head.spread)
        me = head.members.index(life.seat.name) + 1
        for thing in in_order(parcel.items, parcel.locks):
            if isinstance(thing, KnownLock):
                taker.deliver(thing, (coordinator,))
                continue
            is_mine = thing.side == me
            entry, entered = taker.take(thing, link, 1, keeps_source=is_mine)
            if not entered:
                self._log.enter_link(link, entry, sent=is_mine)
        assert link.crossed == len(parcel.items), "I5: both ends begin with the pool"
        base = self._retained.marks()
        self._wishes.reconcile(coordinator, parcel.asks)
        self._interest.rebase(coordinator, base)
        for origin, reached in parcel.seen.items():
            self._forwarding.raise_seen(origin, reached)
        self._handover.follow(coordinator)
        self.close_behind(link, repair.inventory.snapshot)
        # What had to wait for the Grant, then everything as on any link.
        for message in old.unsaid or ():
            self._peers.post(coordinator, message)
        self._neighbours.open(link)
        taker.settle()
        self._waves.start(view.publish_place(), view.reach, lambda: None)
        self._waves.exchange(coordinator)
        self._handover.resume()

    def close_behind(self, link: Link, since: int) -> None:
        """Tell the new link, for each total that was delivered here since `since`, that this side is closed. Such
        totals were delivered on what the dead had said, and are not in the pool. Each Closed takes its place among
        the entries logged since then, which cross the new link now."""
        for entry in self._log.entries.values():
            if entry.tseq >= 0 and entry.no >= since:
                assert entry.bundle is not None
                link.after.append((entry.no, Closed(entry.publisher, entry.incarnation, entry.first, entry.stamp - 1)))
