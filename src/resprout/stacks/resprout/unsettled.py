"""Clients that published through another broker or in an earlier session: when that is `delivered`.

What is kept here is adopted: its receipts come from here from now on. What has left no trace was delivered to all who
were owed it, if this broker has the ghost of the client's home. Otherwise the client is *unsettled*: some reader
elsewhere may not have taken it, so the whole tree is asked (`unread`). The first answer also tells how far the streams
of the client have come elsewhere. What it publishes here up to there is a repeat, and its `delivered` waits as well.
"""

from collections.abc import Callable, Iterable
from typing import Final

from resprout.core.bundle import Bundle, Origin
from resprout.core.contract import Timer
from resprout.core.guarantee import STREAMS
from resprout.core.message_fields import Mark, Marks, Reached
from resprout.edge.broker.answering import known_streams
from resprout.edge.broker.ports import HeldBundle
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions

ASK_DELAY_US_MAX: Final = 2_000_000
"""At most so long after a question that found something unread the next one is asked."""


class SearchDue(Timer, frozen=True):
    """When to ask the tree, for the first time, whether what clients published before they came is delivered."""


class UnsettledClient:
    """A client of whose publications some may be unread elsewhere."""

    __slots__ = ("asks", "delay_us", "due_us", "is_asking", "session", "upto")

    def __init__(self, session: ClientSession, due_us: int, upto: dict[str, int]) -> None:
        self.session = session
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
        session = self.session
        return tuple([Mark(session.name, stream, session.incarnation, self.upto.get(stream, 0)) for stream in STREAMS])


class UnsettledClients:
    def __init__(self, sessions: ClientSessions, reached: Callable[[Origin], Reached]) -> None:
        """`reached`: how far an origin has come here."""
        self._sessions = sessions
        self._reached = reached
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

    def adopt(self, session: ClientSession, kept: Iterable[HeldBundle], due_us: int | None) -> None:
        """These publications of it are kept here. `due_us`: when to ask about the others; None: they are
        delivered."""
        if due_us is not None:
            self.clients[session.name] = UnsettledClient(session, due_us, known_streams(session, self._reached))
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
        """Everybody was asked about these marks, and knows these numbers."""
        session = unsettled.session
        if self.clients.get(session.name) is not unsettled:
            return
        if session.repeated_upto is None:
            for mark, elsewhere in zip(marks, reached, strict=True):
                unsettled.upto[mark.stream] = max(elsewhere, unsettled.upto.get(mark.stream, 0))
            session.expect_repeats(dict(unsettled.upto))
        if is_read and marks == unsettled.marks:
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
