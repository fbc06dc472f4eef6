"""The Lamport clock of one broker, shared by everything that stamps or is stamped."""

from typing import Final

from resprout.core.errors import PeerError

STAMP_MAX: Final = 1 << 62
"""No clock that counts events gets here; a peer that claims it would leave no room for the stamps that follow."""


class Clock:
    """`now` is the greatest stamp known here."""

    __slots__ = ("now",)

    def __init__(self, now: int = 0) -> None:
        self.now = now

    def tick(self) -> int:
        """The stamp of the next thing that happens here."""
        self.now += 1
        return self.now

    def raise_to(self, stamp: int) -> None:
        """Something with this stamp was heard of. Raises PeerError when no honest peer can have said it."""
        if stamp > self.now:
            check_stamp(stamp)
            self.now = stamp

    def stamp_after(self, stamp: int) -> int:
        """The stamp of something that happens here, after something with this stamp."""
        self.raise_to(stamp)
        self.now += 1
        return self.now


def check_stamp(stamp: int) -> None:
    if stamp > STAMP_MAX:
        raise PeerError(f"the stamp {stamp} is beyond {STAMP_MAX}")
