"""The ring on sessions: whom it speaks to, and who cannot be reached.

A broker whose host says that its process is gone is gone. One that is silent for a while is passed by, and comes back
to the ring when it is heard: to be wrong about it costs time, since topics are held by majorities, and what trees
missed is made good.
"""

from collections.abc import Callable, Iterable
from typing import Final

from resprout.core.contract import Close, EndCause, LinkDown, LinkUp, Locate, ProtocolMessage, Silent
from resprout.edge.messages import Successor
from resprout.stacks.desk import Desk
from resprout.stacks.peers import Outbox, Peer
from resprout.stacks.shell import Step, Table
from resprout.stacks.stack import BrokerSeat
from resprout.stacks.status import MemberSeen, StackStatus
from resprout_lab.blocks.mesh import IDLE_US, MeshSessions, OverlayMember, SilentTooLong
from resprout_lab.scribe.chord import Chord, OwnerOverdue, StabiliseDue
from resprout_lab.scribe.messages import address_of, holder_of, name_of
from resprout_lab.scribe.options import ScribeOptions

ADDRESSES_MAX: Final = 10_000
SUCCESSORS_TOLD: Final = 8
"""That clients are told of."""


class RingSessions(MeshSessions):
    """Looks after the sessions with other brokers (`BrokerSessions`); the ring speaks through it (`Wires`)."""

    def __init__(self, seat: BrokerSeat, options: ScribeOptions, step: Step, outbox: Outbox) -> None:
        super().__init__(seat, options.suspect_us, step, outbox)
        self._options = options
        self._addresses: dict[str, str] = {}
        self.ring = Chord(self.me, self._contacts, options.ring, self)
        self.is_alone: Final = not self._contacts
        """It begins a ring."""
        self.began: Callable[[str], None]
        """A session begins."""
        self.ended: Callable[[str], None]
        """A session is over, or its broker cannot be reached: what was said to it may be lost."""
        self.unreachable: Callable[[str], None]
        """Its broker cannot be reached, or lives another life."""
        self.needed: Callable[[], Iterable[str]]
        self._told: tuple[Successor, ...] = ()
        self.timers: Table = {
            StabiliseDue: self._stabilise_due,
            OwnerOverdue: self.ring.owner_overdue,
            SilentTooLong: self._silent_too_long,
        }

    @property
    def successors(self) -> tuple[Successor, ...]:
        """Where clients turn when this broker is gone: those around it on the ring, and others far away."""
        ring = self.ring
        before = [ring.predecessor] if ring.predecessor is not None else []
        known = {member.name: member for member in (*ring.successors, *before, *ring.fingers)}
        told = tuple([Successor(one.name, one.address) for one in list(known.values())[:SUCCESSORS_TOLD]])
        if {one.name for one in told} != {one.name for one in self._told}:
            self._told = told  # their order alone is no news
        return self._told

    def status(self, is_settled: bool, roles: tuple[str, ...]) -> StackStatus:
        """For people: neighbours are those on the ring."""
        ring = self.ring
        beside = [*([ring.predecessor] if ring.predecessor is not None else []), *ring.successors]
        known = {one.name: one for one in (*beside, *ring.fingers) if one.name != self._seat.name}
        return StackStatus(
            is_settled,
            neighbours=tuple(dict.fromkeys([one.name for one in beside if one.name != self._seat.name])),
            members=tuple([MemberSeen(one.name, address=one.address) for one in known.values()]),
            silent=tuple(self._silent),
            roles=roles,
        )

    def find(self, name: str) -> Peer | None:
        return self._peers.find(name)

    def holder(self, member: OverlayMember) -> str | None:
        """Its life that there is a session with."""
        peer = self._peers.find(member.name)
        return holder_of(member.name, peer.incarnation, member.address) if peer is not None else None

    def is_life(self, holder: str) -> bool:
        """There is a session with this very life."""
        peer = self._peers.find(name_of(holder))
        return peer is not None and holder.startswith(holder_of(peer.name, peer.incarnation, ""))

    def desk(self) -> Desk:
        """What any broker may say about the ring."""
        hear = self.ring.hear
        return Desk(self._peers.find, dict.fromkeys(self.ring.handlers, lambda peer, message: hear(peer.name, message)))

    # -- what is said --------------------------------------------------------------------------------------------------

    def say(self, member: OverlayMember, message: ProtocolMessage) -> None:
        self._know(member.name, member.address)
        self.post(member.name, message)

    def post(self, name: str, message: ProtocolMessage) -> None:
        """To one that may have told where it listens."""
        super().say(OverlayMember(name, self._addresses.get(name, "")), message)

    def post_holder(self, holder: str, message: ProtocolMessage) -> None:
        """To this very life, if it is the one that there is a session with."""
        name = name_of(holder)
        self._know(name, address_of(holder))
        if self._peers.find(name) is None:
            self.open(name)
        elif self.is_life(holder):
            self.post(name, message)

    def send(self, name: str, message: ProtocolMessage) -> bool:
        """In order with publications; False when there is no session, which is called for then."""
        peer = self._peers.find(name)
        if peer is None:
            self.open(name)
            return False
        peer.idle_since_us = self._step.now_us
        self._outbox.send(name, message)
        return True

    def open(self, name: str) -> None:
        self._locate(name)
        self._peers.open(name).idle_since_us = self._step.now_us

    def meet(self, holders: Iterable[str]) -> None:
        """Where these listen."""
        for holder in holders:
            self._know(name_of(holder), address_of(holder))

    def _know(self, name: str, address: str) -> None:
        if address and name != self._seat.name:
            self._addresses.pop(name, None)
            self._addresses[name] = address
            if len(self._addresses) > ADDRESSES_MAX:
                del self._addresses[next(iter(self._addresses))]

    def _locate(self, name: str) -> None:
        if address := self._addresses.get(name):
            self._step.out.append(Locate(name, address))

    # -- sessions (`BrokerSessions`) -----------------------------------------------------------------------------------

    def up(self, event: LinkUp) -> None:
        name, before = event.peer, self._peers.get(event.peer)
        self._is_heard(name)
        if before is not None and before.incarnation:  # a session that begins anew has lost the old one
            if before.incarnation != event.incarnation:
                self._pass_by(name)
            self.ended(name)
        if self._peers.came_up(name, event.incarnation, event.room) is None:
            self._step.out.append(Close(name, f"{self._seat.name} takes no more brokers"))
        else:
            self.began(name)

    def down(self, event: LinkDown) -> None:
        self._lose(event.peer, "its session is over", lives=event.cause is EndCause.CLOSED)

    def silent(self, event: Silent) -> None:
        name = event.peer
        if event.refused:
            self._lose(name, "its process is gone", lives=False)
        elif self.knows(name):
            self._is_silent(name)

    def cut_off(self, name: str, reason: str) -> None:
        self._lose(name, reason, lives=False)

    def _lose(self, name: str, reason: str, lives: bool) -> None:
        self._peers.close(name, reason)
        self._is_heard(name)
        if not lives:
            self._pass_by(name)
        self.ended(name)

    def _pass_by(self, name: str) -> None:
        self.ring.unreachable(name)
        self.unreachable(name)

    # -- time ----------------------------------------------------------------------------------------------------------

    def _stabilise_due(self, timer: StabiliseDue) -> None:
        ring = self.ring
        ring.stabilise_due(timer)
        near = [member.name for member in ring.successors[: max(1, self._options.backups)]]
        before = [ring.predecessor.name] if ring.predecessor is not None else []
        wanted = dict.fromkeys(name for name in (*near, *before, *self.needed()) if name != self._seat.name)
        for name in wanted:
            if self._peers.find(name) is None:
                self._locate(name)
        self._peers.keep_only(wanted, IDLE_US)
