"""What was delivered at one member, what waits, and what is not waited for; how messages are ordered is a subclass's.

Everything that a member multicasts has a number in some group. The clock here counts what was delivered, and what is
not waited for because nobody here wanted it when it passed (`skip`). A broker passes on what it has delivered, so
messages go over every link in causal order.
"""

from abc import ABC, abstractmethod
from typing import Generic, NamedTuple, TypeVar

from resprout.core.bundle import Bundle
from resprout.core.errors import PeerError
from resprout.core.seen import Ranges
from resprout_lab.blocks.causal_order import ENTRIES_MAX, Changes, HoldBack, VectorClock
from resprout_lab.blocks.multicast.copies import ClockEntry, Copy, Entries
from resprout_lab.blocks.multicast.messages import MulticastMessage

M = TypeVar("M", bound=MulticastMessage)


class HeaderSizeError(PeerError):
    """A publication that is not made, because no message could say what must be delivered before it. It costs its
    client the session; when the client returns, there may be less to say."""


class Arrival(NamedTuple, Generic[M]):
    message: M
    number: int
    copy: Copy

    @property
    def entry(self) -> ClockEntry:
        return self.copy.entry


class MulticastOrder(ABC, Generic[M]):
    def __init__(self, member: str, held_max: int) -> None:
        self.member = member
        self._clock = VectorClock()
        self._held: HoldBack[ClockEntry, Arrival[M]] = HoldBack(self.missing, held_max)
        self._had: dict[ClockEntry, Ranges] = {}
        """The numbers of messages of others that have come here."""

    def __len__(self) -> int:
        """What is held back."""
        return len(self._held)

    # -- to multicast --------------------------------------------------------------------------------------------------

    @abstractmethod
    def check_room(self, bundle: Bundle) -> None:
        """HeaderSizeError when another message from here would not fit: into the clock, or into a frame."""

    def _check_clock(self, group: str) -> None:
        if len(self._clock) >= ENTRIES_MAX and not self._clock.at(group, self.member):
            raise HeaderSizeError(f"there is no room for more than {ENTRIES_MAX} members of groups")

    @abstractmethod
    def make(self, bundle: Bundle) -> M:
        """The next message from here, for which there is room. With that it is delivered here: whatever it may depend
        on has been."""

    def joined(self) -> None:
        """Somebody wants something that was not wanted here before."""

    # -- to deliver ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def entries(self, message: M) -> Entries:
        """All that its header names, and the message of its sender before it: the same list at every broker."""

    @abstractmethod
    def counted(self, message: M) -> dict[str, int]:
        """By group: how many messages of this member its header says were delivered where it was made."""

    def missing(self, arrival: Arrival[M]) -> tuple[ClockEntry, int] | None:
        """Something that must be delivered before."""
        at = self._clock.at
        return next((one for one in arrival.copy.entries if one[1] > at(*one[0])), None)

    def is_known(self, group: str, member: str, number: int) -> bool:
        """It has come before, or was multicast here."""
        if member == self.member:
            return number <= self._clock.at(group, member)
        had = self._had.get((group, member))
        return had is not None and number in had

    def note(self, arrival: Arrival[M]) -> None:
        """It has come."""
        self._had.setdefault(arrival.entry, Ranges()).add(arrival.number, arrival.number)

    def put(self, arrival: Arrival[M], is_forced: bool = False) -> bool:
        """Return False when there is no room, and nothing was kept."""
        if not self._held.put(arrival, is_forced):
            return False
        self.note(arrival)
        return True

    @property
    def first_held(self) -> dict[ClockEntry, int]:
        """By group and member: the lowest number that is held back."""
        found: dict[ClockEntry, int] = {}
        for arrival in self._held:
            found[arrival.entry] = min(arrival.number, found.get(arrival.entry, arrival.number))
        return found

    @property
    def version(self) -> int:
        """Counts the changes of the clock."""
        return self._clock.version

    def since(self, version: int) -> Changes:
        """What was delivered or skipped here after that version."""
        return self._clock.since(version)

    def counts_less(self, entry: ClockEntry, number: int) -> bool:
        return self._clock.at(*entry) < number

    def take(self) -> Arrival[M] | None:
        """The next that may be delivered, counted as such."""
        arrival = self._held.take()
        if arrival is not None:
            self._raise(arrival.entry, arrival.number)
        return arrival

    def skip(self, entries: Entries) -> None:
        """These are not waited for: they were not wanted here. PeerError for what this member has not multicast."""
        for (group, member), number in entries:
            if member == self.member and number > self._clock.at(group, member):
                raise PeerError(f"{member} has not multicast number {number} to {group!r}")
        for entry, number in entries:
            self._raise(entry, number)

    def _raise(self, entry: ClockEntry, number: int) -> None:
        self._clock.raise_to(*entry, number)
        self._held.reached(entry, number)
