"""A stack that hangs while the links below it go on: they keep the connections, acknowledge, and give their signs of
life, and nothing that comes is ever looked at. To its peers it is a broker that is there and answers nothing.

What comes meanwhile waits, and is handled in order when the stack goes on. What it then says in a session that has
ended, or begun, in the meantime is lost, as if it had been said in time.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from resprout.core.contract import Close, Effect, Event, Hold, LinkDown, LinkUp, Machine, Release, Send
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
            self._replayed = self._waiting[0]
            yield self._replayed
            self._waiting.popleft()
        self._links.put_between(self.machine)

    def _is_late(self, effect: Effect) -> bool:
        """For a session that is over by now, as the stack will hear in a moment."""
        if not isinstance(effect, Send | Close | Hold | Release):
            return False
        later = islice(self._waiting, 1, None)  # the first is the one that is being handled
        return any(isinstance(event, LinkDown | LinkUp) and event.peer == effect.peer for event in later)
