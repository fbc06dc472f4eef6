"""`rolling`: an operator restarts brokers one after the other, each in good order, while clients go on.

Some of them, or all, the root early or late; the next one goes when the one before has its place again. Sometimes the
same ones go twice.
"""

from resprout.scenario.model import FaultKind, FaultSpec
from resprout.scenario.seeds import random_for
from resprout.sim.classes.striking import GrowingTrial
from resprout.sim.trial import Trial


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
