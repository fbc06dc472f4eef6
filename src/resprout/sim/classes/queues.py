"""`queues`: groups and durable subscriptions whose consumers reject messages, are too slow, or die, while brokers die.

Some messages are poison, which no consumer can process; they become dead letters, which other consumers are given. In
most trials some messages are delayed, some expire, and some have priorities. In half of them messages have ids, and
repeat each other, and in half of them consumers publish follow-ups. Brokers die once or twice, or all at once
and with their disks; consumers freeze, die and return.
"""

from random import Random
from typing import Final

import msgspec

from resprout.scenario.draw import draw_scenario
from resprout.scenario.model import (
    ClientSpec,
    FaultKind,
    FaultSpec,
    RandomOptions,
    Scenario,
    SubscriptionSpec,
    random_for,
)
from resprout.sim.classes.machines import black_out, with_disks
from resprout.sim.mishaps import GrowingTrial, with_blows
from resprout.sim.run import Trial, formed_us

MAX_DELIVER: Final = (0, 1, 2, 3, 3, 5)
ACK_WAIT_US: Final = (0, 0, 300_000, 2_000_000, 10_000_000)
SHORT_US: Final = 2_000_000
"""A consumer with less time for a message reads fast: otherwise all it does is too late."""
READING_US: Final = (0, 500, 5_000, 20_000)
POISON: Final = (0.0, 0.1, 0.3)
DELAYS: Final = (0.0, 0.1, 0.4)
DELAY_MAX_US: Final = (50_000, 2_000_000, 10_000_000)
TTL_MAX_US: Final = (20_000, 1_000_000, 10_000_000)
IDS: Final = (0.0, 0.0, 0.3, 1.0)
FOLLOW_UPS: Final = (0.0, 0.0, 0.3, 1.0)
FLAKY: Final = (0.0, 0.0, 0.2)
LOG_BYTES: Final = (1 << 14, 64 << 20, 64 << 20)
TIME_LIMIT_US: Final = 3_600_000_000


