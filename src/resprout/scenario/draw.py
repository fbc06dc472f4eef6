"""Scenarios by chance: a swarm runs thousands of them, each made from nothing but its seed.

Every option is drawn, from a single broker to a dozen, so that options meet that nobody would have put together. The
draws are small on purpose: a run takes a fraction of a second, and a failure is short enough to read.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from resprout.core.guarantee import Guarantee
from resprout.filters.predicate import topic_matches
from resprout.scenario.model import (
    CLIENT_LATENCY_US,
    BrokerSpec,
    ChatterOptions,
    ClientSpec,
    Mix,
    OptionValue,
    RandomOptions,
    Scenario,
    SubscriptionSpec,
    WorkloadOptions,
    WorkloadSpec,
    random_for,
)  # fmt: skip
from resprout.scenario.topologies import SHAPES, parents_in
from resprout.scenario.workloads import draw_filter, draw_where

KEEPERS: Final = 0.2
"""How many of the drawn scenarios have brokers that keep events."""
CONVERSATIONS: Final = 0.05
"""How many of the drawn scenarios of stacks other than the default one have a conversation that overflows queues."""
BROKERS_MAX: Final = 12
CLIENTS_MAX: Final = 8
OPERATIONS_MAX: Final = 60
TIME_LIMIT_US: Final = 3_600_000_000
"""Ample for the slowest draw: a run that gets here is stuck. Far links are slow: where a round trip takes seconds, some
4 KiB cross in each (docs/operating.md), and 258 publications of 5 kB in a chain of twelve took eleven minutes (seed
5401000)."""

STACK_OPTIONS: Final[Mapping[str, Sequence[OptionValue]]] = {
    "faults_tolerated": (0, 1, 1, 1, 1, 2, 2, 2),
    "ack_delay_us": (0, 500, 2_000, 50_000),
    "log_bytes": (1 << 14, 1 << 20, 64 << 20),
}
"""Of the default stack: the values that are drawn from, each as likely as it is frequent here."""

_TOPICS: Final = ("a", "a/b", "a/b/c", "a/d", "e/b", "e/d/f", "g", "$ops/b")
LATENCIES_US: Final = (0, 100, 1_000, 20_000, 200_000)
"""Of links, at most."""
_BANDWIDTHS: Final = (10_000_000, 100_000_000, 1_000_000_000)


def draw_scenario(
    seed: int,
    *,
    stack: str = "resprout",
    guarantees: Sequence[Guarantee] = tuple(Guarantee),
    options: Mapping[str, Sequence[OptionValue]] = STACK_OPTIONS,
    brokers_max: int = BROKERS_MAX,
    clients_max: int = CLIENTS_MAX,
    operations_max: int = OPERATIONS_MAX,
    site_brokers: int = 0,
    reach_us: int = LATENCIES_US[-1],
) -> Scenario:
    """The scenario of this seed: equal arguments give an equal scenario everywhere.

    `guarantees` are those that the stack offers, `options` the choices for each of its options that is to be drawn.
    With `site_brokers`, so many brokers each are a site, and the sites form the tree. No link takes longer than
    `reach_us`.
    """
    rng = random_for(seed, "draw")
    if site_brokers:
        brokers = _in_sites(
            rng, _brokers(rng, rng.randint(1, max(1, brokers_max // site_brokers)), reach_us), site_brokers
        )
    else:
        brokers = _brokers(rng, rng.randint(1, brokers_max), reach_us)
    topics = rng.sample(_TOPICS, rng.randint(1, min(5, len(_TOPICS))))
    clients = _clients(rng, rng.randint(1, clients_max), brokers, topics)
    workloads: list[WorkloadSpec] = []
    for _ in range(rng.choice((1, 1, 2))):
        churns = any(isinstance(w.options, RandomOptions) and w.options.churn for w in workloads)
        workloads.append(_workload(rng, clients, topics, guarantees, operations_max, may_churn=not churns))
    return Scenario(
        name=f"drawn from seed {seed}",
        stack=stack,
        seed=seed,
        time_limit_us=TIME_LIMIT_US,
        options={name: rng.choice(values) for name, values in options.items()},
        brokers=brokers,
        clients=_with_listeners(rng, clients, workloads),
        workloads=tuple(workloads),
    )


def with_keepers(scenario: Scenario) -> Scenario:
    """Let some brokers of some drawn scenarios keep events. Everything else stays as the seed has it."""
    rng = random_for(scenario.seed, "keep")
    if rng.random() >= KEEPERS:
        return scenario
    share = rng.choice((0.3, 1.0))
    brokers = []
    for broker in scenario.brokers:
        keep = rng.choice((("#",), ("a/#", "g"), ("+/b",))) if rng.random() < share else ()
        brokers.append(msgspec.structs.replace(broker, keep=keep))
    return msgspec.structs.replace(scenario, brokers=tuple(brokers))


def with_conversation(scenario: Scenario, guarantees: Sequence[Guarantee]) -> Scenario:
    """Let all clients of some drawn scenarios answer each other, thousands of times: more at once than the queues of
    any broker take. Everything else stays as the seed has it."""
    rng = random_for(scenario.seed, "conversation")
    if rng.random() >= CONVERSATIONS:
        return scenario
    names = tuple(client.name for client in scenario.clients)
    topics = tuple(dict.fromkeys(topic for workload in scenario.workloads for topic in workload.topics))
    said = WorkloadSpec(
        "chatter", names, topics, keys=rng.choice((0, 1, 10)), operations=8, mix=_mix(rng, guarantees),
        interval_us=20_000, payload=32, start_us=1_000_000, options=ChatterOptions(answers_max=1_000),
    )  # fmt: skip
    return msgspec.structs.replace(scenario, workloads=(*scenario.workloads, said))


def with_groups(scenario: Scenario, guarantees: Sequence[Guarantee]) -> Scenario:
    """Add small groups that overlap: topics that two or three clients read each, and a conversation of all clients
    across them. Each client reads few topics, and what it publishes depends on what it read on others."""
    rng = random_for(scenario.seed, "groups")
    names = [client.name for client in scenario.clients]
    topics = tuple([f"group/{no}" for no in range(rng.randint(2, 6))])
    members = {topic: rng.sample(names, min(len(names), rng.randint(2, 3))) for topic in topics}
    clients = [
        msgspec.structs.replace(
            client,
            subscriptions=(
                *client.subscriptions,
                *[SubscriptionSpec(topic) for topic in topics if client.name in members[topic]],
            ),
        )
        for client in scenario.clients
    ]
    said = WorkloadSpec(
        "chatter", tuple(names), topics, keys=0, operations=rng.randint(5, 20), mix=_mix(rng, guarantees),
        interval_us=rng.choice((2_000, 20_000)), payload=32, start_us=rng.choice((0, 1_000_000)),
        options=ChatterOptions(depth=rng.randint(2, 8), answer=rng.choice((0.3, 0.6)), answers_max=30),
    )  # fmt: skip
    return msgspec.structs.replace(scenario, clients=tuple(clients), workloads=(*scenario.workloads, said))


def _brokers(rng: random.Random, count: int, longest_us: int) -> tuple[BrokerSpec, ...]:
    parents = parents_in(rng.choice(SHAPES), count, rng.randint(2, 5), rng)
    reach_us = rng.choice([latency_us for latency_us in LATENCIES_US if latency_us <= longest_us])
    even = rng.random() < 0.3
    narrow = rng.choice((0.0, 0.0, 0.3, 1.0))
    brokers = []
    for i, parent in enumerate(parents):
        bandwidth_bps = rng.choice(_BANDWIDTHS) if rng.random() < narrow else None
        if parent is None:
            brokers.append(BrokerSpec(f"b{i}", bandwidth_bps=bandwidth_bps))
        else:
            latency_us = reach_us if even else rng.randint(0, reach_us)
            brokers.append(BrokerSpec(f"b{i}", f"b{parent}", latency_us, bandwidth_bps))
    return tuple(brokers)


def _in_sites(rng: random.Random, firsts: Sequence[BrokerSpec], count: int) -> tuple[BrokerSpec, ...]:
    """Each of these is the first broker of a site: the others are near it, and hang on it."""
    near_us = rng.choice((0, 100, 1_000, 5_000))
    brokers: list[BrokerSpec] = []
    for number, first in enumerate(firsts):
        site = f"s{number}"
        brokers.append(msgspec.structs.replace(first, site=site))
        for other in range(1, count):
            latency_us = rng.randint(0, near_us)
            brokers.append(BrokerSpec(f"{first.name}-{other}", first.name, latency_us, first.bandwidth_bps, site))
    return tuple(brokers)


def _clients(rng: random.Random, count: int, brokers: Sequence[BrokerSpec], topics: Sequence[str]) -> list[ClientSpec]:
    return [
        ClientSpec(
            name=f"c{i}",
            broker=rng.choice(brokers).name,
            latency_us=rng.choice((CLIENT_LATENCY_US, CLIENT_LATENCY_US, 0, rng.randint(1, 30_000))),
            subscriptions=_subscriptions(rng, topics),
        )
        for i in range(count)
    ]


def _subscriptions(rng: random.Random, topics: Sequence[str]) -> tuple[SubscriptionSpec, ...]:
    drawn = [
        SubscriptionSpec(draw_filter(rng, topics), draw_where(rng) if rng.random() < 0.25 else None)
        for _ in range(rng.choice((0, 1, 1, 2, 3)))
    ]
    return tuple(dict.fromkeys(drawn))


def _with_listeners(
    rng: random.Random, clients: Sequence[ClientSpec], workloads: Sequence[WorkloadSpec]
) -> tuple[ClientSpec, ...]:
    """Topics that nobody would receive get a subscriber: a scenario file must not have such topics."""
    subscriptions = {client.name: list(client.subscriptions) for client in clients}
    for topic in dict.fromkeys(topic for workload in workloads for topic in workload.topics):
        if not any(topic_matches(s.filter, topic) for rows in subscriptions.values() for s in rows):
            subscriptions[rng.choice(clients).name].append(SubscriptionSpec(topic))
    return tuple(
        ClientSpec(client.name, client.broker, client.latency_us, tuple(subscriptions[client.name]))
        for client in clients
    )


def _workload(
    rng: random.Random,
    clients: Sequence[ClientSpec],
    topics: Sequence[str],
    guarantees: Sequence[Guarantee],
    operations_max: int,
    *,
    may_churn: bool,
) -> WorkloadSpec:
    kind = rng.choice(("random", "random", "chatter"))
    working = sorted(rng.sample(range(len(clients)), rng.randint(1, len(clients))))
    payload = rng.choice((0, 1, 32, 32, 1_000, 5_000))
    interval_us = rng.choice((0, 200, 2_000, 20_000, 100_000))
    window = rng.choice((0, 0, 1, 3, 20)) or int(interval_us == 0)
    return WorkloadSpec(
        kind=kind,
        clients=tuple(clients[i].name for i in working),
        topics=tuple(rng.sample(topics, rng.randint(1, len(topics)))),
        keys=rng.choice((0, 1, 2, 10, 100)),
        operations=rng.randint(1, operations_max),
        mix=_mix(rng, guarantees),
        interval_us=interval_us,
        payload=payload,
        start_us=rng.choice((0, 0, rng.randint(0, 2_000_000))),
        window=window,
        options=_options(rng, kind, payload, len(clients), may_churn),
    )


def _mix(rng: random.Random, guarantees: Sequence[Guarantee]) -> Mix:
    """Hundredths, so that they sum to 1 and read well."""
    chosen = rng.sample(guarantees, rng.randint(1, len(guarantees)))
    cuts = sorted(rng.sample(range(1, 100), len(chosen) - 1))
    shares = [(high - low) / 100 for low, high in zip([0, *cuts], [*cuts, 100], strict=True)]
    return Mix(**{guarantee.label: share for guarantee, share in zip(chosen, shares, strict=True)})


def _options(rng: random.Random, kind: str, payload: int, clients: int, may_churn: bool) -> WorkloadOptions:
    if kind == "chatter":
        return ChatterOptions(
            depth=rng.randint(0, 8),
            # About one answer to each message: fewer and conversations die at once, more and they explode.
            answer=min(1.0, round(rng.uniform(0.3, 1.3) / max(1, clients - 1), 2)),
            answers_max=rng.randint(1, 100),
            think_max_us=rng.choice((0, 0, 500, 20_000)),
        )
    churn = rng.choice((0.0, 0.0, 0.05, 0.3)) if may_churn else 0.0
    return RandomOptions(
        keys_max=rng.choice((0, 1, 2, 5)),
        foreign_keys=rng.choice((0.0, 0.0, 0.2)),
        attributes=rng.random() < 0.8,
        payload_min=rng.choice((None, 0, payload // 2)),
        burst=rng.choice((1, 1, 1, 2, 8, 30)),
        churn=churn,
        churn_where=rng.choice((0.0, 0.5)) if churn else 0.0,
    )
