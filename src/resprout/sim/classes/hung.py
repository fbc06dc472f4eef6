"""Brokers that keep their connections and answer nothing, for less than a lease and for much longer.

Their links go on: they acknowledge and send heartbeats. With some even those are silent (a process that is stopped),
the connections of some break and stand again in the meantime, and some are killed by whoever runs them. Who hangs is
within the fault model, the root more often than others; who hung for long comes back as a new life.
"""

from random import Random
from typing import Final

import msgspec

from resprout.scenario.draw import draw_scenario
from resprout.scenario.model import FaultKind, FaultSpec, Scenario
from resprout.scenario.seeds import random_for
from resprout.sim.fault_model import FaultModel
from resprout.sim.run import FaultAtEvent
from resprout.sim.trial import Rehearsal, Trial, formed_us, rehearse
from resprout.stacks.survival import everything

TIME_LIMIT_US: Final = 900_000_000
OPTIONS: Final = {
    "faults_tolerated": (1, 1, 1, 2, 2),
    "ack_delay_us": (0, 500, 2_000, 50_000),
    "total_degree": (2, 3, 5, 1_000),
}


def hung(seed: int) -> Trial:
    rng = random_for(seed, "hung")
    scenario = draw_scenario(seed, options=OPTIONS)
    standing_us = formed_us(scenario)
    work = [msgspec.structs.replace(work, start_us=standing_us + work.start_us // 4) for work in scenario.workloads]
    scenario = msgspec.structs.replace(scenario, workloads=tuple(work), time_limit_us=TIME_LIMIT_US)
    victims = _victims(rng, scenario)
    rehearsal = rehearse(Trial(scenario))
    faults: list[FaultSpec] = []
    at_events: list[FaultAtEvent] = []
    event = _event(rng, rehearsal, standing_us)
    for number, name in enumerate(victims):
        kind = rng.choice((FaultKind.HANG, FaultKind.HANG, FaultKind.HANG, FaultKind.FREEZE))
        at_us = rehearsal.time_of(event) + (rng.randint(0, 4_000_000) if number and rng.random() < 0.4 else 0)
        begins = FaultSpec(at_us, kind, (name,))
        if at_us == rehearsal.time_of(event):
            at_events.append(FaultAtEvent(event, begins))
        else:
            faults.append(begins)
        faults += _end(rng, begins, _links(scenario, name))
    ordered = tuple(sorted(faults, key=lambda fault: fault.at_us))
    return Trial(msgspec.structs.replace(scenario, faults=ordered), tuple(at_events))


def _victims(rng: Random, scenario: Scenario) -> list[str]:
    """Whom the tree must bear to lose. A root without a majority beside it cannot be replaced; its only child can."""
    model = FaultModel(scenario.brokers, everything(int(scenario.options["faults_tolerated"])))
    if len(model.names) == 2:
        return [name for name in model.names if name != model.root]
    return model.draw_victims(rng)


def _event(rng: Random, rehearsal: Rehearsal, from_us: int) -> int:
    first = rehearsal.event_from(from_us)
    return rng.randint(first, max(first, rehearsal.event_from(rehearsal.busy_until_us + 1)))


def _links(scenario: Scenario, name: str) -> list[tuple[str, str]]:
    own = next(broker for broker in scenario.brokers if broker.name == name)
    below = [(name, broker.name) for broker in scenario.brokers if broker.parent == name]
    return below if own.parent is None else [(name, own.parent), *below]


def _end(rng: Random, begins: FaultSpec, links: list[tuple[str, str]]) -> list[FaultSpec]:
    """It goes on by itself, or is killed and started again; perhaps its connections break before that."""
    name = begins.nodes[0]
    lasts_us = rng.choice(
        (rng.randint(1, 2_000_000), rng.randint(2_000_000, 7_000_000), rng.randint(8_000_000, 30_000_000))
    )
    end_us = begins.at_us + lasts_us
    faults: list[FaultSpec] = []
    if begins.kind is FaultKind.HANG and links and rng.random() < 0.3:
        pair = (rng.choice(links),)
        for cut_us in range(begins.at_us + rng.randint(1, 1_000_000), end_us, rng.randint(600_000, 2_500_000)):
            back_us = min(cut_us + rng.randint(1, 400_000), end_us)
            faults += [FaultSpec(cut_us, FaultKind.CUT, links=pair), FaultSpec(back_us, FaultKind.HEAL, links=pair)]
    if rng.random() < 0.2:
        back_us = end_us + rng.choice((1, rng.randint(1, 5_000_000)))
        faults.append(FaultSpec(end_us, FaultKind.CRASH, (name,)))
        faults.append(FaultSpec(back_us, FaultKind.RECOVER, (name,), disk=rng.random() < 0.5))
    else:
        over = FaultKind.UNHANG if begins.kind is FaultKind.HANG else FaultKind.UNFREEZE
        faults.append(FaultSpec(end_us, over, (name,)))
    return faults
