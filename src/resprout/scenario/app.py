"""The contract of an application: what a client's code does, as a pure machine that every driver can run.

Like a protocol, an application has no clock, no I/O and no randomness of its own. A driver makes one per client with
`AppMaker(scenario).make(name, life)`, calls `start` once when the client starts, and afterwards tells it what happened;
each call returns what the application wants, in order. Requests go to the client machine as bodies of `Request`, bodies
of `Answer` come back as `told`, each message of a `Deliver` as `delivered`.

An application is lost when its client crashes. A client that recovers gets a new one (`life` counts from 0), which
subscribes and works from the beginning, with other random choices.

`PacedApp` is the base of workloads: it makes one operation after each interval, while its `Window` is open.
"""

import abc
import random
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.core.message import Message
from resprout.edge.requests import (
    ClientNews,
    ClientRequest,
    Published,
    PublishRequest,
    ReceiptTurned,
    Refused,
    StoredMessage,
)
from resprout.scenario.model import WorkloadSpec


class WakeAt(msgspec.Struct, frozen=True):
    """Call `woke` at this time. Each wish is kept, none replaces another; a time that has passed means at once."""

    at_us: int


class Applied(msgspec.Struct, frozen=True):
    """The service changed its state because of a delivery: a row of kind `applied` for the trace.

    The row has the identity, topic, keys, guarantee and position of the message, and `attributes`.
    """

    message: Message
    outcome: str
    """"ok" or "refused"."""
    balances: Mapping[str, int]
    """After it, of what it touched and this replica holds: `topic|key` to cents."""

    @property
    def attributes(self) -> dict[str, str]:
        return {"outcome": self.outcome} | {place: str(cents) for place, cents in self.balances.items()}


class PageRead(msgspec.Struct, frozen=True):
    """A page of a log that a client has read, for the trace."""

    log: str
    filter: str
    begin: int
    end: int
    """Offset behind the page, which covers the offsets from `begin` on."""
    messages: tuple[StoredMessage, ...]


AppWish = ClientRequest | WakeAt | Applied | PageRead


class App(Protocol):
    @property
    def done(self) -> bool:
        """It wants nothing more of its own accord: from now on it acts only on what it is told or given."""
        ...

    def start(self, now_us: int) -> Sequence[AppWish]: ...

    def told(self, news: ClientNews, now_us: int) -> Sequence[AppWish]: ...

    def delivered(self, message: Message, now_us: int) -> Sequence[AppWish]: ...

    def woke(self, now_us: int) -> Sequence[AppWish]:
        """May come more often than asked for."""
        ...


class Window:
    """How many publications wait for `safe`. What came before a refused one is not waited for any longer."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._asked = 0
        self._settled = 0
        self._marks: dict[str, int] = {}

    @property
    def open(self) -> bool:
        return not self._limit or self._asked - self._settled < self._limit

    def asked(self, publications: int) -> None:
        self._asked += publications

    def note(self, news: ClientNews) -> None:
        if isinstance(news, Published):
            self._marks.setdefault(news.stream, news.seq - 1)
        elif isinstance(news, ReceiptTurned):
            if news.receipt >= ReceiptLevel.SAFE:
                self._raise(news.stream, news.last)
        elif isinstance(news, Refused):
            if news.last >= news.first:
                self._raise(news.stream, news.last)
            elif isinstance(news.request, PublishRequest):
                self._settled += 1

    def _raise(self, stream: str, seq: int) -> None:
        mark = self._marks.get(stream)
        if mark is not None and seq > mark:
            self._settled += seq - mark
            self._marks[stream] = seq


class PacedApp(abc.ABC):
    """Makes `operations` operations, one after each interval. Subclasses say what one operation is."""

    def __init__(self, spec: WorkloadSpec, rng: random.Random) -> None:
        self.spec = spec
        self.rng = rng
        self._left = spec.operations
        self._due_us = 0
        self._wake_us = -1
        self._window = Window(spec.window)
        self._guarantees = [guarantee for guarantee, _ in spec.mix.shares]
        self._weights = [share for _, share in spec.mix.shares]

    @property
    def done(self) -> bool:
        return self._left == 0

    def start(self, now_us: int) -> Sequence[AppWish]:
        # A first pause of its own, so that clients with equal intervals do not act in step.
        self._due_us = max(now_us, self.spec.start_us) + self.rng.randint(0, self.spec.interval_us)
        return self._act(now_us)

    def told(self, news: ClientNews, now_us: int) -> Sequence[AppWish]:
        if not self.spec.window:
            return []
        self._window.note(news)
        return self._act(now_us)

    def delivered(self, message: Message, now_us: int) -> Sequence[AppWish]:
        return []

    def woke(self, now_us: int) -> Sequence[AppWish]:
        return self._act(now_us)

    @abc.abstractmethod
    def operation(self, left: int) -> list[AppWish]:
        """What one operation asks for; it publishes 1 to `left` times, each counted as one."""

    def pause_us(self) -> int:
        """From one operation to the next."""
        return self.spec.interval_us

    def draw_guarantee(self) -> Guarantee:
        return self.rng.choices(self._guarantees, self._weights)[0]

    def draw_payload(self, size: int) -> bytes:
        return self.rng.randbytes(size)

    def _act(self, now_us: int) -> list[AppWish]:
        wishes: list[AppWish] = []
        while self._left and self._due_us <= now_us and self._window.open:
            made = self.operation(self._left)
            publications = sum(isinstance(wish, PublishRequest) for wish in made)
            assert 0 < publications <= self._left, "an operation publishes, or the workload would never end"
            wishes += made
            self._left -= publications
            self._window.asked(publications)
            self._due_us = now_us + self.pause_us()
        if self._left and self._due_us > now_us and self._wake_us != self._due_us:
            self._wake_us = self._due_us
            wishes.append(WakeAt(self._due_us))
        return wishes
