"""One clock for every process of a machine, so that their traces can be merged."""

import time
from typing import Final


def now_us() -> int:
    return time.monotonic_ns() // 1_000


_RELEASED_US: Final = 1_767_225_600_000_000
"""The beginning of 2026: a machine whose clock says less has never set it."""


def epoch_us() -> int:
    """What to add to `now_us()` to have microseconds since 1970."""
    return max(time.time_ns() // 1_000, _RELEASED_US) - now_us()
