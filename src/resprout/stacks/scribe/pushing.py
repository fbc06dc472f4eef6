"""Publications to children. What finds no room waits in the outbox, up to a bound for each link; beyond it, it is left
out: positions tell a child what it missed, and the root has it."""

from resprout.spread.scribe.messages import Scribed
from resprout.stacks.shell.outbox import Outbox


class ScribePushing:
    def __init__(self, outbox: Outbox, bytes_max: int) -> None:
        self._outbox = outbox
        self._bytes_max = bytes_max
        self._waiting: dict[str, int] = {}
        """By child: bytes of all that waits for room there."""

    def push(self, name: str, message: Scribed) -> None:
        if self._waiting.get(name, 0) > self._bytes_max:
            return  # the next sign of life tells it
        self._outbox.send(name, message)
        if self._outbox.waiting(name):
            self._waiting[name] = self._waiting.get(name, 0) + message.cost

    def writable(self, name: str, room: int) -> None:
        left = sum(message.cost for message in self._outbox.writable(name, room))
        if name in self._waiting:
            self._waiting[name] -= left
            if not self._outbox.waiting(name):
                del self._waiting[name]

    def end(self, name: str) -> None:
        self._waiting.pop(name, None)
