"""Microseconds that a stack lets people set: none is nothing, and none is longer than anybody waits."""

from typing import Annotated, Final

import msgspec

PERIOD_US_MAX: Final = 366 * 24 * 3600 * 1_000_000
"""A year. What is more was meant for something else, and clocks that add such numbers up leave the range of a trace."""

Period = Annotated[int, msgspec.Meta(ge=1, le=PERIOD_US_MAX)]
