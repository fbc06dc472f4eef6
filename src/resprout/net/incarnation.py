"""Numbers for the lives of a node, without a file to remember the last one."""

import time
from typing import Final

_EPOCH_S: Final = 1_767_225_600
"""The beginning of 2026: incarnations count from here, so that they stay small."""
_PER_SECOND: Final = 4


AHEAD_MAX: Final = 30 * 24 * 3600 * _PER_SECOND
"""How far the clock of another machine may be ahead, in lives: a month. A number beyond that is no mistake of a clock,
and whoever believed it could never take a higher one."""


def incarnation_max() -> int | None:
    """The highest number that is believed now; None where the clock itself cannot be: it was never set."""
    now = int((time.time() - _EPOCH_S) * _PER_SECOND)
    return now + AHEAD_MAX if now > 0 else None


def believed(incarnation: int) -> int:
    """What somebody else has met; nothing, if that cannot be."""
    most = incarnation_max()
    return incarnation if most is None or incarnation <= most else 0


def new_incarnation() -> int:
    """Grows from one start of a node to the next, as long as the clock of the machine does."""
    return max(1, int((time.time() - _EPOCH_S) * _PER_SECOND))
