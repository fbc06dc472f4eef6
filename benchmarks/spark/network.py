"""Who takes part in a generated run: brokers, clients with their lives and subscriptions, and the faults.

Time is divided into *ticks*. What is published in one tick is delivered after it has ended, so the publications of
different clients in one tick are concurrent, and each subscriber may take them in an order of its own. Everything that
`benchmarks.spark.traffic` promises rests on that.
"""

from typing import Any, Final

import msgspec
import numpy as np

TICK_US: Final = 20_000
NEVER: Final = np.iinfo(np.int64).max
TOPICS: Final = ("bank/fr", "bank/us", "bank/jp", "shop/orders", "shop/stock", "news")
BROKERS: Final = 5
PUBLICATIONS_PER_TICK: Final = 0.8
"""Of one client, on average."""

Array = np.ndarray[Any, Any]


class Fault(msgspec.Struct, frozen=True):
    """A client that crashes; `back` is the tick from which its next life takes part, or None."""

    client: int
    time_us: int
    back: int | None


class Outage(msgspec.Struct, frozen=True):
    """A broker that crashes, and the repair around it."""

    broker: int
    begin_us: int
    noticed_us: int
    end_us: int


class Network:
    """Lives, not clients, subscribe: tables have one row per life and one column per topic."""

    def __init__(self, seed: int, ticks: int) -> None:
        rng = np.random.default_rng(seed)
        self.ticks = ticks
        self.clients = int(rng.integers(10, 21))
        self.broker_of = rng.integers(0, BROKERS, self.clients)
        self.outage = _outage(rng, ticks)
        self.faults = _faults(rng, self.clients, ticks)
        wanted = _wanted(rng, self.clients)
        self.client_of, self.ordinal, self.begin_tick, self.end_us = self._lives()
        self.wanted = wanted[self.client_of]
        self.from_tick = np.where(self.wanted, self.begin_tick[:, None], NEVER)
        self.until_us = np.full(self.wanted.shape, NEVER)
        self._change_subscriptions(rng)

    @property
    def lives(self) -> int:
        return len(self.client_of)

    @property
    def incarnation(self) -> Array:
        return self.ordinal + 1

    def filters(self, life: int) -> list[tuple[str, list[int]]]:
        """What a life asks for, and which topics each filter stands for. Who wants all banks says so with a
        wildcard, unless it changes its mind about one of them."""
        topics = [int(t) for t in np.nonzero(self.wanted[life])[0]]
        banks = [t for t in topics if TOPICS[t].startswith("bank/")]
        steady = (self.from_tick[life] == self.begin_tick[life]) & (self.until_us[life] == NEVER)
        if len(banks) == 3 and bool(steady[banks].all()):
            return [("bank/+", banks), *((TOPICS[t], [t]) for t in topics if t not in banks)]
        return [(TOPICS[t], [t]) for t in topics]

    def _lives(self) -> tuple[Array, Array, Array, Array]:
        lives = []
        for client in range(self.clients):
            ordinal, begin = 0, 0
            for fault in self.faults:
                if fault.client == client:
                    lives.append((client, ordinal, begin, fault.time_us))
                    ordinal, begin = ordinal + 1, -1 if fault.back is None else fault.back
            if begin >= 0:
                lives.append((client, ordinal, begin, NEVER))
        columns = np.array(lives, dtype=np.int64).T
        return columns[0], columns[1], columns[2], columns[3]

    def _change_subscriptions(self, rng: np.random.Generator) -> None:
        """One lasting subscriber asks for a further topic later on, and one gives one up."""
        steady = np.nonzero((self.end_us == NEVER) & (self.ordinal == 0))[0]
        one, other = rng.choice(steady, 2, replace=False)
        if not self.wanted[one].all():
            topic = rng.choice(np.nonzero(~self.wanted[one])[0])
            self.wanted[one, topic] = True
            self.from_tick[one, topic] = rng.integers(self.ticks // 4, self.ticks // 2)
        topic = rng.choice(np.nonzero(self.wanted[other])[0])
        self.until_us[other, topic] = int(self.ticks * TICK_US * rng.uniform(0.5, 0.8))


def _wanted(rng: np.random.Generator, clients: int) -> Array:
    """Two to four topics each, and nobody gets everything."""
    wanted = np.zeros((clients, len(TOPICS)), dtype=bool)
    for client in range(clients):
        wanted[client, rng.choice(len(TOPICS), rng.integers(2, 5), replace=False)] = True
    wanted[0] = [topic.startswith("bank/") for topic in TOPICS]
    return wanted


def _faults(rng: np.random.Generator, clients: int, ticks: int) -> list[Fault]:
    """Two clients crash and come back, one of them twice, and one is gone for good."""
    first, second, third = (int(c) for c in rng.choice(np.arange(1, clients), 3, replace=False))
    moments = np.sort(rng.uniform(0.2, 0.8, 4))
    faults = []
    for client, moment in zip((first, second, first, third), moments, strict=True):
        back = None if client == third else int(moment * ticks) + max(2, ticks // 200)
        faults.append(Fault(client, int(moment * ticks * TICK_US), back))
    if faults[0].back is not None and faults[0].back * TICK_US >= faults[2].time_us:
        del faults[2]
    return faults


def _outage(rng: np.random.Generator, ticks: int) -> Outage:
    begin = int(rng.uniform(0.3, 0.6) * ticks * TICK_US)
    noticed = begin + int(rng.integers(80_000, 350_000))
    return Outage(int(rng.integers(1, BROKERS)), begin, noticed, noticed + int(rng.integers(150_000, 500_000)))
