"""The parameters of Chord. Seed 004 prints the number of bits; all others are *chosen*."""

from typing import Final

import msgspec

from resprout.core.errors import UsageError

SUCCESSORS_SAID_MAX: Final = 64
"""In one message, whoever says it."""


class RingOptions(msgspec.Struct, frozen=True, kw_only=True):
    successors: int = 4
    """Of each member. More: more neighbours on the ring may fail at once, and longer messages."""
    stabilise_us: int = 500_000
    """Between two questions to the successor, and between two fingers. Shorter: failures are mended sooner."""
    lookup_us: int = 1_000_000
    """A question that is not answered for so long is asked again: somebody on its way may have died."""
    lookup_tries: int = 8

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.successors > SUCCESSORS_SAID_MAX:
            raise UsageError(f"successors must be at most {SUCCESSORS_SAID_MAX}, not {self.successors}")
