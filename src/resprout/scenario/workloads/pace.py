"""When a client makes its next operation: after an interval, and only while its window is open."""

import abc
import random
from collections.abc import Sequence

from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.core.message import Message
from resprout.edge.requests import ClientNews, Published, PublishRequest, ReceiptTurned, Refused
from resprout.scenario.app import AppWish, WakeAt
from resprout.scenario.model import WorkloadSpec


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
