"""`blackout`: all brokers are killed at once, and started again with their disks.

They keep their logs (`durable = "journal"`), and some disks are slow, so that writes are torn. They
come back in any order, within seconds, and go on as the same network; sometimes an operator tells one of them, the root
or any other, to begin it anew. It may happen twice. All disks come
back: what holds when one is lost is that clients are told, and a swarm takes a loss for a failure, told or not.
"""

from random import Random
from typing import Final

import msgspec

from resprout.scenario.model import FaultKind, FaultSpec, Scenario
from resprout.scenario.seeds import random_for
from resprout.sim.classes.striking import GrowingTrial
from resprout.sim.trial import Trial

ROUNDS_MAX: Final = 2
DISK_LATENCIES_US: Final = (0, 0, 300, 5_000, 30_000)


def with_disks(drawn: Scenario, rng: Random) -> Scenario:
    brokers = [msgspec.structs.replace(each, disk_latency_us=rng.choice(DISK_LATENCIES_US)) for each in drawn.brokers]
    return msgspec.structs.replace(drawn, brokers=tuple(brokers), options={**drawn.options, "durable": "journal"})


def blackout(seed: int) -> Trial:
    rng = random_for(seed, "blackout")
    stage = GrowingTrial(seed, rng, lambda drawn: with_disks(drawn, rng))
    black_out(stage, rng)
    return stage.trial


def black_out(stage: GrowingTrial, rng: Random) -> None:
    """Once or twice."""
    names = stage.model.names
    for _, event, at_us in stage.rounds(ROUNDS_MAX):
        stage.strike(event, FaultSpec(at_us, FaultKind.CRASH, tuple(names)))
        founder = stage.model.root if rng.random() < 0.6 else rng.choice(names)
        back_us = at_us + rng.choice((1_000, rng.randint(1, 500_000), rng.randint(1, 4_000_000)))
        stage.later(FaultSpec(back_us, FaultKind.RECOVER, (founder,), found=rng.random() < 0.3))
        others = [name for name in names if name != founder]
        rng.shuffle(others)
        for name in others:
            late_us = rng.choice((1, rng.randint(1, 300_000), rng.randint(1, 5_000_000)))
            stage.later(FaultSpec(back_us + late_us, FaultKind.RECOVER, (name,)))
