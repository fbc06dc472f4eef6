"""`restarts`: a supervisor starts brokers again, each as it was started at first, the root among them.

Whoever does that knows nothing of what has happened meanwhile: a broker knows the parent of its first file, and whom
its disk remembers. The root has no parent in its file. Brokers go one after the other, as in a rolling restart, or some
that may be down together, or all of them; the next ones when the tree stands again. When all were down, nobody tells
any of them to found a network: with their disks they find each other, and go on as the same one. That is drawn with
`durable = "journal"` only, because without it the messages that all of them held are lost.
"""

from random import Random
from typing import Final

from resprout.scenario.model import FaultKind, FaultSpec
from resprout.scenario.seeds import random_for
from resprout.sim.classes.blackout import with_disks
from resprout.sim.classes.striking import GrowingTrial
from resprout.sim.trial import Trial

ROUNDS_MAX: Final = 4


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
