"""Parts of scenarios that several classes draw alike: brokers, clients, and a death with or without a return."""

from collections.abc import Callable, Iterable, Sequence
from random import Random

import msgspec

from resprout.scenario.model import BrokerSpec, ClientSpec, FaultKind, FaultSpec, SubscriptionSpec


def brokers_in(
    parents: Iterable[int | None],
    latency_us: Callable[[], int],
    bandwidth_bps: Callable[[], int | None] = lambda: None,
) -> tuple[BrokerSpec, ...]:
    """Return brokers `b0`, `b1`, ... below these parents, with a latency and a bandwidth drawn for each."""
    return tuple(
        [
            BrokerSpec(f"b{i}", None if parent is None else f"b{parent}", latency_us(), bandwidth_bps())
            for i, parent in enumerate(parents)
        ]
    )


def subscriptions_to(filters: Sequence[str]) -> tuple[SubscriptionSpec, ...]:
    return tuple([SubscriptionSpec(filter) for filter in filters])


def first_reads_all(clients: Sequence[ClientSpec]) -> tuple[ClientSpec, ...]:
    """Return the clients; the first one subscribes to everything, so that every message has a reader."""
    return (msgspec.structs.replace(clients[0], subscriptions=(SubscriptionSpec("#"),)), *clients[1:])


def death(
    rng: Random, name: str, at_us: int, *, host: bool, return_chance: float, within_us: int
) -> tuple[FaultSpec, ...]:
    """Return the crash of a broker and, by chance, its return within this time."""
    crash = FaultSpec(at_us, FaultKind.CRASH, (name,), host=host)
    if rng.random() >= return_chance:
        return (crash,)
    return (crash, FaultSpec(at_us + rng.randint(1, within_us), FaultKind.RECOVER, (name,)))
