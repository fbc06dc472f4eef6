"""What a client published before it came here, through another broker or in an earlier session: who answers for it.

What is kept here is adopted: its receipts come from here from now on. What has left no trace was delivered to all who
were owed it, if this broker has kept everything or knows whoever did; otherwise somebody may still keep it for clients
of the dead, and it counts as delivered when nobody does that any longer.
"""

from collections.abc import Callable, Iterable

from resprout.core.bundle import Bundle, Origin
from resprout.core.guarantee import STREAMS
from resprout.core.marks import Mark, Marks, Reached
from resprout.edge.broker.ports import HeldBundle
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions


class Answering:
    def __init__(self, sessions: ClientSessions, reached: Callable[[Origin], Reached]) -> None:
        """`reached`: how far an origin has come here."""
        self._sessions = sessions
        self._reached = reached
        self.unsettled: dict[str, int] = {}
        """Clients of whose publications some may still be kept elsewhere, and until when."""
        self.asked_for: dict[str, dict[str, int]] = {}
        """By client that came from another broker: how far each of its streams was known here, when it came or when it
        published something again. Up to there the publications were taken by other brokers."""

    def is_settled(self, session: ClientSession) -> bool:
        """Whether all that it published and is not here is delivered."""
        return session.name not in self.unsettled

    def is_delivered(self, session: ClientSession, bundle: Bundle) -> bool:
        """Whether a publication that was here before, and that the client publishes again, is known to be delivered. If
        not, the client is unsettled from now on."""
        asked_for = self.asked_for.get(session.name)
        if asked_for is not None and bundle.last > asked_for.get(bundle.stream, 0):
            asked_for[bundle.stream] = bundle.last
            self.unsettled[session.name] = 0
        return session.name not in self.unsettled

    def marks_of(self, session: ClientSession) -> Marks:
        """How far to ask for the publications of a client."""
        asked_for = self.asked_for[session.name]
        return tuple([Mark(session.name, stream, session.incarnation, last) for stream, last in asked_for.items()])

    def finish(self, session: ClientSession, marks: Marks) -> None:
        """Everything up to these marks is delivered."""
        if marks == self.marks_of(session):
            del self.unsettled[session.name]
        self._sessions.adopt(session, (), {mark.stream: mark.seq for mark in marks})

    def adopt(self, session: ClientSession, kept: Iterable[HeldBundle], settled_us: int | None) -> None:
        """These publications of it are kept here. `settled_us`: when the others will be delivered; None: they are."""
        self._sessions.adopt(session, kept, self._streams(session) if settled_us is None else None)
        if settled_us is not None:
            self.unsettled[session.name] = settled_us
            self.asked_for[session.name] = self._streams(session)

    def settle(self, now_us: int) -> None:
        """From time to time: nobody keeps anything for others for so long."""
        for name in [name for name, due_us in self.unsettled.items() if due_us <= now_us]:
            del self.unsettled[name]
            session = self._sessions.all[name]
            self._sessions.adopt(session, (), self._streams(session))

    def leave(self, name: str) -> None:
        self.unsettled.pop(name, None)
        self.asked_for.pop(name, None)

    def _streams(self, session: ClientSession) -> dict[str, int]:
        """How far they are known to have come. What the client was told is safe need not have come here: publications
        go to their readers and to f + 1 brokers, and no farther."""
        marks = {stream: self._reached((session.name, stream, session.incarnation)) for stream in STREAMS}
        for mark in session.told_safe:
            if mark.stream in marks:
                marks[mark.stream] = max(marks[mark.stream], mark.last)
        return {stream: last for stream, last in marks.items() if last}
