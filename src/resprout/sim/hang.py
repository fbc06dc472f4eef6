"""A stack that hangs while the links below it go on: they keep the connections, acknowledge, and give their signs of
life, and nothing that comes is ever looked at. To its peers it is a broker that is there and answers nothing.

What comes meanwhile waits, and is handled in order when the stack goes on. What it then says in a session that has
ended, or begun, in the meantime is lost, as if it had been said in time. Room in a session is told as it is when the
stack goes on: `Writable` replaces the number known before, so an old one would grant once more what was just used.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from resprout.core.contract import Close, Effect, Event, Hold, LinkDown, LinkUp, Machine, Release, Send, Writable
from resprout.links.links import Links


class HungStack:
    """Stands in for the stack of one life while it hangs."""

    def __init__(self, links: Links) -> None:
        self.machine: Final[Machine] = links.machine
        """The one that hangs."""
        self._links = links
        self._waiting: deque[Event] = deque()
        self._replayed: Event | None = None
        links.put_between(self)

    def start(self, now_us: int) -> Sequence[Effect]:
        raise AssertionError("a stack that hangs has started before")

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        if event is not self._replayed:
            self._waiting.append(event)
            return ()
        return [effect for effect in self.machine.step(event, now_us) if not self._is_late(effect)]

    def replay(self) -> Iterator[Event]:
        """The stack goes on: each of these is to be handed to the links, which hand it up."""
        while self._waiting:
            self._replayed = self._as_of_now(self._waiting[0])
            yield self._replayed
            self._waiting.popleft()
        self._links.put_between(self.machine)

    def _as_of_now(self, event: Event) -> Event:
        if not isinstance(event, Writable) or self._is_over(event.peer):
            return event
        session = self._links._up[event.peer]
        return Writable(event.peer, session.announced - session.sent_bytes)

    def _is_late(self, effect: Effect) -> bool:
        """For a session that is over by now, as the stack will hear in a moment."""
        return isinstance(effect, Send | Close | Hold | Release) and self._is_over(effect.peer)

    def _is_over(self, peer: str) -> bool:
        """Whether the session that the stack knows with this peer has ended since."""
        later = islice(self._waiting, 1, None)  # the first is the one that is being handled
        return any(isinstance(event, LinkDown | LinkUp) and event.peer == peer for event in later)
