"""Numbers for the lives of a node, without a file to remember the last one."""

import time
from typing import Final

_EPOCH_S: Final = 1_767_225_600
"""The beginning of 2026: incarnations count from here, so that they stay small."""
_PER_SECOND: Final = 4


def new_incarnation() -> int:
    """Grows from one start of a node to the next, as long as the clock of the machine does."""
    return max(1, int((time.time() - _EPOCH_S) * _PER_SECOND))
