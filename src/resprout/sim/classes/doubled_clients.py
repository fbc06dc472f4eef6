"""Two programs connect under one name, at one broker or far apart, and everything else may go wrong as well.

The later one stays. The earlier one is told, wherever it is, and until then everything that is promised holds for it.
"""

from random import Random

import msgspec

from resprout.scenario.draw import draw_scenario
from resprout.scenario.model import ClientSpec, FaultKind, FaultSpec, Scenario
from resprout.scenario.seeds import random_for
from resprout.sim.blows import with_blows
from resprout.sim.run import RunResult
from resprout.sim.trial import Trial, formed_us
from resprout.trace import kinds

LATE_US_MAX = 2_000_000
DOUBLED_MAX = 3


class DoubledTrial(Trial, frozen=True):
    def complaints(self, result: RunResult) -> list[str]:
        """Names that belong to two sessions in the end, or to none."""
        left = {row.node for row in result.rows if row.kind == kinds.LEAVE}
        return [
            f"DOUBLED: {client.name} and {client.called} share a name, and these were told: {' '.join(sorted(left))}"
            for client in self.scenario.clients
            if client.called is not None and (client.called not in left or client.name in left)
        ]


def doubled_clients(seed: int) -> Trial:
    rng = random_for(seed, "doubled-clients")
    scenario = draw_scenario(seed)
    begin_us = formed_us(scenario)
    scenario = _doubled(rng, scenario, begin_us)
    if rng.random() < 0.4 and len(scenario.brokers) > 1:
        struck = with_blows(rng, scenario, begin_us)
        return DoubledTrial(struck.scenario, struck.at_events)
    work = tuple(msgspec.structs.replace(work, start_us=begin_us + work.start_us // 4) for work in scenario.workloads)
    return DoubledTrial(msgspec.structs.replace(scenario, workloads=work))


def _doubled(rng: Random, scenario: Scenario, begin_us: int) -> Scenario:
    """Some clients have doubles, which do the same work. They begin together, or one of them later."""
    owners = rng.sample(scenario.clients, rng.randint(1, min(DOUBLED_MAX, len(scenario.clients))))
    doubles = tuple([_double(rng, scenario, owner) for owner in owners])
    faults = list(scenario.faults)
    for double in doubles:
        late = rng.choice((None, double.name, double.name, double.called))
        if late is not None:
            at_us = begin_us + rng.randint(0, LATE_US_MAX)
            faults += [FaultSpec(1, FaultKind.CRASH, (late,)), FaultSpec(at_us, FaultKind.RECOVER, (late,))]
    name_of = {double.called: double.name for double in doubles}
    work = [
        msgspec.structs.replace(work, clients=(*work.clients, *[name_of[n] for n in work.clients if n in name_of]))
        for work in scenario.workloads
    ]
    return msgspec.structs.replace(
        scenario,
        clients=(*scenario.clients, *doubles),
        workloads=tuple(work),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_us)),
    )


def _double(rng: Random, scenario: Scenario, owner: ClientSpec) -> ClientSpec:
    broker = rng.choice((owner.broker, *[broker.name for broker in scenario.brokers]))
    return msgspec.structs.replace(owner, name=f"{owner.name}x", broker=broker, called=owner.name)
