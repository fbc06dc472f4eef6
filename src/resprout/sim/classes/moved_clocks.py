"""Clocks of brokers that leap forward, or stand still while the machine sleeps: for less than a lease and for much
longer. Who sleeps is within the fault model; a leap may befall anybody, one at a time."""

from random import Random
from typing import Final

import msgspec

from resprout.scenario.draw import draw_scenario
from resprout.scenario.model import FaultKind, FaultSpec
from resprout.scenario.seeds import random_for
from resprout.sim.fault_model import FaultModel
from resprout.sim.trial import Trial, formed_us
from resprout.stacks.survival import everything

OPTIONS: Final = {
    "faults_tolerated": (1, 1, 1, 2),
    "ack_delay_us": (0, 2_000, 50_000),
}
TIME_LIMIT_US: Final = 1_800_000_000
APART_US: Final = 60_000_000
"""Between two that are struck one after the other: a repair is complete by then, and who was fenced has its place."""


def moved_clocks(seed: int) -> Trial:
    rng = random_for(seed, "moved-clocks")
    scenario = draw_scenario(seed, options=OPTIONS)
    standing_us = formed_us(scenario)
    work = [msgspec.structs.replace(work, start_us=standing_us + work.start_us // 4) for work in scenario.workloads]
    scenario = msgspec.structs.replace(scenario, workloads=tuple(work), time_limit_us=TIME_LIMIT_US)
    model = FaultModel(scenario.brokers, everything(int(scenario.options["faults_tolerated"])))
    at_us = standing_us + rng.randint(0, 3_000_000)
    faults: list[FaultSpec] = []
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice(scenario.brokers).name
        faults += _moved(rng, name, at_us, may_be_missed=model.bears((name,)))
        at_us += APART_US + rng.randint(0, 3_000_000)
    return Trial(msgspec.structs.replace(scenario, faults=tuple(faults)))


def _moved(rng: Random, name: str, at_us: int, may_be_missed: bool) -> list[FaultSpec]:
    short_us, long_us = rng.randint(1, 1_200_000), rng.choice((rng.randint(2_000_000, 40_000_000), 3_600_000_000))
    if rng.random() < 0.5:
        return [FaultSpec(at_us, FaultKind.LEAP, (name,), by_us=rng.choice((short_us, long_us)))]
    slept_us = rng.choice((short_us, min(long_us, 40_000_000))) if may_be_missed else short_us
    return [FaultSpec(at_us, FaultKind.SUSPEND, (name,)), FaultSpec(at_us + slept_us, FaultKind.RESUME, (name,))]
