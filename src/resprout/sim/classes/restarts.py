"""Brokers that are restarted: by a supervisor, by an operator, all at once, or one after the other.

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
"""

from random import Random
from typing import Final

import msgspec

from resprout.scenario.model import FaultKind, FaultSpec, Scenario, random_for
from resprout.sim.classes.drawing import GrowingTrial
from resprout.sim.mishaps import LONG_EVENTS
from resprout.sim.trial import Trial

ROUNDS_MAX: Final = 4

BLACKOUTS_MAX: Final = 2
DISK_LATENCIES_US: Final = (0, 0, 300, 5_000, 30_000)

BROKERS_MAX: Final = 4
IN_TURN_ROUNDS_MAX: Final = 5
FROZEN_US: Final = 25_000_000
"""Shorter than a broker's clients are waited for when it has died."""


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
