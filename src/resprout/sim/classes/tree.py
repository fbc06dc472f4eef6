"""Faults of the brokers that hold the tree together: parents of newcomers, coordinators of repairs, and the root.

`newcomers`: brokers take few neighbours, so the tree that is asked for is mostly one that cannot be had: a star of a
dozen where a broker has two neighbours. Others join while those of the start still look, clients are at work from the
first moment, and in some trials a broker crashes in the middle of it. Every broker must have a place soon, and the tree
must come to rest.

`cut-repairs`: a broker dies, and the coordinator of its repair cannot reach one or two of its members, for a moment or
for longer than any lease. The cut begins before the crash, during the repair or after it, and always heals.

`moves`: a broker with children crashes, and the broker above it has too many neighbours then, most often without a leaf
among them. Its branches give up leaves until every broker is within its limit, while clients are at work. A planned
move counts as one of the f brokers that may be down, so a second broker crashes in the middle of it where f is 2.

`totals`: totals in every mix, on one or two hot keys, so that most publications have to be carried as totals. In half
of the trials the root falls, or an inner broker whose children then have another way to the root, and with f = 2 the
broker that would lead the repair falls with it or in the middle of it; some only freeze, some come back. In the other
half any broker falls (`sim.mishaps`). Clients crash and return, too, so that newer lives meet what older ones have
under way.

`scoped-totals`: the same, where topics become root-ordered (`root_ordered_after`) and mostly few clients subscribe, and
also with everything else that `sim.mishaps` draws: brokers that join, cuts, partitions, clients that leave.
"""

from random import Random
from typing import Final

import msgspec

from resprout.filters.predicate import topic_matches
from resprout.scenario.draw import STACK_OPTIONS, draw_scenario
from resprout.scenario.model import (
    BrokerSpec,
    ClientSpec,
    FaultKind,
    FaultSpec,
    Mix,
    Scenario,
    SubscriptionSpec,
    WorkloadSpec,
    random_for,
)
from resprout.scenario.topologies import SHAPES, parents_in
from resprout.sim.mishaps import TIME_LIMIT_US, with_blows, with_mishaps
from resprout.sim.run import FaultAtEvent, FaultModel, Trial, formed_us, rehearse
from resprout.stacks.stack import everything

JOINING_LIMIT_US: Final = 180_000_000
"""Ample for the slowest workload that is drawn, where links are short; long links add to it (`LINE_WAYS`). A broker
that has no place by then never finds one."""
LINE_WAYS: Final = 4
"""For each broker, the limit allows so many ways through a line of all brokers on the longest links. Brokers with two
neighbours each form a line: they join one after another, and each name is looked for in the whole line. A broker that
has given up its parent walks down the line from the root, with five round trips to each broker on its way."""
JOIN_US_MAX: Final = 6_000_000
LATENCIES_US: Final = ((1_000, 3_000), (1_000, 3_000), (0, 0), (100, 30_000), (20_000, 120_000))

OPTIONS: Final = {
    "faults_tolerated": (1, 1, 1, 2),
    "ack_delay_us": (0, 2_000, 50_000),
}
REPAIR_LIMIT_US: Final = 1_800_000_000
LASTS_US_MAX: Final = 60_000_000
"""Longer than `ghost_us`. A broker that was declared dead behind such a cut hears of it from others in time, so that
its clients go elsewhere before they count as gone."""
DRAWS_MAX: Final = 64
"""Scenarios that are drawn until one has a broker with enough neighbours."""

MOVES_BROKERS_MAX: Final = 18
MOVES_LIMIT_US: Final = 1_800_000_000
MOVES_OPTIONS: Final = {
    "faults_tolerated": (1, 1, 2),
    "ack_delay_us": (0, 2_000, 50_000),
}

BROKERS_MIN: Final = 3
"""Fewer have no inner broker, and no majority without one of them."""

_OPTIONS: Final = {**STACK_OPTIONS, "faults_tolerated": (1, 1, 2)}
_SCOPED_OPTIONS: Final = {**STACK_OPTIONS, "faults_tolerated": (0, 1, 1, 1, 1), "root_ordered_after": (1, 1, 1, 2, 6)}
FEW_READERS: Final = 0.7
"""How many of the trials with root-ordered topics have one to three clients with subscriptions."""


