"""Publications to neighbours. What finds no room waits in the outbox, up to a bound for each link.

What a local client published counts against that client while it waits, so whoever publishes more than the links take
is held back. What neighbours brought counts against nobody: in an overlay with circles, brokers that hold each other
back could all wait for ever. Beyond the bound it is left out, and the neighbour is told what there is when the link is
free again.
"""

from collections import deque
from collections.abc import Callable

from resprout.stacks.shell.outbox import Outbox
from resprout_lab.blocks.item import KeptItem
from resprout_lab.blocks.retention import Retention
from resprout_lab.gossip.broadcast.messages import Gossiped


class _Waiting:
    __slots__ = ("bytes", "is_behind", "items")

    def __init__(self) -> None:
        self.items: deque[KeptItem | None] = deque()
        """Of what waits; None for what counts against nobody."""
        self.bytes = 0
        self.is_behind = False
        """Something was left out."""


class Pushing:
    def __init__(self, outbox: Outbox, kept: Retention, bytes_max: int, caught_up: Callable[[str], None]) -> None:
        """`caught_up`: there is room again for a neighbour for whom something was left out."""
        self._outbox = outbox
        self._kept = kept
        self._bytes_max = bytes_max
        self._caught_up = caught_up
        self._waiting: dict[str, _Waiting] = {}

    def push(self, name: str, message: Gossiped, item: KeptItem | None) -> None:
        """`item`: what is counted, of a local client."""
        waiting = self._waiting.get(name)
        if waiting is not None and waiting.bytes > self._bytes_max and item is None:
            waiting.is_behind = True
            return
        self._outbox.send(name, message)
        if self._outbox.waiting(name):
            waiting = self._waiting.setdefault(name, _Waiting())
            waiting.items.append(item)
            waiting.bytes += message.cost
            if item is not None:
                self._kept.keep(item)

    def writable(self, name: str, room: int) -> None:
        left = self._outbox.writable(name, room)
        waiting = self._waiting.get(name)
        if waiting is None:
            return
        for message in left:
            waiting.bytes -= message.cost
            self._let_go(waiting.items.popleft())
        if not waiting.items:
            del self._waiting[name]
            if waiting.is_behind:
                self._caught_up(name)

    def end(self, name: str) -> None:
        """The session is over, and what waited for it lost."""
        waiting = self._waiting.pop(name, None)
        for item in waiting.items if waiting is not None else ():
            self._let_go(item)
        self._kept.forget(name)

    def _let_go(self, item: KeptItem | None) -> None:
        if item is not None:
            self._kept.let_go(item)
