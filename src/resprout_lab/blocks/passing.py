"""Passes items on to neighbours. What finds no room waits in the outbox, and is kept (`Retention`) until it leaves.

So whoever brings more than the links take is held back, and no link needs a bound of its own.
"""

from collections import deque

from resprout.core.contract import ProtocolMessage
from resprout.stacks.peers import Outbox
from resprout_lab.blocks.retention import KeptItem, Retention


class Passing:
    def __init__(self, outbox: Outbox, kept: Retention) -> None:
        self._outbox = outbox
        self._kept = kept
        self._waiting: dict[str, deque[KeptItem]] = {}
        """By neighbour: what waits for room there."""

    def pass_on(self, name: str, item: KeptItem, message: ProtocolMessage) -> None:
        """`message` carries the item, at a cost; nothing else that costs something may be said to neighbours."""
        self._outbox.send(name, message)
        if self._outbox.waiting(name):
            self._waiting.setdefault(name, deque()).append(item)
            self._kept.keep(item)

    def writable(self, name: str, room: int) -> None:
        for message in self._outbox.writable(name, room):
            if message.cost:
                self._kept.let_go(self._waiting[name].popleft())

    def end(self, name: str) -> None:
        """The session is over, and what waited for it lost."""
        for item in self._waiting.pop(name, ()):
            self._kept.let_go(item)
        self._kept.forget(name)
