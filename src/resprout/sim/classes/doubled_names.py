"""`doubled-names`: somebody starts a second broker under a name that is taken, and lets it ask anywhere in the tree.

Nothing else may go wrong, or the real one freezes for a moment, or for so long that it is replaced, or its process
dies, for good or not; or somebody on the way to it freezes. Sometimes there are two seconds at once.
"""

from typing import Final

from resprout.scenario.model import FaultKind, FaultSpec
from resprout.scenario.seeds import random_for
from resprout.sim.classes.striking import GrowingTrial
from resprout.sim.trial import Trial

SHORT_US: Final = 1_200_000
"""Well below the time after which a broker may be taken for dead."""
NEAR_US: Final = 500_000
"""Between what happens to the real one and the start of the second."""


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
