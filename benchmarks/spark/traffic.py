"""What is published and delivered in a generated run, as arrays: all guarantees hold by construction.

Each subscriber takes the ticks one after the other. Within a tick it takes the publications of each client in their
order, the clients in an order of its own, and then the totals, in the order of the log, which is the same for all. So

- fifo holds: a client's total is its last publication in a tick;
- causal holds: whatever a publication depends on was published in an earlier tick, or before it by the same client;
- barriers hold: for every subscriber a tick's totals come after its other publications and before the next tick's.

Eventual publications without keys are bound by none of this and are delivered at any time after their tick. What a
client published in the tick of its crash is lost for everybody, which nobody is owed.
"""

from typing import Final

import msgspec
import numpy as np

from benchmarks.spark.network import PUBLICATIONS_PER_TICK, TICK_US, TOPICS, Array, Network

GUARANTEES: Final = ("eventual", "fifo", "causal", "total")
EVENTUAL, CAUSAL, TOTAL = 0, 2, 3
KEYS: Final = 20
"""Per topic."""
_SHARES: Final = (0.25, 0.2, 0.35, 0.2)
_STEP_US: Final = 50
"""Between two deliveries in a row at one subscriber."""
_QUIET_US: Final = 10
"""At the end of a tick, when nobody publishes: subscriptions begin here."""
_CATCH_UP_US: Final = 4_000
"""A subscriber that is behind takes a tick in this time."""


class Publications(msgspec.Struct, frozen=True):
    """In order of the log, which is that of time."""

    time_us: Array
    tick: Array
    life: Array
    topic: Array
    other_topic: Array
    """The topic of a key that is written `other#key`; -1 when there is none."""
    guarantee: Array
    key: Array
    """Two columns; -1 where there is no key."""
    stream_number: Array
    tseq: Array
    lost: Array

    def __len__(self) -> int:
        return len(self.time_us)


class Deliveries(msgspec.Struct, frozen=True):
    """By life, then by position."""

    time_us: Array
    life: Array
    publication: Array
    position: Array
    done_us: Array
    """By publication: when the last subscriber to whom it was promised had it, or had crashed or given up its topic."""

    def __len__(self) -> int:
        return len(self.time_us)


def publish(network: Network, rng: np.random.Generator) -> Publications:
    tick, client = _calls(network, rng)
    offset = rng.integers(0, TICK_US - _QUIET_US, len(tick))
    order = np.lexsort((offset, tick))
    tick, client, time_us = tick[order], client[order], (tick * TICK_US + offset)[order]
    life = _life_at(network, client, tick, time_us)
    alive = life >= 0
    tick, time_us, life = tick[alive], time_us[alive], life[alive]
    n = len(tick)
    guarantee = rng.choice(len(GUARANTEES), n, p=_SHARES)
    guarantee[(guarantee == TOTAL) & ~_last_of_group(life, tick)] = CAUSAL
    topic = rng.integers(0, len(TOPICS), n)
    other = np.where((guarantee == TOTAL) & (rng.random(n) < 0.1), rng.integers(0, len(TOPICS), n), -1)
    other[other == topic] = -1
    incarnations = network.incarnation[life] * network.clients + network.client_of[life]
    return Publications(
        time_us=time_us,
        tick=tick,
        life=life,
        topic=topic,
        other_topic=other,
        guarantee=guarantee,
        key=_keys(rng, guarantee, other),
        stream_number=_count_in_group(incarnations * 2 + (guarantee == EVENTUAL)) + 1,
        tseq=np.where(guarantee == TOTAL, np.cumsum(guarantee == TOTAL), -1),
        lost=(tick + 1) * TICK_US > network.end_us[life],
    )


def deliver(network: Network, published: Publications, rng: np.random.Generator) -> Deliveries:
    done_us = published.time_us.copy()
    parts = [_deliveries_of(network, life, published, done_us, rng) for life in range(network.lives)]
    lengths = [len(time_us) for time_us, _ in parts]
    return Deliveries(
        time_us=np.concatenate([time_us for time_us, _ in parts]),
        life=np.repeat(np.arange(network.lives), lengths),
        publication=np.concatenate([numbers for _, numbers in parts]),
        position=np.concatenate([np.arange(length) for length in lengths]),
        done_us=done_us,
    )


