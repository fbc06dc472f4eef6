"""What clients here publish: so many at once, in order, and shown and called safe when everybody has it.

Each publisher has a window: so many bundles of it are under way unconfirmed, the others wait (D8; a window of one is
what seed 001 has measured). Bundles may be confirmed in any order; here they are shown to readers, and their publisher
told that they are safe, in the order in which they were published.

A client whose broker is gone publishes again, here, whatever it was not told is safe. What has come here by way of the
old broker is not sent again: it is on its way, or everybody has it, since this broker has taken over what the dead one
left undone.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from resprout.core.bundle import Bundle
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import Publish
from resprout_lab.delta.forwarding import Transit

Publisher = tuple[str, int]
"""(name, incarnation)."""


class _Flight(NamedTuple):
    """A publication under way."""

    bundle: Bundle
    transit: Transit | None
    """None: it has been everywhere before."""
    is_new: bool
    """It has begun here, and readers wait for it."""


class _Line:
    """Of one publisher."""

    __slots__ = ("flying", "is_advancing", "waiting")

    def __init__(self) -> None:
        self.is_advancing = False
        self.waiting: deque[tuple[ClientSession, Publish]] = deque()
        self.flying: deque[_Flight] = deque()


class OwnPublications:
    def __init__(
        self,
        window: int,
        send: Callable[[Publish, str], tuple[Transit | None, bool]],
        arrived: Callable[[Bundle, Transit | None, bool], None],
    ) -> None:
        """`send` it on; returns its transit, None for what has been everywhere, and whether it is new here. `arrived`:
        it is everywhere, and it is its turn."""
        self._window = window
        self._send = send
        self._arrived = arrived
        self._lines: dict[Publisher, _Line] = {}

    def publish(self, session: ClientSession, message: Publish) -> None:
        publisher = (message.bundle.publisher, message.bundle.incarnation)
        self._lines.setdefault(publisher, _Line()).waiting.append((session, message))
        self.advance(publisher)

    def advance(self, publisher: Publisher) -> None:
        """One of its publications is everywhere, or there is another one."""
        line = self._lines.get(publisher)
        if line is None or line.is_advancing:  # what is for nobody else is everywhere as soon as it is sent
            return
        line.is_advancing = True
        while True:
            while line.flying and (line.flying[0].transit is None or line.flying[0].transit.is_done):
                self._arrived(*line.flying.popleft())
            if not line.waiting or len(line.flying) >= self._window:
                break
            session, message = line.waiting.popleft()
            transit, is_new = self._send(message, session.name)
            line.flying.append(_Flight(message.bundle, transit, is_new))
        line.is_advancing = False
        if not line.flying and not line.waiting:
            del self._lines[publisher]
