"""Machines that stop, restart or misbehave: restarts of brokers, hung processes, moved clocks, full disks.

`restarts`: a supervisor starts brokers again, each as it was started at first, the root among them. It knows nothing of
what has happened meanwhile: a broker knows the parent of its first file, and the brokers that its disk remembers. The
root has no parent in its file. Brokers go one after the other, as in a rolling restart, or some that may be down
together, or all of them; the next ones when the tree stands again. When all were down, none of them is told to found a
network: with their disks they find each other, and go on as the same one. That is drawn with `durable = "journal"`
only, because without it the messages that all of them held are lost.

`rolling`: an operator restarts brokers one after the other, each in good order, while clients go on. Some of them, or
all, the root early or late; the next one goes when the one before has its place again. Sometimes the same ones go
twice.

`blackout`: all brokers are killed at once, and started again with their disks. They keep their logs (`durable =
"journal"`), and some disks are slow, so that writes are torn. They come back in any order, within seconds, and go on as
the same network; sometimes an operator tells one of them, the root or any other, to begin it anew. It may happen twice.
All disks come back: what holds when one is lost is that clients are told, and a swarm takes a loss for a failure, told
or not.

`in-turn`: in a small network brokers crash, or are restarted, one after the other, and each is back before the next one
goes; and some clients are frozen meanwhile. So messages for those must be kept by brokers that were not there when they
were published.

`hung`: brokers keep their connections and answer nothing, for less than a lease and for much longer. Their links go on:
they acknowledge and send heartbeats. With some even those are silent (a process that is stopped), the connections of
some break and stand again in the meantime, and some are killed by an operator. The brokers that hang are within the
fault model, the root more often than others; one that hung for long comes back as a new life.

`moved-clocks`: clocks of brokers leap forward, or stand still while the machine sleeps: for less than a lease and for
much longer. Sleeping brokers are within the fault model; a leap may befall any broker, one at a time.

`disks`: disks of brokers fill up and have room again, and names do not resolve for a while. Brokers keep their logs on
disk. Any number of disks has little room, or none, for less than a lease or for much longer: nothing may be lost, no
broker may be declared dead for it, and everything goes on by itself. Meanwhile brokers within the fault model may be
killed and started again; one on a full disk waits for room. Then disks have room again in time for the clients of those
(`docs/guarantees.md`). The names of those, or of some of those, may not resolve at first.
"""

from random import Random
from typing import Final

import msgspec

from resprout.scenario.draw import draw_scenario
from resprout.scenario.model import FaultKind, FaultSpec, Scenario, random_for
from resprout.sim.mishaps import LONG_EVENTS, GrowingTrial
from resprout.sim.run import FaultAtEvent, FaultModel, Rehearsal, Trial, formed_us, rehearse
from resprout.stacks.stack import everything

ROUNDS_MAX: Final = 4

BLACKOUTS_MAX: Final = 2
DISK_LATENCIES_US: Final = (0, 0, 300, 5_000, 30_000)

BROKERS_MAX: Final = 4
IN_TURN_ROUNDS_MAX: Final = 5
FROZEN_US: Final = 25_000_000
"""Shorter than a broker's clients are waited for when it has died."""

TIME_LIMIT_US: Final = 900_000_000
OPTIONS: Final = {
    "faults_tolerated": (1, 1, 1, 2, 2),
    "ack_delay_us": (0, 500, 2_000, 50_000),
    "total_degree": (2, 3, 5, 1_000),
}

CLOCK_OPTIONS: Final = {
    "faults_tolerated": (1, 1, 1, 2),
    "ack_delay_us": (0, 2_000, 50_000),
}
CLOCK_TIME_LIMIT_US: Final = 1_800_000_000
APART_US: Final = 60_000_000
"""Between two that are struck one after the other: a repair is complete by then, and who was fenced has its place."""