def newcomers(seed: int) -> Trial:
    rng = random_for(seed, "newcomers")
    scenario = draw_scenario(seed, brokers_max=1, operations_max=20)
    least_us, most_us = rng.choice(LATENCIES_US)
    count = rng.choice((rng.randint(3, 8), 11, rng.randint(9, 24)))
    parents = parents_in(rng.choice(("star", "star", *SHAPES)), count, rng.randint(2, 5), rng)
    brokers = [
        BrokerSpec(f"b{i}", None if parent is None else f"b{parent}", rng.randint(least_us, most_us))
        for i, parent in enumerate(parents)
    ]
    joins = [_join(rng, i, brokers, rng.randint(least_us, most_us)) for i in range(rng.choice((0, 0, 1, 3, 6)))]
    names = [broker.name for broker in brokers] + [join.nodes[0] for join in joins]
    degree = rng.choice((2, 2, 3, 3, rng.randint(2, 5)))
    scenario = msgspec.structs.replace(
        scenario,
        name=f"newcomers drawn from seed {seed}",
        time_limit_us=JOINING_LIMIT_US + LINE_WAYS * len(names) ** 2 * most_us,
        options={**scenario.options, "total_degree": degree},
        brokers=tuple(brokers),
        clients=tuple([_at(client, rng.choice(names)) for client in scenario.clients]),
    )
    faults = [*joins, *(_crash(rng, scenario) if rng.random() < 0.25 else [])]
    return Trial(msgspec.structs.replace(scenario, faults=tuple(sorted(faults, key=lambda fault: fault.at_us))))


def _join(rng: Random, number: int, brokers: list[BrokerSpec], latency_us: int) -> FaultSpec:
    at_us = rng.choice((rng.randint(0, 300_000), rng.randint(0, JOIN_US_MAX)))
    parent = rng.choice((brokers[0].name, rng.choice(brokers).name))
    return FaultSpec(at_us, FaultKind.JOIN, (f"j{number}",), parent=parent, latency_us=latency_us)


def _at(client: ClientSpec, broker: str) -> ClientSpec:
    return msgspec.structs.replace(client, broker=broker)


def _crash(rng: Random, scenario: Scenario) -> list[FaultSpec]:
    """One process, which comes back: its clients may know no other broker yet. Not the founder, before anybody else
    could go on without it."""
    if not scenario.options["faults_tolerated"]:
        return []
    name = rng.choice(scenario.brokers[1:]).name
    at_us = rng.choice((rng.randint(0, 500_000), rng.randint(0, JOIN_US_MAX)))
    back_us = at_us + rng.choice((1, rng.randint(1, 500_000), rng.randint(1, 10_000_000)))
    return [
        FaultSpec(at_us, FaultKind.CRASH, (name,)),
        FaultSpec(back_us, FaultKind.RECOVER, (name,), disk=rng.random() < 0.5),
    ]


def cut_repairs(seed: int) -> Trial:
    rng = random_for(seed, "cut-repairs")
    for attempt in range(DRAWS_MAX):
        scenario = draw_scenario(random_for(seed, "cut-repairs", attempt).getrandbits(32), options=OPTIONS)
        stars = _stars(scenario)
        if stars:
            break
    name = f"cut repairs drawn from seed {seed}"
    scenario = msgspec.structs.replace(scenario, name=name, time_limit_us=REPAIR_LIMIT_US)
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


