"""Sessions begin, end and get room: a client's at the clients' desk, a broker's with whoever looks after brokers."""

from collections.abc import Callable
from typing import Protocol

from resprout.core.contract import Close, EndCode, Heard, LinkDown, LinkUp, Silent, Writable
from resprout.stacks.shell.shell import Table
from resprout.stacks.shell.step import Step
from resprout_lab.blocks.clients import ClientDesk


class BrokerSessions(Protocol):
    """Looks after the sessions with other brokers."""

    def knows(self, name: str) -> bool:
        """It is a broker's name."""

    def up(self, event: LinkUp) -> None: ...
    def down(self, event: LinkDown) -> None: ...
    def silent(self, event: Silent) -> None: ...
    def heard(self, event: Heard) -> None: ...
    def cut_off(self, name: str, reason: str) -> None:
        """It made a mistake."""


class SessionEvents:
    def __init__(
        self, step: Step, clients: ClientDesk, brokers: BrokerSessions, writable: Callable[[str, int], object]
    ) -> None:
        """`writable`: a broker has room again."""
        self._step = step
        self._clients = clients
        self._brokers = brokers
        self._writable = writable
        self.table: Table = {
            LinkUp: self._up, LinkDown: self._down, Silent: self._silent, Heard: self._heard, Writable: self._room,
        }  # fmt: skip

    def cut_off(self, name: str, reason: str, code: EndCode = EndCode.NONE) -> None:
        if self._clients.has(name):
            self._clients.cut_off(name, reason, code)
        else:
            self._brokers.cut_off(name, reason)

    def _up(self, event: LinkUp) -> None:
        name, is_client = event.peer, event.role == "client"
        if is_client and self._brokers.knows(name):
            self._step.out.append(Close(name, f"{name} is the name of a broker", EndCode.FORBIDDEN))
        else:
            (self._clients if is_client else self._brokers).up(event)

    def _down(self, event: LinkDown) -> None:
        if self._clients.has(event.peer):
            self._clients.leave(event.peer)
        else:
            self._brokers.down(event)

    def _silent(self, event: Silent) -> None:
        if not self._clients.has(event.peer):
            self._brokers.silent(event)

    def _heard(self, event: Heard) -> None:
        if not self._clients.has(event.peer):
            self._brokers.heard(event)

    def _room(self, event: Writable) -> None:
        if self._clients.has(event.peer):
            self._clients.writable(event.peer, event.room)
        else:
            self._writable(event.peer, event.room)
