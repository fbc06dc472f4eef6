"""What a client published before it came here, through another broker or in an earlier session: who answers for it.

What is kept here is adopted: its receipts come from here from now on. What has left no trace was delivered to all who
were owed it, if this broker has kept everything or knows whoever did; otherwise somebody may still keep it for clients
of the dead, and it counts as delivered when nobody does that any longer.
"""

from collections.abc import Callable, Iterable

from resprout.core.bundle import Origin
from resprout.core.guarantee import STREAMS
from resprout.core.message_fields import Reached
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
