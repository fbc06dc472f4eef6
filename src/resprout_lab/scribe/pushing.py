"""Publications to children. What finds no room waits in the outbox, up to a bound for each link; beyond it, it is left
out: positions tell a child what it missed, and the root has it. It is told when there is room again."""

from collections.abc import Callable

from resprout.stacks.shell.outbox import Outbox
from resprout_lab.scribe.trees.messages import Scribed


class ScribePushing:
    def __init__(self, outbox: Outbox, bytes_max: int, has_room: Callable[[str, str], None]) -> None:
        """`has_room`: for a child that was left out, and which topic."""
        self._outbox = outbox
        self._bytes_max = bytes_max
        self._has_room = has_room
        self._left_out: dict[str, dict[str, None]] = {}
        """By child: topics of which something was left out."""
        self._waiting: dict[str, int] = {}
        """By child: bytes of all that waits for room there."""

    def push(self, name: str, message: Scribed) -> None:
        if self._waiting.get(name, 0) > self._bytes_max:
            self._left_out.setdefault(name, {})[message.bundle.topic] = None
            return
        self._outbox.send(name, message)
        if self._outbox.waiting(name):
            self._waiting[name] = self._waiting.get(name, 0) + message.cost

    def writable(self, name: str, room: int) -> None:
        left = sum(message.cost for message in self._outbox.writable(name, room))
        if name in self._waiting:
            self._waiting[name] -= left
            if not self._outbox.waiting(name):
                del self._waiting[name]
                for topic in self._left_out.pop(name, {}):
                    self._has_room(name, topic)

    def end(self, name: str) -> None:
        self._waiting.pop(name, None)
        self._left_out.pop(name, None)
