"""The order of messages at one member: which were delivered, which wait, and which are skipped. Subclasses define it.

Everything that a member multicasts has a number in some group. The clock here counts messages that were delivered, and
messages that are not waited for because nothing here subscribed to them when they passed (`skip`). A broker passes on
only what it has delivered, so messages go over every link in causal order.
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
    """A publication that is refused, because its dependencies fit into no message. It ends the session of its client;
    when the client returns, there may be fewer."""


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
        """Numbers of messages of other members that have come here."""

    def __len__(self) -> int:
        """Number of messages that are held back."""
        return len(self._held)

    # -- to multicast --------------------------------------------------------------------------------------------------

    @abstractmethod
    def check_room(self, bundle: Bundle) -> None:
        """Raise HeaderSizeError if another message from here would not fit into the clock or a frame."""

    def _check_clock(self, group: str) -> None:
        if len(self._clock) >= ENTRIES_MAX and not self._clock.at(group, self.member):
            raise HeaderSizeError(f"there is no room for more than {ENTRIES_MAX} members of groups")

    @abstractmethod
    def make(self, bundle: Bundle) -> M:
        """Make the next message from here, for which there must be room. It counts as delivered here, as does all that
        it may depend on."""

    def joined(self) -> None:
        """Note that there is a new subscription here."""

    # -- to deliver ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def entries(self, message: M) -> Entries:
        """Return all that its header names, and the message of its sender before it: the same list at every broker."""

    @abstractmethod
    def counted(self, message: M) -> dict[str, int]:
        """Return by group how many messages of this member were delivered where the message was made, by its header."""

    def missing(self, arrival: Arrival[M]) -> tuple[ClockEntry, int] | None:
        """Return one message that must be delivered before this one, or None."""
        at = self._clock.at
        return next((one for one in arrival.copy.entries if one[1] > at(*one[0])), None)

    def is_known(self, group: str, member: str, number: int) -> bool:
        """Whether a message has come before, or was multicast here."""
        if member == self.member:
            return number <= self._clock.at(group, member)
        had = self._had.get((group, member))
        return had is not None and number in had

    def note(self, arrival: Arrival[M]) -> None:
        """Note that a message has come."""
        self._had.setdefault(arrival.entry, Ranges()).add(arrival.number, arrival.number)

    def put(self, arrival: Arrival[M], is_forced: bool = False) -> bool:
        """Hold back a message. Returns False, and keeps nothing, if there is no room."""
        if not self._held.put(arrival, is_forced):
            return False
        self.note(arrival)
        return True

    @property
    def first_held(self) -> dict[ClockEntry, int]:
        """Return the lowest number that is held back, by group and member."""
        found: dict[ClockEntry, int] = {}
        for arrival in self._held:
            found[arrival.entry] = min(arrival.number, found.get(arrival.entry, arrival.number))
        return found

    @property
    def version(self) -> int:
        """Number of changes of the clock."""
        return self._clock.version

    def since(self, version: int) -> Changes:
        """Return the entries that were delivered or skipped here after that version."""
        return self._clock.since(version)

    def counts_less(self, entry: ClockEntry, number: int) -> bool:
        return self._clock.at(*entry) < number

    def take(self) -> Arrival[M] | None:
        """Return the next message that can be delivered, and count it as delivered; None if there is none."""
        arrival = self._held.take()
        if arrival is not None:
            self._raise(arrival.entry, arrival.number)
        return arrival

    def skip(self, entries: Entries) -> None:
        """Do not wait for these messages, which were not subscribed here. Raises PeerError for numbers that this member
        has not multicast yet."""
        for (group, member), number in entries:
            if member == self.member and number > self._clock.at(group, member):
                raise PeerError(f"{member} has not multicast number {number} to {group!r}")
        for entry, number in entries:
            self._raise(entry, number)

    def _raise(self, entry: ClockEntry, number: int) -> None:
        self._clock.raise_to(*entry, number)
        self._held.reached(entry, number)
