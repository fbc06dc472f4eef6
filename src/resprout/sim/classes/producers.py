"""`producers`: idempotent producers (`connect(life=...)`) crash, connect again with the same life and publish it all.

They come back at once or after half a minute, to any broker, and group their publications differently. Meanwhile
brokers crash, freeze, leave or are cut off, or all are killed at once and go on from their journals. Besides what the
judge finds, this is wrong: the last process of a producer is not told that each of its publications is safe.
"""

from random import Random
from typing import Final

import msgspec

from resprout.scenario.draw import draw_scenario
from resprout.scenario.model import ClientSpec, FaultKind, FaultSpec, RandomOptions, Scenario, WorkloadSpec, random_for
from resprout.sim.blows import with_blows
from resprout.sim.classes.drawing import GrowingTrial
from resprout.sim.classes.restarts import black_out, with_disks
from resprout.sim.run import RunResult
from resprout.sim.trial import Trial, formed_us
from resprout.trace import kinds

PRODUCERS_MAX: Final = 3
CRASHES_MAX: Final = 3
OPERATIONS: Final = (5, 60)
INTERVALS_US: Final = (200, 2_000, 20_000, 100_000)
BURSTS: Final = (1, 1, 3, 8)


class ProducersTrial(Trial, frozen=True):
    def complaints(self, result: RunResult) -> list[str]:
        """Publications that the last process of their producer was not told to be safe."""
        complaints = []
        for client in self.scenario.clients:
            if client.repeats and (missing := unconfirmed(client.name, result)):
                numbers = ", ".join(f"{stream} {seq}" for stream, seq in missing[:10])
                complaints.append(f"UNCONFIRMED: {client.name} repeated its publications and was not told: {numbers}")
        return complaints


def producers(seed: int) -> Trial:
    rng = random_for(seed, "producers")
    if rng.random() < 0.2:
        stage = GrowingTrial(seed, rng, lambda drawn: with_disks(_with_producers(drawn, rng), rng))
        stage.later(*_crashes(stage.scenario, rng, stage.formed_us))
        black_out(stage, rng)
        return ProducersTrial(stage.trial.scenario, stage.trial.at_events)
    scenario = _with_producers(draw_scenario(seed), rng)
    begin_us = formed_us(scenario)
    scenario = msgspec.structs.replace(scenario, faults=tuple(_crashes(scenario, rng, begin_us)))
    if len(scenario.brokers) > 1 and rng.random() < 0.7:
        struck = with_blows(rng, scenario, begin_us)
        return ProducersTrial(struck.scenario, struck.at_events)
    work = tuple(msgspec.structs.replace(work, start_us=begin_us + work.start_us // 4) for work in scenario.workloads)
    return ProducersTrial(msgspec.structs.replace(scenario, workloads=work))


def _with_producers(drawn: Scenario, rng: Random) -> Scenario:
    topics = tuple(dict.fromkeys(topic for work in drawn.workloads for topic in work.topics))
    added = [
        ClientSpec(f"p{number}", rng.choice(drawn.brokers).name, repeats=True)
        for number in range(rng.randint(1, PRODUCERS_MAX))
    ]
    work = WorkloadSpec(
        kind="random",
        clients=tuple(client.name for client in added),
        topics=topics,
        keys=rng.choice((0, 2, 10)),
        operations=rng.randint(*OPERATIONS),
        mix=rng.choice(drawn.workloads).mix,
        interval_us=rng.choice(INTERVALS_US),
        window=rng.choice((0, 0, 1, 20)),
        options=RandomOptions(burst=rng.choice(BURSTS)),
    )
    return msgspec.structs.replace(drawn, clients=(*drawn.clients, *added), workloads=(*drawn.workloads, work))


def _crashes(scenario: Scenario, rng: Random, from_us: int) -> list[FaultSpec]:
    """Return crashes of the processes of producers; each is followed by another process."""
    work = scenario.workloads[-1]
    busy_us = work.operations * work.interval_us
    faults: list[FaultSpec] = []
    for name in work.clients:
        back_us = from_us
        for _ in range(rng.randint(1, CRASHES_MAX)):
            at_us = back_us + rng.choice((rng.randint(1, 20_000), rng.randint(1, busy_us), rng.randint(1, 2 * busy_us)))
            back_us = at_us + rng.choice((1, rng.randint(1, 300_000), rng.randint(1, 3_000_000), 35_000_000))
            faults.append(FaultSpec(at_us, FaultKind.CRASH, (name,)))
            faults.append(FaultSpec(back_us, FaultKind.RECOVER, (name,)))
    return sorted(faults, key=lambda fault: fault.at_us)


def unconfirmed(name: str, result: RunResult) -> list[tuple[str, int]]:
    """Return the publications of this producer that its last process was not told to be safe, or refused."""
    waiting: dict[tuple[str, int], None] = {}
    published: dict[tuple[str, int], None] = {}
    for row in result.rows:
        if row.node != name:
            continue
        message = (row.stream or "", row.seq or 0)
        if row.kind == kinds.PUBLISH:
            published[message] = waiting[message] = None
        elif row.kind == kinds.UNFREEZE:
            waiting = dict(published)
        elif row.kind == kinds.REFUSED:
            published.pop(message, None)
            waiting.pop(message, None)
        elif row.kind == kinds.RECEIPT and row.receipt in ("safe", "delivered"):
            waiting.pop(message, None)
    return list(waiting)