def moves(seed: int) -> Trial:
    rng = random_for(seed, "moves")
    degree, count = rng.choice((3, 3, 3, 4)), rng.randint(8, MOVES_BROKERS_MAX)
    lease_us = rng.choice((1_000_000, 3_000_000))
    scenario = draw_scenario(rng.getrandbits(40), options=MOVES_OPTIONS, brokers_max=1)
    options = {"total_degree": degree, "lease_us": lease_us, "heartbeat_us": lease_us // 6}
    least_us, most_us = rng.choice(LATENCIES_US)
    parents = parents_in(rng.choice(("random", "random", "tree")), count, degree, rng)
    brokers = [
        BrokerSpec(f"b{i}", None if parent is None else f"b{parent}", rng.randint(least_us, most_us))
        for i, parent in enumerate(parents)
    ]
    scenario = msgspec.structs.replace(
        scenario,
        name=f"moves drawn from seed {seed}",
        seed=seed,
        time_limit_us=MOVES_LIMIT_US,
        options={**scenario.options, **options},
        brokers=tuple(brokers),
        clients=tuple([_at(client, rng.choice(brokers).name) for client in scenario.clients]),
    )
    standing_us = formed_us(scenario)
    interval_us = rng.choice((50_000, 300_000))
    work = [
        msgspec.structs.replace(work, start_us=standing_us + work.start_us // 4, interval_us=interval_us)
        for work in scenario.workloads
    ]
    scenario = msgspec.structs.replace(scenario, workloads=tuple(work))
    return Trial(_with_faults(scenario, _crowd(rng, scenario, standing_us + rng.randint(0, 3_000_000))))


def _crowd(rng: Random, scenario: Scenario, at_us: int) -> list[FaultSpec]:
    """The crash of a broker whose neighbours are too many for the broker above it, if there is one; with f = 2 another
    crash while brokers move. Some come back."""
    model = FaultModel(scenario.brokers, everything(int(scenario.options["faults_tolerated"])))
    degree = int(scenario.options["total_degree"])
    inner = [name for name in model.names if name in model.parents.values() and model.parents[name] is not None]
    crowding = [
        name
        for name in inner
        if len(model.neighbours(name)) + len(model.neighbours(str(model.parents[name]))) - 2 > degree
    ]
    victims = [rng.choice(crowding or inner or list(model.names[1:]))]
    if model.faults > 1:
        victims += [
            name for name in rng.sample(model.names, 1) if model.bears([*victims, name]) and name not in victims
        ]
    faults = []
    for number, name in enumerate(victims):
        at_us += number * rng.choice((rng.randint(0, 5_000_000), rng.randint(0, 30_000_000)))
        faults.append(FaultSpec(at_us, FaultKind.CRASH, (name,), host=rng.random() < 0.2))
        if rng.random() < 0.3:
            faults.append(FaultSpec(at_us + rng.randint(1, 40_000_000), FaultKind.RECOVER, (name,), disk=True))
    return faults


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


def scoped_totals(seed: int) -> Trial:
    rng = random_for(seed, "scoped-totals")
    scenario = draw_scenario(rng.getrandbits(40), options=_SCOPED_OPTIONS)
    while len(scenario.brokers) < BROKERS_MIN:
        scenario = draw_scenario(rng.getrandbits(40), options=_SCOPED_OPTIONS)
    work = tuple([_heated(rng, work) for work in scenario.workloads])
    scenario = msgspec.structs.replace(scenario, name=f"scoped totals of seed {seed}", seed=seed, workloads=work)
    if rng.random() < FEW_READERS:
        scenario = _with_few_readers(rng, scenario)
    kind = rng.random()
    if kind < 0.3 or not scenario.options["faults_tolerated"]:
        return with_mishaps(scenario)
    standing_us = formed_us(scenario)
    if rng.random() < 0.3:
        scenario = _with_faults(scenario, _client_returns(rng, scenario, standing_us))
    return with_blows(rng, scenario, standing_us) if kind < 0.6 else _leaders_fall(rng, scenario, standing_us)


def _with_few_readers(rng: Random, scenario: Scenario) -> Scenario:
    """Let few clients have subscriptions, so that many brokers are on the way to none of them."""
    names = [client.name for client in scenario.clients]
    readers = rng.sample(names, min(len(names), rng.randint(1, 3)))
    wanted = {name: list(client.subscriptions) for name, client in zip(names, scenario.clients, strict=True)}
    for topic in dict.fromkeys(topic for work in scenario.workloads for topic in work.topics):
        if not any(topic_matches(one.filter, topic) for name in readers for one in wanted[name]):
            wanted[rng.choice(readers)].append(SubscriptionSpec(topic))
    clients = [
        msgspec.structs.replace(client, subscriptions=tuple(wanted[client.name]) if client.name in readers else ())
        for client in scenario.clients
    ]
    return msgspec.structs.replace(scenario, clients=tuple(clients))


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
