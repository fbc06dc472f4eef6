"""Names that are taken twice, by brokers or by clients.

`doubled-names`: a second broker starts under a name that is taken, and may ask anywhere in the tree. Nothing else may
go wrong, or the real one freezes for a moment, or for so long that it is replaced, or its process dies, for good or
not; or a broker on the way to it freezes. Sometimes there are two seconds at once.

`doubled-clients`: two programs connect under one name, at one broker or far apart, and everything else may go wrong as
well. The later one stays. The earlier one is told, wherever it is, and until then everything that is promised holds for
it.
"""

from random import Random
from typing import Final

import msgspec

from resprout.scenario.draw import draw_scenario
from resprout.scenario.model import ClientSpec, FaultKind, FaultSpec, Scenario, random_for
from resprout.sim.classes.drawing import GrowingTrial
from resprout.sim.mishaps import with_blows
from resprout.sim.run import RunResult
from resprout.sim.trial import Trial, formed_us
from resprout.trace import kinds

SHORT_US: Final = 1_200_000
"""Well below the time after which a broker may be taken for dead."""
NEAR_US: Final = 500_000
"""Between what happens to the real one and the start of the second."""

LATE_US_MAX = 2_000_000
DOUBLED_MAX = 3


def doubled_names(seed: int) -> Trial:
    rng = random_for(seed, "doubled-names")
    stage = GrowingTrial(seed, rng)
    names = stage.model.names
    if len(names) == 1:
        return stage.trial
    name = rng.choice(names)
    rehearsal = stage.rehearse()
    event = stage.moment(rehearsal, stage.formed_us)
    at_us = rehearsal.time_of(event)
    mishap = rng.choice(("none", "none", "freeze", "freeze", "other", "long", "crash", "crash", "return", "return"))
    if mishap in ("long", "crash", "return") and not stage.model.bears([name]):
        mishap = "freeze"
    begins_us = max(stage.formed_us, at_us + rng.randint(-NEAR_US, NEAR_US))
    lasts_us = rng.randint(5_000_000, 12_000_000) if mishap == "long" else rng.randint(1, SHORT_US)
    victim = rng.choice([other for other in names if other != name]) if mishap == "other" else name
    if mishap in ("freeze", "other", "long"):
        stage.later(
            FaultSpec(begins_us, FaultKind.FREEZE, (victim,)),
            FaultSpec(begins_us + lasts_us, FaultKind.UNFREEZE, (victim,)),
        )
    elif mishap in ("crash", "return"):
        stage.later(FaultSpec(begins_us, FaultKind.CRASH, (name,), host=rng.random() < 0.3))
    if mishap == "return":
        back_us = begins_us + rng.choice((1, rng.randint(1, NEAR_US), rng.randint(1, 12_000_000)))
        stage.later(FaultSpec(back_us, FaultKind.RECOVER, (name,), disk=rng.random() < 0.5))
    for number in range(rng.choice((1, 1, 1, 2))):
        doubled = name if not number or rng.random() < 0.7 else rng.choice(names)
        parent = rng.choice([other for other in names if other != doubled])
        second = FaultSpec(at_us, FaultKind.DOUBLE, (doubled,), parent=parent, latency_us=rng.randint(0, 20_000))
        if number and rng.random() < 0.5:
            stage.later(FaultSpec(at_us + rng.randint(1, NEAR_US), second.kind, second.nodes, parent=parent))
        else:
            stage.strike(event, second)
    return stage.trial


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
