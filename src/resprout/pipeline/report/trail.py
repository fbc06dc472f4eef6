"""What happened in one run, and how long messages took meanwhile: for runs that are shown by themselves.

Few numbers come of it whatever the size of the run: the first of the happenings, and latencies in a fixed number of
slices of its time.
"""

from collections.abc import Mapping

import msgspec


class Happening(msgspec.Struct, frozen=True):
    time_us: int
    node: str
    kind: str
    detail: str


class TimeSlice(msgspec.Struct, frozen=True):
    """What was delivered with one guarantee in one slice of the run's time."""

    guarantee: str
    number: int
    deliveries: int
    median_us: float
    max_us: int


class Trail(msgspec.Struct, frozen=True):
    happenings: tuple[Happening, ...]
    left_out: int
    """Happenings beyond those that are told."""
    slice_us: int
    slices: tuple[TimeSlice, ...]
    recipe: str | None
    """The scenario as a file that makes the run again; None when the trace does not hold it."""


Trails = Mapping[tuple[str, str], Trail]
"""By experiment and run."""