def due(network: Network, life: int, published: Publications) -> tuple[Array, Array]:
    """Whether each publication is promised to a life, and the moment from which that is taken back."""
    from_tick, until = network.from_tick[life], network.until_us[life]
    here = from_tick[published.topic] <= published.tick
    there = (published.other_topic >= 0) & (from_tick[published.other_topic] <= published.tick)
    here_until = np.where(here, until[published.topic], -1)
    there_until = np.where(there, until[published.other_topic], -1)
    until_us = np.minimum(np.maximum(here_until, there_until), network.end_us[life])
    return (here | there) & (published.time_us < until_us), until_us


def _calls(network: Network, rng: np.random.Generator) -> tuple[Array, Array]:
    counts = rng.poisson(PUBLICATIONS_PER_TICK, network.ticks * network.clients)
    calls = np.repeat(np.arange(len(counts)), counts)
    return calls // network.clients, calls % network.clients


def _life_at(network: Network, client: Array, tick: Array, time_us: Array) -> Array:
    """Of each call; -1 while the client is down."""
    life = np.full(len(client), -1)
    for number in range(network.lives):
        mine = client == network.client_of[number]
        life[mine & (tick >= network.begin_tick[number]) & (time_us < network.end_us[number])] = number
    return life


def _keys(rng: np.random.Generator, guarantee: Array, other: Array) -> Array:
    """Every total has a key, a tenth of them two of one topic; half of the rest have one."""
    n = len(guarantee)
    key = np.full((n, 2), -1)
    named = (guarantee == TOTAL) | (rng.random(n) < 0.5)
    key[named, 0] = rng.integers(0, KEYS, int(named.sum()))
    double = (guarantee == TOTAL) & ((other >= 0) | (rng.random(n) < 0.1))
    key[double, 1] = rng.integers(0, KEYS, int(double.sum()))
    key[(other < 0) & (key[:, 0] == key[:, 1]), 1] = -1
    return key


def _deliveries_of(
    network: Network, life: int, published: Publications, done_us: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Times and publications, in order of delivery; moves `done_us` on."""
    promised, until_us = due(network, life, published)
    numbers = np.nonzero(promised & ~published.lost)[0]
    free = (published.guarantee[numbers] == EVENTUAL) & (published.key[numbers, 0] < 0)
    bound, loose = numbers[~free], numbers[free]
    bound = bound[_order_at(life, network, published, bound)]
    tick = published.tick[bound]
    place = np.arange(len(tick)) - np.searchsorted(tick, tick)
    times = np.concatenate(
        [
            _tick_begins(network, life, rng)[tick] + place * _STEP_US,
            (published.tick[loose] + 1) * TICK_US + rng.integers(0, 5 * TICK_US, len(loose)),
        ]
    )
    numbers = np.concatenate([bound, loose])
    done_us[numbers] = np.maximum(done_us[numbers], np.minimum(times, until_us[numbers]))
    in_time = times < until_us[numbers]
    times, numbers = times[in_time], numbers[in_time]
    order = np.argsort(times, kind="stable")
    return times[order], numbers[order]


def _order_at(life: int, network: Network, published: Publications, numbers: Array) -> Array:
    tick = published.tick[numbers]
    total = published.guarantee[numbers] == TOTAL
    client = network.client_of[published.life[numbers]]
    taste = ((life * 7_919 + tick * 104_729 + client * 1_299_709) * 2_654_435_761 >> 12) & 0xFFFF
    return np.lexsort((numbers, np.where(total, 0, taste * network.clients + client), total, tick))


def _tick_begins(network: Network, life: int, rng: np.random.Generator) -> Array:
    """When a subscriber begins with each tick: its distance, now and then a hiccup, and the repair of its broker."""
    ends = np.arange(1, network.ticks + 1) * TICK_US
    begins = ends + rng.integers(500, 60_000) + np.where(rng.random(network.ticks) < 0.005, 100_000, 0)
    outage = network.outage
    if network.broker_of[network.client_of[life]] == outage.broker:
        begins = np.where((begins >= outage.begin_us) & (begins < outage.end_us), outage.end_us, begins)
    pace = np.arange(network.ticks) * _CATCH_UP_US
    return np.maximum.accumulate(begins - pace) + pace


def _last_of_group(life: Array, tick: Array) -> Array:
    group = tick * (int(life.max(initial=0)) + 1) + life
    last = np.zeros(len(group), dtype=bool)
    last[len(group) - 1 - np.unique(group[::-1], return_index=True)[1]] = True
    return last


def _count_in_group(group: Array) -> Array:
    """How many of the same group stand before each."""
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    count = np.empty(len(group), dtype=np.int64)
    count[order] = np.arange(len(group)) - np.searchsorted(ordered, ordered)
    return count
