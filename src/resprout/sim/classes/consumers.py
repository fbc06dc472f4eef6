"""`consumers`: durable subscriptions and groups whose consumers are slow, die and return; brokers die, or all are
killed at once.

Most of them spill; some have the oldest dropped. Logs are small, and so are disks, so that much comes there, and some
finds no room.
"""

from random import Random
from typing import Final

import msgspec

from resprout.scenario.draw import draw_scenario
from resprout.scenario.model import ClientSpec, FaultKind, FaultSpec, Scenario, SubscriptionSpec, random_for
from resprout.sim.classes.drawing import GrowingTrial
from resprout.sim.classes.restarts import black_out, with_disks
from resprout.sim.mishaps import with_blows
from resprout.sim.trial import Trial, formed_us

LOG_BYTES: Final = (1 << 12, 1 << 12, 1 << 14, 64 << 20)
SPILL_BYTES: Final = (1 << 12, 1 << 15, 1 << 20)
READING_US: Final = (0, 0, 500, 20_000, 60_000)
MOST: Final = (1, 3, 20)
TIME_LIMIT_US: Final = 3600_000_000
"""Three messages fill the smallest logs. Over ten slow links in a row each takes seconds (seed 8100312)."""


def consumers(seed: int) -> Trial:
    rng = random_for(seed, "consumers")
    if rng.random() < 0.2:
        stage = GrowingTrial(seed, rng, lambda drawn: with_disks(_with_consumers(drawn, rng), rng))
        stage.later(*_deaths(stage.scenario, rng, stage.formed_us))
        black_out(stage, rng)
        return stage.trial
    scenario = _with_consumers(draw_scenario(seed), rng)
    begin_us = formed_us(scenario)
    scenario = msgspec.structs.replace(scenario, faults=tuple(_deaths(scenario, rng, begin_us)))
    if len(scenario.brokers) > 1 and rng.random() < 0.75:
        return with_blows(rng, scenario, begin_us)
    work = tuple(msgspec.structs.replace(work, start_us=begin_us + work.start_us // 4) for work in scenario.workloads)
    return Trial(msgspec.structs.replace(scenario, workloads=work))


def _with_consumers(drawn: Scenario, rng: Random) -> Scenario:
    topics = list(dict.fromkeys(topic for work in drawn.workloads for topic in work.topics))
    dropping = random_for(drawn.seed, "consumers that drop")
    found: list[ClientSpec] = []
    for number in range(rng.choice((1, 1, 2))):
        group = rng.random() < 0.4
        filter = rng.choice((*topics, "#", "#"))
        wanted = SubscriptionSpec(filter, None, f"s{number}", group, "spill" if rng.random() < 0.7 else "block")
        if dropping.random() < 0.25:
            wanted = drop_oldest(wanted, dropping)
        for which in range(rng.randint(1, 3) if group else 1):
            broker = rng.choice(drawn.brokers).name
            reading_us = rng.choice(READING_US)
            found.append(
                ClientSpec(f"d{number}-{which}", broker, subscriptions=(wanted,), reading_us=reading_us)
            )  # fmt: skip
    options = {**drawn.options, "log_bytes": rng.choice(LOG_BYTES), "spill_bytes": rng.choice(SPILL_BYTES)}
    return msgspec.structs.replace(
        drawn, clients=(*drawn.clients, *found), options=options, time_limit_us=TIME_LIMIT_US
    )


def drop_oldest(wanted: SubscriptionSpec, rng: Random) -> SubscriptionSpec:
    """Return the subscription with a small number of messages that may wait; the oldest of more are dropped."""
    return msgspec.structs.replace(wanted, when_full="drop_oldest", most=rng.choice(MOST))


def _deaths(scenario: Scenario, rng: Random, from_us: int) -> list[FaultSpec]:
    """Of consumers, all of which return."""
    faults: list[FaultSpec] = []
    for client in scenario.clients:
        if client.consumes is not None and rng.random() < 0.6:
            at_us = from_us + rng.randint(0, 3_000_000)
            back_us = at_us + rng.choice((1, rng.randint(1, 3_000_000), rng.randint(1, 20_000_000)))
            faults.append(FaultSpec(at_us, FaultKind.CRASH, (client.name,)))
            faults.append(FaultSpec(back_us, FaultKind.RECOVER, (client.name,)))
    return sorted(faults, key=lambda fault: fault.at_us)
