"""The Lamport clock of one broker, shared by everything that stamps or is stamped.

A Lamport clock is the length of the longest chain of events, one after the other in time. No broker handles an event in
less than a microsecond, so an honest clock is always below the microseconds since 1970 (`wall_us`), however many
brokers there are. A peer may claim any stamp. What the clock takes from it is limited to a few *leads* above the wall
clock (a lead is 2^40 microseconds, 12.7 days):

    a client     1 lead; a claim of more than 3 leads costs the client its session
    a broker     2 leads; what is beyond gets a stamp of this clock instead, because others may have said it before.
                 Links are FIFO, so its causes have come by then, and that stamp is above theirs

So a false stamp makes the clock jump once. The wall clock then moves on faster than the clock does, and never lets it
come near the end of the numbers. Leads differ so that brokers whose wall clocks differ by less than a lead agree: no
broker changes stamps that a client has caused elsewhere, and no client is refused for what its broker gave it.

Stamps on disk are taken like those of brokers, in their order, so a false clock in a journal heals with the restart.
Where time is virtual, it begins with 0, and the leads are room for 10^12 events.
"""

from collections.abc import Callable
from typing import Final

from resprout.core.bundle import Bundle
from resprout.core.errors import BoundError, PeerError
from resprout.core.message_fields import STAMP_MAX

LEAD: Final = 1 << 40
CLIENT_LEADS: Final = 1
BROKER_LEADS: Final = 2
REFUSED_LEADS: Final = 3


class Clock:
    """`now` is the greatest stamp known here."""

    __slots__ = ("_limit", "_wall_us", "limited", "now")

    def __init__(self, now: int = 0, wall_us: Callable[[], int] = lambda: 0) -> None:
        self.now = now
        self._wall_us = wall_us
        self._limit = 0
        """For stamps of brokers, as it was when it was looked at last; it only grows."""
        self.limited = 0
        """Stamps of brokers that were beyond the limit, and replaced."""

    def tick(self) -> int:
        """The stamp of the next thing that happens here."""
        self.now += 1
        return self.now

    def raise_to(self, stamp: int) -> int:
        """A broker has told of something with this stamp: return the stamp that it has here. Raises PeerError when no
        honest broker can have said it."""
        if stamp > self.now:
            stamp = self.limit(stamp)
            self.now = max(self.now, stamp)
        return stamp

    def admit(self, bundle: Bundle) -> Bundle:
        """A broker has sent this bundle: return it with its stamp here. Raises PeerError like `raise_to`."""
        stamp = self.raise_to(bundle.stamp)
        return bundle if stamp == bundle.stamp else bundle.stamped(stamp)

    def limit(self, stamp: int) -> int:
        """Return the stamp, or the next one of this clock where no honest broker can have got so far."""
        if stamp <= self._limit:
            return stamp
        check_stamp(stamp)
        self._limit = max(self._limit, self._wall_us() + BROKER_LEADS * LEAD)
        if stamp <= self._limit:
            return stamp
        self.limited += 1
        return self.tick()

    def check_client(self, stamp: int) -> None:
        """Raises BoundError when no client can have been given this stamp."""
        if stamp > self.now and stamp > (most := self._wall_us() + REFUSED_LEADS * LEAD):
            raise BoundError(f"the stamp {stamp} is ahead of all clocks, which allow {most}")

    def hear_client(self, stamp: int) -> None:
        """A client has heard of something with this stamp. Raises BoundError like `check_client`."""
        self.check_client(stamp)
        if stamp > self.now:
            self.now = max(self.now, min(stamp, self._wall_us() + CLIENT_LEADS * LEAD))

    def stamp_after(self, stamp: int) -> int:
        """The stamp of something that a client does here, after something with this stamp."""
        if stamp > self.now:
            self.now = max(self.now, min(stamp, self._wall_us() + CLIENT_LEADS * LEAD))
        self.now += 1
        return self.now


def check_stamp(stamp: int) -> None:
    if stamp > STAMP_MAX:
        raise PeerError(f"the stamp {stamp} is beyond {STAMP_MAX}")
