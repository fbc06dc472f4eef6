"""Search the whole tree for publications of a client that some reader has not taken (`overlay.echo`).

A client that comes from another broker publishes again what it does not know to be safe. Its new broker does not know
who has taken what the other broker had accepted, nor how much that was, so it asks everybody. An entry has level 0 at a
broker until the readers there have taken it and every neighbour that it goes to has it. So the way of an entry to a
reader that has not taken it always ends at a broker where its level is 0, and all of it is delivered if no broker has
such an entry. Where a link is in repair, or breaks on the way, the answer is not complete, and the question is asked
again later.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar, Final

from resprout.core.contract import Departure, NeighbourMessage
from resprout.core.errors import PeerError
from resprout.core.guarantee import STREAMS
from resprout.core.message_fields import BoundedNumber, Marks
from resprout.core.seen import Seen
from resprout.order.link import Link
from resprout.order.log import Log
from resprout.overlay.echo import Echo
from resprout.spread.messages import Outbound

QUESTIONS_MAX: Final = 4_096
"""Questions that run through one broker at a time."""


class AskUnread(NeighbourMessage, frozen=True, tag=128):
    """Has some reader, yours or of a broker behind you, not taken something up to these marks? And how far has each of
    their origins come?"""

    leaves: ClassVar[Departure] = Departure.TURN

    number: BoundedNumber
    """Of the question, as the sender counts."""
    marks: Marks
    again: bool
    """It was asked before, and asking goes on until all is read."""

    @property
    def background(self) -> bool:
        return self.again


class UnreadTold(NeighbourMessage, frozen=True, tag=129):
    """Answer to `AskUnread`."""

    leaves: ClassVar[Departure] = Departure.TURN

    number: BoundedNumber
    is_complete: bool
    """Everybody was asked."""
    is_read: bool
    """Whoever was asked has nothing of it that is not taken."""
    reached: tuple[BoundedNumber, ...]
    """For each mark: the last number of its origin that whoever was asked has seen."""
    again: bool
    """As in the question."""

    @property
    def background(self) -> bool:
        return self.again


class UnreadSearch:
    def __init__(self, neighbours: Mapping[str, bool], outbound: Outbound, log: Log, seen: Seen) -> None:
        """`neighbours` tells whether the link of each is open."""
        self._neighbours = neighbours
        self._outbound = outbound
        self._log = log
        self._seen = seen
        self._echo: Echo[int, UnreadTold] = Echo()

    def ask(self, marks: Marks, again: bool, done: Callable[[UnreadTold], None], source: Link | None = None) -> None:
        """Call `done`, perhaps at once, with what everybody but those behind `source` answers."""
        number = self._echo.asked + 1
        is_complete = all(self._neighbours.values()) and len(self._echo) < QUESTIONS_MAX
        is_read = not any(self._log.repeats.has_unread(mark.origin, mark.seq) for mark in marks)
        reached = [self._seen.mark(mark.origin) for mark in marks]

        def join(answer: UnreadTold | None) -> None:
            nonlocal is_complete, is_read, reached
            if answer is None:
                is_complete = False
                return
            if len(answer.reached) != len(marks):
                raise PeerError(f"{len(answer.reached)} origins in an answer about {len(marks)}")
            is_complete = is_complete and answer.is_complete
            is_read = is_read and answer.is_read
            reached = [max(pair) for pair in zip(reached, answer.reached, strict=True)]

        names = [name for name in self._neighbours if source is None or name != source.name] if is_complete else []
        question = AskUnread(number, marks, again)
        self._echo.ask(
            number,
            names,
            lambda name: self._outbound.append((name, question)),
            lambda: done(UnreadTold(number, is_complete, is_read, tuple(reached), again)),
            join,
        )

    def asked(self, link: Link, message: AskUnread) -> None:
        if len(message.marks) > len(STREAMS):
            raise PeerError(f"{len(message.marks)} marks in a question; at most {len(STREAMS)}, one for each stream")

        def answer(told: UnreadTold) -> None:
            if self._neighbours.get(link.name):
                told = UnreadTold(message.number, told.is_complete, told.is_read, told.reached, message.again)
                self._outbound.append((link.name, told))

        self.ask(message.marks, message.again, answer, link)

    def told(self, link: Link, message: UnreadTold) -> None:
        self._echo.answered(message.number, link.name, message)

    def unwait(self, name: str) -> None:
        """Stop waiting for a neighbour that is dead."""
        self._echo.unwait(name)
