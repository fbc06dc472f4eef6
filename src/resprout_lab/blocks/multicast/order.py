"""What was delivered at one member, what waits, and what is not waited for; how messages are ordered is a subclass's.

Everything that a member multicasts has a number in some group. The clock here counts what was delivered, or must not be
waited for (`pass_over`), and nothing else. So whatever a header is made of, it speaks of what this member has seen.
"""

from abc import ABC, abstractmethod
from typing import Generic, NamedTuple, TypeVar

from resprout.core.bundle import Bundle
from resprout.core.errors import PeerError
from resprout_lab.blocks.causal_order import ENTRIES_MAX, Changes, HoldBack, VectorClock
from resprout_lab.blocks.multicast.messages import MulticastMessage
from resprout_lab.blocks.retention import KeptItem

ClockEntry = tuple[str, str]
"""(group, member)."""
M = TypeVar("M", bound=MulticastMessage)


class HeaderSizeError(PeerError):
    """A publication that is not made, because no message could say what must be delivered before it. It costs its
    client the session; when the client returns, there may be less to say."""


class Arrival(NamedTuple, Generic[M]):
    message: M
    number: int
    item: KeptItem

    @property
    def entry(self) -> ClockEntry:
        return self.message.group, self.message.sender


class MulticastOrder(ABC, Generic[M]):
    def __init__(self, member: str, held_max: int) -> None:
        self.member = member
        self._clock = VectorClock()
        self._held: HoldBack[ClockEntry, Arrival[M]] = HoldBack(self.missing, held_max)
        self._waiting: dict[tuple[str, str, int], None] = {}
        """(group, member, number) of what is held back."""

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

    # -- to deliver ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def missing(self, arrival: Arrival[M]) -> tuple[ClockEntry, int] | None:
        """Something that must be delivered before."""

    @abstractmethod
    def counted(self, message: M) -> dict[str, int]:
        """By group: how many messages of this member its header says were delivered where it was made."""

    def is_known(self, group: str, member: str, number: int) -> bool:
        """It was delivered here, waits here, or must not be waited for."""
        return number <= self._clock.at(group, member) or (group, member, number) in self._waiting

    def put(self, arrival: Arrival[M]) -> bool:
        """Return False when there is no room, and nothing was kept."""
        if not self._held.put(arrival):
            return False
        self._waiting[(*arrival.entry, arrival.number)] = None
        return True

    def take(self) -> Arrival[M] | None:
        """The next that may be delivered, counted as such."""
        arrival = self._held.take()
        if arrival is not None:
            group, member = arrival.entry
            del self._waiting[group, member, arrival.number]
            self._clock.raise_to(group, member, arrival.number)
            self._held.reached(arrival.entry, arrival.number)
        return arrival

    # -- what is not waited for ----------------------------------------------------------------------------------------

    @property
    def passed(self) -> Changes:
        """Whoever joins is not owed this."""
        return self._clock.since(0)

    @property
    def held(self) -> list[Arrival[M]]:
        """Whoever joins is owed these: they have passed here already, and are not counted yet."""
        return list(self._held)

    def counts_more_of(self, member: str, clocks: Changes) -> bool:
        return any(
            one == member and number > self._clock.at(group, member)
            for group, entries in clocks
            for one, number in entries
        )

    def pass_over(self, clocks: Changes) -> Changes:
        """So much is not waited for. Returns what is news. Whatever waited for it may be taken."""
        before = self._clock.version
        self._clock.merge(clocks)
        news = self._clock.since(before)
        for group, entries in news:
            for member, number in entries:
                self._held.reached((group, member), number)
        return news