DISK_ROUNDS_MAX: Final = 2
FULL_AFTER_CRASH_US: Final = 20_000_000
"""How long disks may be full after a crash. The brokers beside a crash repair nothing and answer no client while theirs
are; about 30 s after the crash its clients give up what they missed, and are told so."""
LASTS_US: Final = ((1, 2_000_000), (2_000_000, 8_000_000), (8_000_000, 60_000_000))


def restarts(seed: int) -> Trial:
    rng = random_for(seed, "restarts")
    with_journal = rng.random() < 0.4
    stage = GrowingTrial(seed, rng, lambda drawn: with_disks(drawn, rng) if with_journal else drawn)
    model = stage.model
    if len(model.names) == 1:
        return stage.trial
    for number, event, at_us in stage.rounds(ROUNDS_MAX):
        if with_journal and rng.random() < 0.6:
            _restart_all(stage, rng, event, at_us)
            continue
        first = model.root if rng.random() < 0.4 else rng.choice(model.names)
        victims = [first] if number else (model.draw_victims(rng) or [first])
        for name in dict.fromkeys(victims):
            host = rng.random() < 0.3 and model.bears(victims)
            stage.strike(event, FaultSpec(at_us, FaultKind.CRASH, (name,), host=host))
            down_us = rng.choice((1, rng.randint(1, 500_000), rng.randint(1, 10_000_000)))
            disk = name == model.root or rng.random() < 0.7
            stage.later(FaultSpec(at_us + down_us, FaultKind.RECOVER, (name,), disk=disk, first=True))
    return stage.trial


def _restart_all(stage: GrowingTrial, rng: Random, event: int, at_us: int) -> None:
    """At once, each with its disk, in any order."""
    names = list(stage.model.names)
    rng.shuffle(names)
    stage.strike(event, FaultSpec(at_us, FaultKind.CRASH, tuple(names)))
    for name in names:
        down_us = rng.choice((1, rng.randint(1, 500_000), rng.randint(1, 10_000_000)))
        stage.later(FaultSpec(at_us + down_us, FaultKind.RECOVER, (name,), first=True))


def rolling(seed: int) -> Trial:
    rng = random_for(seed, "rolling")
    stage = GrowingTrial(seed, rng)
    names = list(stage.model.names)
    if len(names) == 1:
        return stage.trial
    rehearsal = stage.rehearse()
    event = stage.moment(rehearsal, stage.formed_us)
    if rng.random() < 0.5:
        rng.shuffle(names)
    chosen = names[: rng.choice((1, 2, len(names)))] * rng.choice((1, 1, 2))
    stage.strike(event, FaultSpec(rehearsal.time_of(event), FaultKind.RESTART, tuple(chosen)))
    return stage.trial


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
    for _, event, at_us in stage.rounds(BLACKOUTS_MAX):
        stage.strike(event, FaultSpec(at_us, FaultKind.CRASH, tuple(names)))
        founder = stage.model.root if rng.random() < 0.6 else rng.choice(names)
        back_us = at_us + rng.choice((1_000, rng.randint(1, 500_000), rng.randint(1, 4_000_000)))
        stage.later(FaultSpec(back_us, FaultKind.RECOVER, (founder,), found=rng.random() < 0.3))
        others = [name for name in names if name != founder]
        rng.shuffle(others)
        for name in others:
            late_us = rng.choice((1, rng.randint(1, 300_000), rng.randint(1, 5_000_000)))
            stage.later(FaultSpec(back_us + late_us, FaultKind.RECOVER, (name,)))


