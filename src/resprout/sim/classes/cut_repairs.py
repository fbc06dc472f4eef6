"""A broker dies, and the coordinator of its repair cannot reach one or two of its members, for a moment or for longer
than any lease. The cut begins before the crash, during the repair or after it, and always heals."""

from random import Random
from typing import Final

import msgspec

from resprout.scenario.draw import draw_scenario
from resprout.scenario.model import FaultKind, FaultSpec, Scenario, random_for
from resprout.sim.trial import Trial, formed_us

OPTIONS: Final = {
    "faults_tolerated": (1, 1, 1, 2),
    "ack_delay_us": (0, 2_000, 50_000),
}
TIME_LIMIT_US: Final = 1_800_000_000
LASTS_US_MAX: Final = 60_000_000
"""Longer than `ghost_us`. A broker that was declared dead behind such a cut hears of it from others in time, so that
its clients go elsewhere before they count as gone."""
DRAWS_MAX: Final = 64
"""Scenarios that are drawn until one has a broker with enough neighbours."""


def cut_repairs(seed: int) -> Trial:
    rng = random_for(seed, "cut-repairs")
    for attempt in range(DRAWS_MAX):
        scenario = draw_scenario(random_for(seed, "cut-repairs", attempt).getrandbits(32), options=OPTIONS)
        stars = _stars(scenario)
        if stars:
            break
    name = f"cut repairs drawn from seed {seed}"
    scenario = msgspec.structs.replace(scenario, name=name, time_limit_us=TIME_LIMIT_US)
    if not stars:
        return Trial(scenario)
    standing_us = formed_us(scenario)
    work = [msgspec.structs.replace(work, start_us=standing_us + work.start_us // 4) for work in scenario.workloads]
    scenario = msgspec.structs.replace(scenario, workloads=tuple(work))
    faults = _faults(rng, *rng.choice(stars), standing_us + rng.randint(0, 3_000_000))
    return Trial(msgspec.structs.replace(scenario, faults=tuple(sorted(faults, key=lambda fault: fault.at_us))))


def _stars(scenario: Scenario) -> list[tuple[str, str, list[str]]]:
    """Brokers that may die, each with the coordinator of its repair and the other members."""
    stars = []
    for broker in scenario.brokers:
        below = [other.name for other in scenario.brokers if other.parent == broker.name]
        around = below if broker.parent is None else [broker.parent, *below]
        if len(around) > 1 and len(scenario.brokers) > 3:
            stars.append((broker.name, around[0], around[1:]))
    return stars


def _faults(rng: Random, dead: str, leader: str, members: list[str], at_us: int) -> list[FaultSpec]:
    faults = [FaultSpec(at_us, FaultKind.CRASH, (dead,))]
    for member in rng.sample(members, min(len(members), rng.choice((1, 1, 1, 2)))):
        from_us = at_us + rng.choice((rng.randint(-500_000, 0), rng.randint(0, 300_000), rng.randint(0, 3_000_000)))
        lasts_us = rng.choice((rng.randint(1, 3_000_000), rng.randint(3_000_000, LASTS_US_MAX)))
        link = ((leader, member),)
        faults.append(FaultSpec(from_us, FaultKind.CUT, links=link))
        faults.append(FaultSpec(from_us + lasts_us, FaultKind.HEAL, links=link))
    return faults
