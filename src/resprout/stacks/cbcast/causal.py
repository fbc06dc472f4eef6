"""The order of CBCAST at one member of all groups: numbers for what it multicasts, and a place for what it hears.

*To multicast* m to a group g, the member counts it, in its own entry of the clock of g. With m go the entries of the
clocks of all groups that have changed since the member's last message to g.

*Arrival*, m waits until, for every entry of its clocks, as many messages of that member to that group have been
delivered; of its sender to g, all before m. What m does not carry was carried by the message of the same sender to g
before it, for which m waits.

*Delivered*, m is counted. The clock here counts nothing but what was delivered, or must not be waited for
(`pass_over`); so what goes with the next multicast is exactly what this member has seen before it, and nobody needs to
merge clocks.
"""

from typing import NamedTuple

from resprout.core.errors import PeerError
from resprout.edge.broker.item import KeptItem
from resprout.order.holdback import HoldBack
from resprout.order.vector_clock import ENTRIES_MAX, Changes, VectorClock
from resprout.stacks.cbcast.messages import HEADER_MAX, Multicast, length_of

Entry = tuple[str, str]
"""(group, member)."""


class Arrival(NamedTuple):
    message: Multicast
    number: int
    item: KeptItem

    @property
    def entry(self) -> Entry:
        return self.message.bundle.topic, self.message.sender


class CausalOrder:
    def __init__(self, member: str, held_max: int) -> None:
        self._member = member
        self._clock = VectorClock()
        self._sent: dict[str, int] = {}
        """By group: the version of the clock with the last message from here to it."""
        self._held: HoldBack[Entry, Arrival] = HoldBack(self.missing, held_max)
        self._waiting: dict[tuple[str, str, int], None] = {}
        """(group, member, number) of what is held back."""

    def __len__(self) -> int:
        """What is held back."""
        return len(self._held)

    # -- to multicast --------------------------------------------------------------------------------------------------

    def check_room(self, group: str) -> None:
        """PeerError when the clocks of another message from here to this group would not fit: into this one, or into
        the message."""
        if len(self._clock) >= ENTRIES_MAX and not self._clock.at(group, self._member):
            raise PeerError(f"there is no room for more than {ENTRIES_MAX} members of groups")
        changed = self._clock.since(self._sent.get(group, 0))
        if length_of(changed) + length_of(((group, ((self._member, 1),)),)) > HEADER_MAX:
            raise PeerError(f"more has changed since the last message to {group!r} than a message can say")

    def stamp(self, group: str) -> Changes:
        """The clocks of the next message from here to this group, for which there is room. With that it is delivered
        here: whatever it may depend on has been."""
        before = self._sent.get(group, 0)
        self._clock.tick(group, self._member)
        self._sent[group] = self._clock.version
        return self._clock.since(before)

    # -- to deliver ----------------------------------------------------------------------------------------------------

    def is_known(self, group: str, member: str, number: int) -> bool:
        """It was delivered here, waits here, or must not be waited for."""
        return number <= self._clock.at(group, member) or (group, member, number) in self._waiting

    def put(self, arrival: Arrival) -> None:
        if not self._held.put(arrival):
            raise PeerError("too much that cannot be delivered waits here")
        self._waiting[(*arrival.entry, arrival.number)] = None

    def take(self) -> Arrival | None:
        """The next that may be delivered, counted as such."""
        arrival = self._held.take()
        if arrival is not None:
            group, member = arrival.entry
            del self._waiting[group, member, arrival.number]
            self._clock.raise_to(group, member, arrival.number)
            self._held.reached(arrival.entry, arrival.number)
        return arrival

    def missing(self, arrival: Arrival) -> tuple[Entry, int] | None:
        """Something that must be delivered before."""
        return self._clock.missing(arrival.message.clocks, own=arrival.entry)

    # -- what is not waited for ----------------------------------------------------------------------------------------

    @property
    def passed(self) -> Changes:
        """Whoever joins is not owed this."""
        return self._clock.since(0)

    @property
    def held(self) -> list[Arrival]:
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