def in_turn(seed: int) -> Trial:
    rng = random_for(seed, "in-turn")
    stage = GrowingTrial(seed, rng, _small)
    names = stage.model.names
    if len(names) == 1:
        return stage.trial
    from_us = stage.formed_us
    for client in stage.scenario.clients:
        if rng.random() < 0.5:
            at_us = from_us + rng.choice((0, rng.randint(0, 1_500_000)))
            stage.later(FaultSpec(at_us, FaultKind.FREEZE, (client.name,)))
            stage.later(FaultSpec(at_us + FROZEN_US, FaultKind.UNFREEZE, (client.name,)))
    for number in range(rng.randint(2, IN_TURN_ROUNDS_MAX)):
        rehearsal = stage.rehearse()
        if len(rehearsal.times_us) > LONG_EVENTS:
            break
        if number:
            from_us = rehearsal.rest_us
        event = stage.moment(rehearsal, from_us) if rng.random() < 0.5 else rehearsal.event_from(from_us)
        at_us = rehearsal.time_of(event)
        name = rng.choice(names)
        if rng.random() < 0.3:
            stage.strike(event, FaultSpec(at_us, FaultKind.RESTART, (name,)))
            continue
        stage.strike(event, FaultSpec(at_us, FaultKind.CRASH, (name,)))
        down_us = rng.choice((1, rng.randint(1, 500_000), rng.randint(1, 5_000_000)))
        stage.later(FaultSpec(at_us + down_us, FaultKind.RECOVER, (name,), disk=False))
    return stage.trial


def _small(drawn: Scenario) -> Scenario:
    """Its first brokers only; clients of others come to these."""
    brokers = drawn.brokers[: 2 + drawn.seed % (BROKERS_MAX - 1)]
    names = [broker.name for broker in brokers]
    clients = [
        client if client.broker in names else msgspec.structs.replace(client, broker=names[number % len(names)])
        for number, client in enumerate(drawn.clients)
    ]
    return msgspec.structs.replace(drawn, brokers=brokers, clients=tuple(clients))


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


def moved_clocks(seed: int) -> Trial:
    rng = random_for(seed, "moved-clocks")
    scenario = draw_scenario(seed, options=CLOCK_OPTIONS)
    standing_us = formed_us(scenario)
    work = [msgspec.structs.replace(work, start_us=standing_us + work.start_us // 4) for work in scenario.workloads]
    scenario = msgspec.structs.replace(scenario, workloads=tuple(work), time_limit_us=CLOCK_TIME_LIMIT_US)
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


def disks(seed: int) -> Trial:
    rng = random_for(seed, "disks")
    stage = GrowingTrial(seed, rng, lambda drawn: with_disks(drawn, rng))
    names = stage.model.names
    for number, event, at_us in stage.rounds(DISK_ROUNDS_MAX):
        over_us = at_us + rng.randint(*rng.choice(LASTS_US))
        changes: list[FaultSpec] = []
        for name in rng.sample(names, rng.choice((1, rng.randint(1, len(names)), len(names)))):
            kind = rng.choice((FaultKind.DISK_LOW, FaultKind.DISK_FULL, FaultKind.DISK_FULL))
            stage.strike(event, FaultSpec(at_us, kind, (name,)))
            if kind is FaultKind.DISK_LOW and rng.random() < 0.5:
                changes.append(FaultSpec(rng.randint(at_us, over_us), FaultKind.DISK_FULL, (name,)))
            free_us = over_us + rng.choice((0, rng.randint(1, 3_000_000)))
            changes.append(FaultSpec(free_us, FaultKind.DISK_FREE, (name,)))
        if number or len(names) == 1 or rng.random() < 0.5:
            stage.later(*changes)
            continue
        crash_us = at_us + rng.randint(1, 5_000_000)
        last_us = crash_us + FULL_AFTER_CRASH_US
        stage.later(*[msgspec.structs.replace(fault, at_us=min(fault.at_us, last_us)) for fault in changes])
        victims = stage.model.draw_victims(rng)
        for name in victims:
            stage.later(FaultSpec(crash_us, FaultKind.CRASH, (name,)))
            back_us = crash_us + rng.choice((1, rng.randint(1, 500_000), rng.randint(1, 10_000_000)))
            stage.later(FaultSpec(back_us, FaultKind.RECOVER, (name,)))
        for name in [name for name in victims or names if rng.random() < 0.4]:
            stage.later(FaultSpec(at_us, FaultKind.UNRESOLVE, (name,)))
            stage.later(FaultSpec(crash_us + rng.randint(1, 15_000_000), FaultKind.RESOLVE, (name,)))
    return stage.trial
