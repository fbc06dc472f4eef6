"""Before, during and after the trouble of a run.

The trouble begins with the first fault that a repair had to answer, and lasts until the last of those repairs has
ended at the last broker. Planned moves, and brokers that leave in good order, are no trouble.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from resprout.pipeline.metrics.observed import Numbers, ObservedEvent
from resprout.pipeline.metrics.repairs import ObservedRepair
from resprout.trace import kinds

ALL: Final = "all"
BEFORE: Final = "before"
DURING: Final = "during"
AFTER: Final = "after"

_FAULTS: Final = frozenset((kinds.CRASH, kinds.FREEZE, kinds.CUT, kinds.PARTITION))


class Trouble(msgspec.Struct, frozen=True):
    begin_us: int
    end_us: int | None
    """None when a repair never ended: there is no after."""

    def phases(self, published_us: Numbers) -> dict[str, npt.NDArray[np.bool_]]:
        before = published_us < self.begin_us
        after = np.zeros_like(before) if self.end_us is None else published_us > self.end_us
        return {BEFORE: before, DURING: ~before & ~after, AFTER: after}


def trouble_in(
    events: Iterable[ObservedEvent], repairs: Sequence[ObservedRepair], clients: frozenset[str]
) -> Trouble | None:
    """None when nothing had to be repaired."""
    forced = [repair for repair in repairs if not repair.is_planned]
    if not forced:
        return None
    begin_us = min(repair.began_us for repair in forced)
    faults_us = [event.time_us for event in events if event.kind in _FAULTS and event.node not in clients]
    ends_us = [repair.ended_us for repair in forced]
    end_us = None if None in ends_us else max(end_us for end_us in ends_us if end_us is not None)
    return Trouble(min([begin_us, *faults_us]), end_us)
