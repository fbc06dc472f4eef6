"""The second lane of a session: what may overtake everything else, because it has no order with it.

Signs of life go this way. Within the lane they keep their order, none is lost or doubled while the session lasts, and
they are few: they have no window, and are acknowledged by what goes the other way, or when several are owed.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from resprout.core.errors import PeerError
from resprout.links.frames import Express

ACKNOWLEDGED_AT: Final = 16
"""So many that nothing has acknowledged are acknowledged by a frame of their own."""


class ExpressLane:
    __slots__ = ("_shipped", "_told", "confirmed", "outbox", "received")

    def __init__(self) -> None:
        self.outbox: deque[Any] = deque()
        """What the peer has not acknowledged."""
        self.confirmed = 0
        self.received = 0
        self._shipped = 0
        self._told = 0

    def put(self, message: Any) -> None:
        self.outbox.append(message)

    def resume(self, received: int) -> None:
        """Another connection: what the peer has not received is shipped again."""
        self._confirm(max(received, self.confirmed))
        self._shipped = self.confirmed

    def standing(self) -> int:
        """What the peer is told now: how many were received."""
        self._told = self.received
        return self.received

    def frame(self) -> Express[Any] | None:
        """What has not left yet; a frame without messages if only an acknowledgement is due; None for neither."""
        skip = self._shipped - self.confirmed
        fresh = tuple(list(self.outbox)[skip:])
        if not fresh and self.received - self._told < ACKNOWLEDGED_AT:
            return None
        first = self._shipped + 1
        self._shipped += len(fresh)
        return Express(first, self.standing(), fresh)

    def take(self, frame: Express[Any]) -> Sequence[Any]:
        """The messages that are new. Raises PeerError for whatever an honest peer cannot send."""
        self._confirm(frame.received)
        expected = self.received + 1
        if not 1 <= frame.first <= expected:
            raise PeerError(f"sign of life {expected} is missing: the next is {frame.first}")
        messages = frame.messages[expected - frame.first :]
        for message in messages:
            if not message.express:
                raise PeerError(f"{type(message).__name__} overtakes what was said before it")
        self.received += len(messages)
        return messages

    def _confirm(self, received: int) -> None:
        count = received - self.confirmed
        if not 0 <= count <= len(self.outbox):
            raise PeerError(f"acknowledged {received} signs of life, but {self.confirmed + len(self.outbox)} were sent")
        for _ in range(count):
            self.outbox.popleft()
        self.confirmed = received
        self._shipped = max(self._shipped, received)