def queues(seed: int) -> Trial:
    rng = random_for(seed, "queues")
    if rng.random() < 0.15:
        stage = GrowingTrial(seed, rng, lambda drawn: with_disks(_with_queues(drawn, rng), rng))
        stage.later(*_absences(stage.scenario, rng, stage.formed_us))
        black_out(stage, rng)
        return stage.trial
    scenario = _with_queues(draw_scenario(seed), rng)
    begin_us = formed_us(scenario)
    scenario = msgspec.structs.replace(scenario, faults=_absences(scenario, rng, begin_us))
    if len(scenario.brokers) > 1 and rng.random() < 0.7:
        return with_blows(rng, scenario, begin_us)
    work = tuple(msgspec.structs.replace(work, start_us=begin_us + work.start_us // 4) for work in scenario.workloads)
    return Trial(msgspec.structs.replace(scenario, workloads=work))


def _with_queues(drawn: Scenario, rng: Random) -> Scenario:
    topics = list(dict.fromkeys(topic for work in drawn.workloads for topic in work.topics))
    found = [
        client for number in range(rng.choice((1, 1, 2))) for client in _queue(number, drawn, rng.choice(topics), rng)
    ]
    found = _with_follow_ups(found, drawn, random_for(drawn.seed, "follow-ups"))
    reader = ClientSpec("undertaker", rng.choice(drawn.brokers).name, subscriptions=(SubscriptionSpec("dead/#"),))
    options = {**drawn.options, "log_bytes": rng.choice(LOG_BYTES)}
    drawn = _with_times(drawn, random_for(drawn.seed, "times of messages"))
    drawn = _with_ids(drawn, random_for(drawn.seed, "ids of messages"))
    return msgspec.structs.replace(
        drawn, clients=(*drawn.clients, *found, reader), options=options, time_limit_us=TIME_LIMIT_US
    )


def _with_times(drawn: Scenario, rng: Random) -> Scenario:
    """Let some messages be delayed, and some expire."""
    works = []
    for work in drawn.workloads:
        if isinstance(work.options, RandomOptions) and rng.random() < 0.7:
            options = msgspec.structs.replace(
                work.options, delays=rng.choice(DELAYS), delay_max_us=rng.choice(DELAY_MAX_US),
                expiries=rng.choice(DELAYS), ttl_max_us=rng.choice(TTL_MAX_US), priorities=rng.random() < 0.4,
            )  # fmt: skip
            work = msgspec.structs.replace(work, options=options)
        works.append(work)
    return msgspec.structs.replace(drawn, workloads=tuple(works))


def _with_ids(drawn: Scenario, rng: Random) -> Scenario:
    """Let messages have ids in half of the trials, of which many repeat each other."""
    share = rng.choice(IDS)
    works = [
        msgspec.structs.replace(work, options=msgspec.structs.replace(work.options, ids=share))
        if share and isinstance(work.options, RandomOptions)
        else work
        for work in drawn.workloads
    ]
    return msgspec.structs.replace(drawn, workloads=tuple(works))


def _with_follow_ups(consumers: list[ClientSpec], drawn: Scenario, rng: Random) -> list[ClientSpec]:
    """Let consumers publish follow-ups in half of the trials, which somebody reads and a group processes."""
    share = rng.choice(FOLLOW_UPS)
    if not share:
        return consumers
    found: list[ClientSpec] = []
    for each in consumers:
        (wanted,) = each.subscriptions
        if wanted.durable is not None and not wanted.durable.endswith(".dead"):
            wanted = msgspec.structs.replace(wanted, follow_ups=share)
        found.append(msgspec.structs.replace(each, subscriptions=(wanted,)))
    after = SubscriptionSpec("after/#", None, "after", True)
    count = rng.randint(1, 2)
    found += [ClientSpec(f"a{n}", rng.choice(drawn.brokers).name, subscriptions=(after,)) for n in range(count)]
    reader = ClientSpec("follower", rng.choice(drawn.brokers).name, subscriptions=(SubscriptionSpec("after/#"),))
    return [*found, reader]


def _queue(number: int, drawn: Scenario, topic: str, rng: Random) -> list[ClientSpec]:
    group, max_deliver = rng.random() < 0.75, rng.choice(MAX_DELIVER)
    ack_wait_us = rng.choice(ACK_WAIT_US) if max_deliver else rng.choice(ACK_WAIT_US[2:])
    wanted = SubscriptionSpec(
        topic,
        None,
        f"s{number}",
        group,
        "spill" if rng.random() < 0.3 else "block",
        max_deliver=max_deliver,
        ack_wait_us=ack_wait_us,
        poison=rng.choice(POISON) if max_deliver else 0.0,
        flaky=rng.choice(FLAKY),
    )
    dead = SubscriptionSpec(f"dead/s{number}", None, f"s{number}.dead", True, wanted.when_full)
    readings = READING_US[:2] if 0 < ack_wait_us <= SHORT_US else READING_US
    clients = []
    for which in range(rng.randint(1, 4) if group else 1):
        broker, reading_us = rng.choice(drawn.brokers).name, rng.choice(readings)
        clients.append(ClientSpec(f"d{number}-{which}", broker, subscriptions=(wanted,), reading_us=reading_us))
    return [*clients, ClientSpec(f"u{number}", rng.choice(drawn.brokers).name, subscriptions=(dead,))]


def _absences(scenario: Scenario, rng: Random, from_us: int) -> tuple[FaultSpec, ...]:
    """Consumers freeze or crash, and return."""
    faults: list[FaultSpec] = []
    for client in scenario.clients:
        if client.consumes is None or rng.random() < 0.4:
            continue
        at_us = from_us + rng.randint(0, 3_000_000)
        back_us = at_us + rng.choice((1, rng.randint(1, 3_000_000), rng.randint(1, 20_000_000)))
        kinds = ((FaultKind.FREEZE, FaultKind.UNFREEZE), *((FaultKind.CRASH, FaultKind.RECOVER),) * 2)
        went, came = rng.choice(kinds)
        faults += [FaultSpec(at_us, went, (client.name,)), FaultSpec(back_us, came, (client.name,))]
    return tuple(sorted(faults, key=lambda fault: fault.at_us))
