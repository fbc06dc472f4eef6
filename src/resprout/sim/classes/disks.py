"""`disks`: disks of brokers fill up and have room again, and names do not resolve for a while.

Brokers keep their logs on disk. Any number of disks has little room, or none, for less than a lease or for much longer:
nothing may be lost, nobody may be declared dead for it, and everything goes on by itself. Meanwhile brokers within the
fault model may be killed and started again; one on a full disk waits for room. The names of those, or of some of those,
may not resolve at first.
"""

from typing import Final

from resprout.scenario.model import FaultKind, FaultSpec
from resprout.scenario.seeds import random_for
from resprout.sim.classes.blackout import with_disks
from resprout.sim.classes.striking import GrowingTrial
from resprout.sim.trial import Trial

ROUNDS_MAX: Final = 2
LASTS_US: Final = ((1, 2_000_000), (2_000_000, 8_000_000), (8_000_000, 60_000_000))


def disks(seed: int) -> Trial:
    rng = random_for(seed, "disks")
    stage = GrowingTrial(seed, rng, lambda drawn: with_disks(drawn, rng))
    names = stage.model.names
    for number, event, at_us in stage.rounds(ROUNDS_MAX):
        over_us = at_us + rng.randint(*rng.choice(LASTS_US))
        for name in rng.sample(names, rng.choice((1, rng.randint(1, len(names)), len(names)))):
            kind = rng.choice((FaultKind.DISK_LOW, FaultKind.DISK_FULL, FaultKind.DISK_FULL))
            stage.strike(event, FaultSpec(at_us, kind, (name,)))
            if kind is FaultKind.DISK_LOW and rng.random() < 0.5:
                stage.later(FaultSpec(rng.randint(at_us, over_us), FaultKind.DISK_FULL, (name,)))
            free_us = over_us + rng.choice((0, rng.randint(1, 3_000_000)))
            stage.later(FaultSpec(free_us, FaultKind.DISK_FREE, (name,)))
        if number or len(names) == 1 or rng.random() < 0.5:
            continue
        crash_us = at_us + rng.randint(1, 5_000_000)
        victims = stage.model.draw_victims(rng)
        for name in victims:
            stage.later(FaultSpec(crash_us, FaultKind.CRASH, (name,)))
            back_us = crash_us + rng.choice((1, rng.randint(1, 500_000), rng.randint(1, 10_000_000)))
            stage.later(FaultSpec(back_us, FaultKind.RECOVER, (name,)))
        for name in [name for name in victims or names if rng.random() < 0.4]:
            stage.later(FaultSpec(at_us, FaultKind.UNRESOLVE, (name,)))
            stage.later(FaultSpec(crash_us + rng.randint(1, 15_000_000), FaultKind.RESOLVE, (name,)))
    return stage.trial
