"""The sessions of a broker with everything they need around them, and a hand on every string."""

from collections.abc import Mapping, Sequence
from typing import Any

from resprout.core.bundle import Bundle, pack_attributes, pack_payloads
from resprout.core.contract import Effect, Send
from resprout.core.guarantee import Guarantee
from resprout.edge.broker.ghosts import Ghosts
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.messages import Attend, Delivery, Serving, Subscribe, Successor, Taken, Unsubscribe
from resprout.order.entry import Entry
from resprout.order.log import Log
from resprout.spread.interest import Interest
from resprout.spread.messages import Outbound
from resprout.stacks.resprout.subscribing import ClientInterest

ROOM = 1 << 20
SUCCESSORS = (Successor("b8", "host:1"), Successor("b9", ""))
SERVING = Serving("resprout", (Guarantee.CAUSAL,), 0)


class House:
    """Sessions with a log in which everything is safe at once, and, where asked for, neighbours."""

    def __init__(self, *clients: str, neighbours: tuple[str, ...] = (), room: int = ROOM) -> None:
        self.log = Log(0)
        self.interest = Interest()
        self.outbound: Outbound = []
        for name in neighbours:
            self.interest.add_neighbour(name)
        self.wishes = ClientInterest(self.interest, self.outbound)
        self.sessions = ClientSessions(SERVING, self.log, self.wishes, lambda entry: self.sessions.delivered(entry))
        self.ghosts = Ghosts(self.sessions, self.log, self.wishes, self.interest.index)
        self.out: list[Effect] = []
        self.clients: dict[str, ClientSession] = {}
        for name in clients:
            self.serve(name, room=room)
        self.published: dict[str, int] = {}
        self.prompt = True

    def serve(
        self, name: str, attend: Attend | None = None, *, resumed: bool = True, room: int = ROOM
    ) -> ClientSession:
        session = self.clients[name] = self.sessions.arrive(name, 1, room)
        self.sessions.welcome(session, attend or Attend(0), (), resumed, self.out)
        return session

    def subscribe(self, name: str, id: int, filter: str = "t", where: str | None = None) -> None:
        self.sessions.subscribe(self.clients[name], Subscribe(id, filter, where), self.out)

    def unsubscribe(self, name: str, id: int) -> None:
        self.sessions.unsubscribe(self.clients[name], Unsubscribe(id), self.out)

    def bundle(
        self,
        by: str = "p",
        payloads: Sequence[bytes] = (b"x",),
        topic: str = "t",
        rows: Sequence[Mapping[str, Any]] | None = None,
        stamp: int = 1,
        guarantee: Guarantee = Guarantee.CAUSAL,
    ) -> Bundle:
        """The next one of its publisher."""
        first = self.published.get(by, 0) + 1
        self.published[by] = first + len(payloads) - 1
        numbered: list[Any] = [{"n": n} for n in range(len(payloads))]
        return Bundle(
            by, 1, first, len(payloads), stamp, topic, (), guarantee, pack_attributes(rows or numbered),
            pack_payloads(payloads),
        )  # fmt: skip

    def append(self, *readers: str, by: str | None = None, **how: Any) -> Entry:
        client = self.clients[by] if by is not None else None
        shown_to = tuple(self.sessions.all[name] for name in readers)
        entry = self.log.append(self.bundle(by or "p", **how), None, client, 0, 0, 0, shown_to)
        entry.prompt = self.prompt
        if client is not None:
            self.sessions.published(client, entry)
        return entry

    def show(self) -> None:
        while self.log.held_back:
            self.sessions.show(self.log.held_back.take_first(), self.out)

    def give(self, *readers: str, by: str | None = None, **how: Any) -> Entry:
        entry = self.append(*readers, by=by, **how)
        self.show()
        return entry

    def take(self, name: str, deliveries: int) -> None:
        self.sessions.taken(self.clients[name], Taken(deliveries), self.out)

    def leave(self, name: str) -> None:
        self.sessions.leave(name, self.out)

    def messages(self, name: str) -> list[Any]:
        """What a client was sent since the last time anyone asked."""
        self.sessions.flush(self.out)
        messages = [effect.message for effect in self.out if isinstance(effect, Send) and effect.peer == name]
        self.out = [effect for effect in self.out if not (isinstance(effect, Send) and effect.peer == name)]
        return messages

    def told(self, name: str) -> list[Any]:
        """The same, with deliveries as their first numbers."""
        return [message.bundle.first if isinstance(message, Delivery) else message for message in self.messages(name)]

    @property
    def empty(self) -> bool:
        return not self.log.entries and not self.log.bytes_held and not self.log.local_bytes
