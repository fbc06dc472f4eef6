"""Producers that connect with the same `life` after a crash and publish everything again (`ClientSpec.repeats`).

The program of such a producer reads its input from somewhere that outlives its processes. Each process publishes the
input from the beginning, in the same order, but grouped and paced differently. Brokers must add only what is new, and
send receipts for all of it.

To the network, all processes are one publisher, so they are one client in the trace. Its crash is recorded as a freeze,
and its next process as the end of that freeze: the client stays correct, and everything that it published is owed. A
publication has one row, of the process that published it first. A receipt has a row in each process, unless an earlier
process had a higher one.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from resprout.core.guarantee import ReceiptLevel
from resprout.core.message import Message
from resprout.edge.requests import ClientNews, PublishRequest
from resprout.scenario.app import App, AppWish, WakeAt
from resprout.trace import kinds
from resprout.trace.schema import Row

GROUPS: Final = (1, 1, 3, 20, 10_000)
"""How many publications a process repeats at once."""
PAUSES_US: Final = (0, 200, 5_000, 100_000)
"""Between two such groups."""
TRACE_KINDS: Final = {kinds.CRASH: kinds.FREEZE, kinds.RECOVER: kinds.UNFREEZE}
"""What the trace says of a crash and a recovery of a producer that repeats."""

_LEVELS: Final = {level.label: level for level in ReceiptLevel}

MessageKey = tuple[str | None, int | None]


class RepeatingProducer:
    """What outlives the processes of one producer: its input, how far it was read, and what the trace says already."""

    def __init__(self, app: App, rng: Random, record: Callable[[Row], None]) -> None:
        self.app = app
        self.rng = rng
        self.published: list[PublishRequest] = []
        """All publications that any process has made, in order."""
        self.alarms_us: list[int] = []
        """Wake-ups that `app` asked for; those of a process end with it."""
        self.is_begun = False
        self._record = record
        self._recorded: dict[MessageKey, Row] = {}
        self._reached: dict[MessageKey, ReceiptLevel] = {}

    def start_process(self) -> "RepeatingProcess":
        return RepeatingProcess(self)

    def keep(self, wishes: Sequence[AppWish]) -> list[AppWish]:
        """Remember what the next process has to repeat, and return the wishes."""
        self.published += [wish for wish in wishes if isinstance(wish, PublishRequest)]
        self.alarms_us += [wish.at_us for wish in wishes if isinstance(wish, WakeAt)]
        return list(wishes)

    def record(self, row: Row) -> None:
        """Record a row of any process, unless the trace has it."""
        message = (row.stream, row.seq)
        if row.kind == kinds.PUBLISH:
            first = self._recorded.setdefault(message, row)
            assert (first.topic, first.keys, first.guarantee) == (row.topic, row.keys, row.guarantee), "not a repeat"
            if first is not row:
                return
        elif row.kind == kinds.RECEIPT and row.receipt in _LEVELS:
            level = _LEVELS[row.receipt]
            if level < self._reached.get(message, level):
                return
            self._reached[message] = level
        self._record(row)


class RepeatingProcess:
    """The application of one process: repeats what earlier processes published, then goes on with the input."""

    def __init__(self, producer: RepeatingProducer) -> None:
        self._producer = producer
        self._repeated = 0
        self._left = len(producer.published)
        """Publications to repeat before the input goes on."""
        self._news: list[ClientNews] = []
        """Told meanwhile; the input hears of it afterwards, so that nothing new overtakes what is repeated."""

    @property
    def done(self) -> bool:
        return self._left == 0 and self._producer.app.done

    def start(self, now_us: int) -> Sequence[AppWish]:
        if self._producer.is_begun:
            return self._repeat(now_us)
        self._producer.is_begun = True
        return self._producer.keep(self._producer.app.start(now_us))

    def told(self, news: ClientNews, now_us: int) -> Sequence[AppWish]:
        if self._left:
            self._news.append(news)
            return []
        return self._producer.keep(self._producer.app.told(news, now_us))

    def delivered(self, message: Message, now_us: int) -> Sequence[AppWish]:
        return []

    def woke(self, now_us: int) -> Sequence[AppWish]:
        if self._left:
            return self._repeat(now_us)
        return self._producer.keep(self._producer.app.woke(now_us))

    def _repeat(self, now_us: int) -> list[AppWish]:
        producer = self._producer
        count = min(self._left, producer.rng.choice(GROUPS))
        wishes: list[AppWish] = list(producer.published[self._repeated : self._repeated + count])
        self._repeated += count
        self._left -= count
        if self._left:
            return [*wishes, WakeAt(now_us + producer.rng.choice(PAUSES_US))]
        for news in self._news:
            wishes += producer.keep(producer.app.told(news, now_us))
        self._news.clear()
        wishes += producer.keep(producer.app.woke(now_us))
        producer.alarms_us = [at_us for at_us in producer.alarms_us if at_us > now_us]
        return [*wishes, *[WakeAt(at_us) for at_us in producer.alarms_us]]
