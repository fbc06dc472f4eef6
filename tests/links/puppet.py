"""A stack that does what it is told, respects its room and remembers everything; and a node made of it."""

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Any, ClassVar

from resprout.core.contract import (
    Arrived,
    Close,
    Connected,
    Disconnected,
    Effect,
    Event,
    Heard,
    LinkDown,
    LinkUp,
    Open,
    ProtocolMessage,
    Received,
    Request,
    Send,
    Silent,
    Transmit,
    Writable,
)
from resprout.links.frames import PROTOCOL_VERSION, Data, Hello, SessionWelcome
from resprout.links.links import Links
from resprout.links.options import LinkOptions


class Parcel(ProtocolMessage, frozen=True, tag=250):
    number: int
    size: int = 0

    @property
    def cost(self) -> int:
        return self.size


class Sign(ProtocolMessage, frozen=True, tag=252):
    """Overtakes parcels."""

    express: ClassVar[bool] = True

    number: int


class Episode:
    """One session as a stack has seen it."""

    def __init__(self, up: LinkUp) -> None:
        self.up = up
        self.room = up.room
        self.sent: list[Parcel] = []
        self.received: list[Parcel] = []
        self.signs_sent: list[Sign] = []
        self.signs_received: list[Sign] = []
        self.down: str | None = None
        """Why it ended; None while it lasts."""
        self.cause: str | None = None
        self.silent = False
        self.closed = False
        """The stack itself ended it."""


class Puppet:
    """Bodies of requests: an effect is carried out; a `Parcel` for a peer waits until there is room for it."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.episodes: dict[str, list[Episode]] = {}
        self.current: dict[str, Episode] = {}
        self.waiting: dict[str, deque[Parcel]] = {}
        self.replies: dict[type[Event], list[Effect]] = {}
        """What to answer to any event of a type, besides."""

    def start(self, now_us: int) -> Sequence[Effect]:
        return []

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        self.events.append(event)
        effects = list(self.replies.get(type(event), ()))
        if isinstance(event, LinkUp):
            assert event.peer not in self.current, "a session begins only after the earlier one has ended"
            self.current[event.peer] = episode = Episode(event)
            self.episodes.setdefault(event.peer, []).append(episode)
            effects += self._flush(event.peer)
        elif isinstance(event, LinkDown):
            episode = self.current.pop(event.peer)
            episode.down, episode.cause = event.reason, event.cause
        elif isinstance(event, Silent):
            if event.peer in self.current:
                self.current[event.peer].silent = True
        elif isinstance(event, Heard):
            assert self.current[event.peer].silent, "only who was silent is heard again"
            self.current[event.peer].silent = False
        elif isinstance(event, Writable):
            self.current[event.peer].room = event.room
            effects += self._flush(event.peer)
        elif isinstance(event, Received):
            episode = self.current[event.peer]
            assert not episode.silent, "who speaks is not silent"
            if isinstance(event.message, Sign):
                episode.signs_received.append(event.message)
            else:
                episode.received.append(event.message)
        elif isinstance(event, Request):
            effects += self._wish(event.body)
        return effects

    def _wish(self, body: Any) -> list[Effect]:
        if isinstance(body, list):
            return [effect for wish in body for effect in self._wish(wish)]
        if isinstance(body, tuple):
            peer, parcel = body
            self.waiting.setdefault(peer, deque()).append(parcel)
            return self._flush(peer)
        if isinstance(body, Send) and isinstance(body.message, Sign) and body.peer in self.current:
            self.current[body.peer].signs_sent.append(body.message)
        if isinstance(body, Close) and body.peer in self.current:
            episode = self.current.pop(body.peer)
            episode.closed = True
            episode.down = body.reason
        return [body]

    def _flush(self, peer: str) -> list[Effect]:
        """In order, except that what has no cost passes what waits for room."""
        episode = self.current.get(peer)
        waiting = self.waiting.get(peer, deque())
        sending: list[Effect] = []
        if episode is not None:
            for parcel in list(waiting):
                if parcel.cost == 0 or episode.room > 0:
                    waiting.remove(parcel)
                    episode.room -= parcel.cost
                    episode.sent.append(parcel)
                    sending.append(Send(peer, parcel))
        return sending

    def heard(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if type(event) is kind]


class Desk:
    """A node under test, driven by hand: each method is one step, at the time that `now_us` says."""

    def __init__(
        self,
        name: str = "b1",
        options: LinkOptions | None = None,
        incarnation: int = 1,
        role: str = "broker",
        incarnation_max: int | None = None,
        deliveries_last: bool = False,
    ) -> None:
        self.puppet = Puppet()
        self.options = options or LinkOptions()
        self.links = Links(
            self.puppet, name=name, role=role, incarnation=incarnation, rng=Random(7), options=self.options,
            incarnation_max=lambda: incarnation_max, deliveries_last=deliveries_last,
        )  # fmt: skip
        self.name = name
        self.now_us = 0
        self.started = self.links.start(0)

    def step(self, event: Event) -> list[Effect]:
        return list(self.links.step(event, self.now_us))

    def ask(self, body: Any) -> list[Effect]:
        return self.step(Request(body))

    def arrive(self, connection: int, frame: Any) -> list[Effect]:
        return self.step(Arrived(connection, frame))

    def lose(self, connection: int, peer: str | None = None) -> list[Effect]:
        return self.step(Disconnected(connection, peer, "cable cut"))

    def hello(self, name: str = "c1", **changes: Any) -> Hello:
        fields: dict[str, Any] = {
            "version": PROTOCOL_VERSION, "name": name, "role": "client", "incarnation": 1, "peer": self.name,
            "peer_incarnation": None, "epoch": 1, "received": 0, "grant": 1000,
        }  # fmt: skip
        return Hello(**(fields | changes))

    def welcome(self, name: str = "b0", **changes: Any) -> SessionWelcome:
        fields: dict[str, Any] = {
            "version": PROTOCOL_VERSION, "name": name, "role": "broker", "incarnation": 1, "epoch": 1, "received": 0,
            "grant": 1000,
        }  # fmt: skip
        return SessionWelcome(**(fields | changes))

    def accept(self, connection: int = 5, name: str = "c1", **changes: Any) -> list[Effect]:
        """Somebody connects and says `Hello`."""
        assert self.step(Connected(connection, None)) == []
        return self.arrive(connection, self.hello(name, **changes))

    def reach(self, connection: int = 5, name: str = "b0", **changes: Any) -> list[Effect]:
        """Open a session, and be welcome."""
        self.ask(Open(name))
        self.step(Connected(connection, name))
        return self.arrive(connection, self.welcome(name, **changes))


def data(first: int, *messages: Any, received: int = 0, grant: int = 1000) -> Data[Any]:
    return Data(first, received, grant, messages)


def frames(effects: Sequence[Effect], connection: int | None = None) -> list[Any]:
    """What is transmitted, on one connection or on any."""
    return [
        effect.frame for effect in effects if isinstance(effect, Transmit) and connection in (None, effect.connection)
    ]
