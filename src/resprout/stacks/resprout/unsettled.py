"""Clients that published through another broker or in an earlier session: when those publications are `delivered`.

This broker adopts the publications of the client that it stores: it sends their receipts from now on
(`UnsettledClients.adopt`). A publication that it does not store was delivered to all readers if this broker has the
ghost of the client's home. Otherwise the client is *unsettled*: some reader elsewhere may not have taken the
publication, so the whole tree is asked (`UnreadSearch`). The first answer also tells how far the streams of the client
have come elsewhere. Publications up to there are repeats, and their `delivered` waits as well. `Answering` is the same
without the search, for stacks that settle a client after a fixed time.

The search uses the echo algorithm of `overlay.waves`. A client that comes from another broker publishes again what it
does not know to be safe. Its new broker does not know who has taken what the other broker had accepted, nor how much
that was, so it asks every broker. An entry has level 0 at a broker until the readers there have taken it and every
neighbour that it goes to has it. So the way of an entry to a reader that has not taken it always ends at a broker where
its level is 0, and all of it is delivered if no broker has such an entry. Where a link is in repair, or breaks on the
way, the answer is not complete, and the question is asked again later.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, Final

from resprout.core.bundle import Bundle, Origin
from resprout.core.contract import Departure, NeighbourMessage, Timer
from resprout.core.errors import PeerError
from resprout.core.guarantee import STREAMS
from resprout.core.message_fields import NUMBER_MAX, BoundedNumber, Mark, Marks, Reached
from resprout.core.seen import Seen
from resprout.edge.broker.ports import HeldBundle
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.order.link import Link
from resprout.order.log import Log
from resprout.overlay.waves import Echo
from resprout.spread.messages import Outbound

QUESTIONS_MAX: Final = 4_096
"""Questions that run through one broker at a time."""

ASK_DELAY_US_MAX: Final = 2_000_000
"""At most so long after a question that found something unread the next one is asked."""


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
        is_read = self._is_read(marks)
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
            lambda: done(UnreadTold(number, is_complete, is_read and self._is_read(marks), tuple(reached), again)),
            join,
        )

    def _is_read(self, marks: Marks) -> bool:
        """Whether nothing up to these marks is unread here. Looked at before and after the others have answered: an
        entry may have left a broker that answered later for one that was asked before."""
        return not any(self._log.repeats.has_unread(mark.origin, mark.seq) for mark in marks)

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


class Answering:
    def __init__(self, sessions: ClientSessions, reached: Callable[[Origin], Reached]) -> None:
        """`reached`: how far an origin has come here."""
        self._sessions = sessions
        self._reached = reached
        self.unsettled: dict[str, int] = {}
        """Clients of whose publications some may still be kept elsewhere, and until when."""

    def is_settled(self, session: ClientSession) -> bool:
        """Whether all that it published and is not here is delivered."""
        return session.name not in self.unsettled

    def adopt(self, session: ClientSession, kept: Iterable[HeldBundle], settled_us: int | None) -> None:
        """These publications of it are kept here. `settled_us`: when the others will be delivered; None: they are."""
        self._sessions.adopt(session, kept, known_streams(session, self._reached) if settled_us is None else None)
        if settled_us is not None:
            self.unsettled[session.name] = settled_us

    def settle(self, now_us: int) -> None:
        """From time to time: nobody keeps anything for others for so long."""
        for name in [name for name, due_us in self.unsettled.items() if due_us <= now_us]:
            del self.unsettled[name]
            session = self._sessions.all[name]
            self._sessions.adopt(session, (), known_streams(session, self._reached))

    def leave(self, name: str) -> None:
        self.unsettled.pop(name, None)


def known_streams(session: ClientSession, reached: Callable[[Origin], Reached]) -> dict[str, int]:
    """Return how far the streams of a client are known to have come. What it was told is safe need not have come here:
    publications go to their readers and to f + 1 brokers, and no farther."""
    marks = {stream: reached((session.name, stream, session.incarnation)) for stream in STREAMS}
    for mark in session.told_safe:
        if mark.stream in marks:
            marks[mark.stream] = max(marks[mark.stream], mark.last)
    return {stream: last for stream, last in marks.items() if last}


class SearchDue(Timer, frozen=True):
    """When to ask the tree, for the first time, whether what clients published before they came is delivered."""


class HoldOver(Timer, frozen=True):
    """When publications of a client wait no longer for an answer of the tree: part of it may be cut off."""

    client: str


class UnsettledClient:
    """A client of whose publications some may be unread elsewhere."""

    __slots__ = ("asks", "delay_us", "due_us", "is_asking", "is_held", "session", "upto")

    def __init__(self, session: ClientSession, due_us: int, upto: dict[str, int], is_held: bool = False) -> None:
        self.session = session
        self.is_held = is_held
        """Whether its publications wait until the tree has answered for the first time."""
        self.due_us = due_us
        """When to ask next."""
        self.delay_us = 0
        """Between the last question and the next."""
        self.is_asking = False
        self.asks = 0
        """Questions so far."""
        self.upto = upto
        """How far each of its streams is known to have come, here or elsewhere: so far it is asked for."""

    @property
    def marks(self) -> Marks:
        session, upto = self.session, dict.fromkeys(STREAMS, NUMBER_MAX) if self.is_held else self.upto
        return tuple([Mark(session.name, stream, session.incarnation, upto.get(stream, 0)) for stream in STREAMS])


class UnsettledClients:
    def __init__(self, sessions: ClientSessions, seen: Seen) -> None:
        """`seen`: how far origins have come here."""
        self._sessions = sessions
        self._seen = seen
        self._reached = seen.mark
        self.clients: dict[str, UnsettledClient] = {}
        self._settled: dict[str, dict[str, int]] = {}
        """By client that came from elsewhere: up to where everything is delivered, by stream."""

    def is_delivered(self, session: ClientSession, bundle: Bundle, now_us: int) -> bool:
        """Whether a publication that was here before, and that the client publishes again, is delivered unless it is
        kept here. If that is not known, the client is unsettled from now on."""
        unsettled = self.clients.get(session.name)
        if unsettled is not None:
            unsettled.upto[bundle.stream] = max(bundle.last, unsettled.upto.get(bundle.stream, 0))
            return False
        settled = self._settled.get(session.name)
        if settled is None or bundle.last <= settled.get(bundle.stream, 0):
            return True
        self.clients[session.name] = UnsettledClient(session, now_us, {**settled, bundle.stream: bundle.last})
        return False

    def is_holding(self, name: str) -> bool:
        """Whether publications of this client wait until the tree has answered."""
        unsettled = self.clients.get(name)
        return unsettled is not None and unsettled.is_held

    def adopt(
        self, session: ClientSession, kept: Iterable[HeldBundle], due_us: int | None, is_held: bool = False
    ) -> None:
        """These publications of it are kept here. `due_us`: when to ask about the others; None: they are delivered.
        `is_held`: it may publish again what is long delivered, so its publications wait for the first answer."""
        if due_us is not None:
            known = known_streams(session, self._reached)
            self.clients[session.name] = UnsettledClient(session, due_us, known, is_held)
            session.expect_repeats(None)
        self._sessions.adopt(session, kept, known_streams(session, self._reached) if due_us is None else None)

    @property
    def first_due_us(self) -> int | None:
        """When to ask about the next client about which the tree was never asked."""
        return min([one.due_us for one in self.clients.values() if not one.asks], default=None)

    def due(self, now_us: int) -> list[UnsettledClient]:
        """Return the clients about which the tree is to be asked now."""
        return [one for one in self.clients.values() if one.due_us <= now_us and not one.is_asking]

    def asked(self, unsettled: UnsettledClient, now_us: int, heartbeat_us: int) -> None:
        """A question is on its way. If the answer settles nothing, the next one follows, later each time."""
        unsettled.is_asking = True
        unsettled.asks += 1
        unsettled.delay_us = min(2 * unsettled.delay_us or heartbeat_us, ASK_DELAY_US_MAX)
        unsettled.due_us = now_us + unsettled.delay_us

    def told(self, unsettled: UnsettledClient, marks: Marks, reached: tuple[int, ...], is_read: bool) -> None:
        """Everybody was asked about these marks, and knows these numbers. If all of it is read, nothing of it is on its
        way here, and what a client that is held publishes again is known here from now on: this broker may never have
        had it, and clients that subscribed since must not get it behind messages that depend on it."""
        session = unsettled.session
        if self.clients.get(session.name) is not unsettled:
            return
        if session.repeated_upto is None:
            for mark, elsewhere in zip(marks, reached, strict=True):
                unsettled.upto[mark.stream] = max(elsewhere, unsettled.upto.get(mark.stream, 0))
            session.expect_repeats(dict(unsettled.upto))
        if is_read and all(mark.seq >= unsettled.upto.get(mark.stream, 0) for mark in marks):
            if unsettled.is_held:
                for stream, last in unsettled.upto.items():
                    self._seen.raise_to((session.name, stream, session.incarnation), last)
            del self.clients[session.name]
            self._settled[session.name] = unsettled.upto
            session.expect_repeats({})
            self._sessions.adopt(session, (), _published(session, unsettled.upto))
        else:
            self._sessions.turned[session.name] = session

    def leave(self, name: str) -> None:
        self.clients.pop(name, None)
        self._settled.pop(name, None)


def _published(session: ClientSession, upto: dict[str, int]) -> dict[str, int]:
    """Return what of this the client has published here, or was told is safe: a broker far away may make up more."""
    last = dict(session.last)
    for mark in session.told_safe:
        last[mark.stream] = max(mark.last, last.get(mark.stream, 0))
    return {stream: min(number, last[stream]) for stream, number in upto.items() if stream in last}
