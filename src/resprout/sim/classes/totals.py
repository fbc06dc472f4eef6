"""Totals in every mix, on one or two hot keys, while those fall who order them and those who put the tree together.

Most of what is published has to be carried as a total here. In half of the trials the root falls, or an inner broker
whose children then have another way to the root, and with f = 2 the broker that would lead the repair falls with it or
in the middle of it; some only freeze, some come back. In the other half anybody falls (`sim.mishaps`). Clients crash
and return, too, so that newer lives meet what older ones have under way.
"""

from random import Random
from typing import Final

import msgspec

from resprout.scenario.draw import STACK_OPTIONS, draw_scenario
from resprout.scenario.model import FaultKind, FaultSpec, Mix, Scenario, WorkloadSpec, random_for
from resprout.sim.mishaps import TIME_LIMIT_US, with_blows
from resprout.sim.run import FaultAtEvent
from resprout.sim.trial import FaultModel, Trial, formed_us, rehearse
from resprout.stacks.survival import everything

BROKERS_MIN: Final = 3
"""Fewer have no inner broker, and no majority without one of them."""

_OPTIONS: Final = {**STACK_OPTIONS, "faults_tolerated": (1, 1, 2)}


def totals(seed: int) -> Trial:
    rng = random_for(seed, "totals")
    scenario = draw_scenario(rng.getrandbits(40), options=_OPTIONS)
    while len(scenario.brokers) < BROKERS_MIN:
        scenario = draw_scenario(rng.getrandbits(40), options=_OPTIONS)
    work = tuple([_heated(rng, work) for work in scenario.workloads])
    scenario = msgspec.structs.replace(scenario, name=f"totals of seed {seed}", seed=seed, workloads=work)
    standing_us = formed_us(scenario)
    if rng.random() < 0.3:
        scenario = _with_faults(scenario, _client_returns(rng, scenario, standing_us))
    if rng.random() < 0.5:
        return with_blows(rng, scenario, standing_us)
    return _leaders_fall(rng, scenario, standing_us)


def _heated(rng: Random, work: WorkloadSpec) -> WorkloadSpec:
    total = rng.choice((0.1, 0.3, 0.5, 0.8))
    eventual = rng.choice((0.0, 0.1))
    fifo = rng.choice((0.0, round((1.0 - total - eventual) / 2, 2)))
    mix = Mix(eventual=eventual, fifo=fifo, causal=round(1.0 - total - eventual - fifo, 2), total=total)
    keys = rng.choice((1, 1, 1, 2, 2, 10))
    return msgspec.structs.replace(work, mix=mix, keys=keys)


def _client_returns(rng: Random, scenario: Scenario, standing_us: int) -> list[FaultSpec]:
    name = rng.choice(scenario.clients).name
    at_us = standing_us + rng.randint(0, 2_000_000)
    crash = FaultSpec(at_us, FaultKind.CRASH, (name,), host=rng.random() < 0.3)
    back_us = at_us + rng.choice((1, rng.randint(1, 300_000), rng.randint(1, 5_000_000)))
    return [crash, FaultSpec(back_us, FaultKind.RECOVER, (name,))]


def _leaders_fall(rng: Random, scenario: Scenario, standing_us: int) -> Trial:
    work = tuple([msgspec.structs.replace(work, start_us=standing_us) for work in scenario.workloads])
    scenario = msgspec.structs.replace(scenario, workloads=work, time_limit_us=TIME_LIMIT_US)
    model = FaultModel(scenario.brokers, everything(int(scenario.options["faults_tolerated"])))
    victims = _draw_leaders(rng, model)
    rehearsal = rehearse(Trial(scenario))
    first = rehearsal.event_from(standing_us)
    last = max(first, rehearsal.event_from(rehearsal.busy_until_us + 1))
    event = rng.randint(first, last)
    at_us = rehearsal.time_of(event)
    strikes: list[FaultAtEvent] = []
    later: list[FaultSpec] = []
    for number, name in enumerate(victims):
        is_home = name in _homes(scenario)
        if number and is_home:  # it has to come back after its crash, so that must have a time
            at_us += rng.randint(1, 400_000)
            later.append(FaultSpec(at_us, FaultKind.CRASH, (name,)))
            later.append(_return(rng, at_us, name))
            continue
        if number:
            event += rng.choice((0, rng.randint(1, 60), rng.randint(1, 600), rng.randint(1, 3_000)))
        is_frozen = number == 0 and rng.random() < 0.2
        host = not is_frozen and rng.random() < 0.35
        fault = FaultSpec(at_us, FaultKind.FREEZE if is_frozen else FaultKind.CRASH, (name,), host=host)
        strikes.append(FaultAtEvent(event, fault))
        if is_frozen:
            later.append(FaultSpec(at_us + rng.randint(1_000_000, 15_000_000), FaultKind.UNFREEZE, (name,)))
        elif is_home or (number == 0 and rng.random() < 0.5):
            later.append(_return(rng, at_us, name))
    return Trial(_with_faults(scenario, later), tuple(strikes))


def _return(rng: Random, at_us: int, name: str) -> FaultSpec:
    back_us = at_us + rng.choice((1, rng.randint(1, 500_000), rng.randint(1, 15_000_000)))
    return FaultSpec(back_us, FaultKind.RECOVER, (name,), disk=rng.random() < 0.5)


def _draw_leaders(rng: Random, model: FaultModel) -> list[str]:
    """The root or another broker with children, and perhaps who would lead its repair."""
    inner = [name for name in model.names if name in model.parents.values()]
    victims = [model.root if rng.random() < 0.6 else rng.choice(inner)]
    if not model.bears(victims):
        return []
    parent = model.parents[victims[0]]
    leaders = [parent] if parent is not None else model.neighbours(victims[0])
    leader = rng.choice(leaders)
    if rng.random() < 0.7 and model.bears([*victims, leader]):
        victims.append(leader)
    return victims


def _homes(scenario: Scenario) -> set[str]:
    """Brokers of clients that begin a new life: those know no other one."""
    back = {name for fault in scenario.faults if fault.kind is FaultKind.RECOVER for name in fault.nodes}
    return {client.broker for client in scenario.clients if client.name in back}


def _with_faults(scenario: Scenario, faults: list[FaultSpec]) -> Scenario:
    in_order = sorted((*scenario.faults, *faults), key=lambda fault: fault.at_us)
    return msgspec.structs.replace(scenario, faults=tuple(in_order))
