"""Sessions with brokers of an overlay without a tree, and what such an overlay asks of them.

Such an overlay is a pure part. It is told what other members say, and which members cannot be reached. It sends to
members by name, and sets timers (`Wires`). `MeshSessions` is the base of what a stack has under its overlay: it opens a
session when there is a message to send, and closes sessions that no side needs. It calls a member that falls silent,
and gives it up if it is not heard for a while. The stack says what it means to lose a member.
"""

from abc import ABC, abstractmethod
from typing import Final, Protocol

import msgspec

from resprout.core.contract import CancelTimer, Heard, Locate, Outcome, ProtocolMessage, SetTimer, Timer
from resprout.stacks.peers import Outbox, Peers
from resprout.stacks.shell import Step
from resprout.stacks.stack import BrokerSeat

IDLE_US: Final = 5_000_000
"""After this, a session that nobody needs is closed by whoever opened it."""


class OverlayMember(msgspec.Struct, frozen=True, array_like=True):
    name: str
    address: str = ""
    """Where it listens; empty where names are enough to connect."""


class Wires(Protocol):
    def say(self, member: OverlayMember, message: ProtocolMessage) -> None:
        """In order for each; without a session one is opened. Lost when that cannot be, and then `gone` is told."""

    def wake(self, timer: Timer, after_us: int) -> None: ...
    def let_sleep(self, timer: Timer) -> None: ...
    def tell(self, outcome: Outcome) -> None: ...


class SilentTooLong(Timer, frozen=True):
    """When to give up a broker that is not heard."""

    name: str


class MeshSessions(ABC):
    def __init__(self, seat: BrokerSeat, silent_us: int, step: Step, outbox: Outbox) -> None:
        self._seat = seat
        self._silent_us = silent_us
        self._step = step
        self._outbox = outbox
        self._peers = Peers(step, outbox)
        self._silent: dict[str, None] = {}
        contacts = dict.fromkeys([*([seat.parent] if seat.parent is not None else []), *seat.contacts])
        self._contacts: Final = list(contacts)
        self.me: Final = OverlayMember(seat.name, seat.address)

    @abstractmethod
    def _lose(self, name: str, reason: str, lives: bool) -> None:
        """A session is over, or its broker cannot be reached; `lives`: it only closed the session."""

    # -- what the overlay wants (`Wires`) ------------------------------------------------------------------------------

    def say(self, member: OverlayMember, message: ProtocolMessage) -> None:
        """What has no order with publications, and waits for none: before what waits for room, which it makes."""
        peer = self._peers.find(member.name)
        if peer is not None:
            peer.idle_since_us = self._step.now_us
            self._outbox.pass_by(member.name, message)
        else:
            if member.address:
                self._step.out.append(Locate(member.name, member.address))
            self._peers.post(member.name, message)

    def wake(self, timer: Timer, after_us: int) -> None:
        self._step.out.append(SetTimer(timer, self._step.now_us + after_us))

    def let_sleep(self, timer: Timer) -> None:
        self._step.out.append(CancelTimer(timer))

    def tell(self, outcome: Outcome) -> None:
        self._step.outcomes.append(outcome)

    # -- who is heard --------------------------------------------------------------------------------------------------

    def knows(self, name: str) -> bool:
        return self._peers.get(name) is not None

    def heard(self, event: Heard) -> None:
        self._is_heard(event.peer)

    def _is_heard(self, name: str) -> None:
        if name in self._silent:
            del self._silent[name]
            self.let_sleep(SilentTooLong(name))

    def _is_silent(self, name: str) -> None:
        self._peers.open(name)  # whoever opened the session may be gone: its host is asked
        if name not in self._silent:
            self._silent[name] = None
            self.wake(SilentTooLong(name), self._silent_us)

    def _silent_too_long(self, timer: SilentTooLong) -> None:
        if timer.name in self._silent:
            self._lose(timer.name, "it was silent for too long", lives=False)
