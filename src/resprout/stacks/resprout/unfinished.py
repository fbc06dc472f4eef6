"""Search the whole tree for publications of a client that some reader has not taken (`overlay.echo`).

A client that comes from another broker publishes again what it does not know to be safe. Its new broker does not know
who has taken what is already in the tree, so it asks everybody. A publication that some reader is owed is in the log of
a broker until that reader has taken it, and on its way there in the log of the broker before it. So it is delivered if
all brokers answer that they hold nothing of the client up to these numbers. Where a link is in repair, or breaks on the
way, the answer is that something may be held, and the question is asked again later.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar, Final

from resprout.core.bounds import BoundedNumber
from resprout.core.contract import Departure, ProtocolMessage
from resprout.core.errors import PeerError
from resprout.core.guarantee import STREAMS
from resprout.core.marks import Marks
from resprout.order.link import Link
from resprout.order.log import Log
from resprout.overlay.echo import Echo
from resprout.spread.outbound import Outbound

QUESTIONS_MAX: Final = 4_096
"""Questions that run through one broker at a time."""


class AskUnfinished(ProtocolMessage, frozen=True, tag=128):
    """Do you, or does anybody behind you, hold something up to these marks that is not delivered to everybody?"""

    leaves: ClassVar[Departure] = Departure.TURN

    number: BoundedNumber
    """Of the question, as the sender counts."""
    marks: Marks

    @property
    def background(self) -> bool:
        return True


class UnfinishedTold(ProtocolMessage, frozen=True, tag=129):
    """Answer to `AskUnfinished`."""

    leaves: ClassVar[Departure] = Departure.TURN

    number: BoundedNumber
    is_finished: bool
    """Everybody was asked, and holds nothing of it."""

    @property
    def background(self) -> bool:
        return True


class UnfinishedSearch:
    def __init__(self, neighbours: Mapping[str, bool], outbound: Outbound, log: Log) -> None:
        """`neighbours` tells whether the link of each is open."""
        self._neighbours = neighbours
        self._outbound = outbound
        self._log = log
        self._echo: Echo[int, UnfinishedTold] = Echo()

    def ask(self, marks: Marks, done: Callable[[bool], None], source: str | None = None) -> None:
        """Call `done`, perhaps at once, with whether everything up to these marks is delivered."""
        found = [self._log.repeats.has_unfinished(mark.origin, mark.seq) for mark in marks]
        is_finished = not any(found) and all(self._neighbours.values())

        def join(answer: UnfinishedTold | None) -> None:
            nonlocal is_finished
            is_finished = is_finished and answer is not None and answer.is_finished

        if not is_finished:
            done(False)
            return
        number = self._echo.asked + 1
        waiting = [name for name in self._neighbours if name != source]
        question = AskUnfinished(number, marks)
        self._echo.ask(
            number, waiting, lambda name: self._outbound.append((name, question)), lambda: done(is_finished), join
        )

    def asked(self, link: Link, message: AskUnfinished) -> None:
        if len(message.marks) > len(STREAMS):
            raise PeerError(f"{len(message.marks)} marks in a question; at most {len(STREAMS)}, one for each stream")

        def answer(is_finished: bool) -> None:
            if self._neighbours.get(link.name):
                self._outbound.append((link.name, UnfinishedTold(message.number, is_finished)))

        if len(self._echo) >= QUESTIONS_MAX:
            answer(False)
        else:
            self.ask(message.marks, answer, link.name)

    def told(self, link: Link, message: UnfinishedTold) -> None:
        self._echo.answered(message.number, link.name, message)

    def unwait(self, name: str) -> None:
        """Stop waiting for a neighbour that is dead."""
        self._echo.unwait(name)
