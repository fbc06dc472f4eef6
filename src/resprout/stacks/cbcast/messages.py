"""What brokers say to each other beside joining the tree: a publication with its clocks, and clocks alone."""

from typing import Final

from resprout.core.bundle import Bundle
from resprout.core.contract import BundleMessage, ProtocolMessage
from resprout.core.errors import PeerError
from resprout.order import vector_clock
from resprout.order.vector_clock import Changes
from resprout.overlay.places import Place

HEADER_MAX: Final = 1 << 18
"""Characters of names and digits in the clocks of one message, so that it fits into a frame beside the largest bundle
even if each takes four bytes. Some 15,000 entries with short names."""
_ENTRY: Final = 10
"""What a count takes, and what holds it together with its names."""


class Multicast(BundleMessage, frozen=True, tag=184):
    """A publication to the group of its topic, on to everybody but the one that says it."""

    bundle: Bundle
    hops: int
    sender: str
    """The member of the group that multicasts it: the life of the broker at which it was published."""
    clocks: Changes
    """Of every group, what has changed at the sender since its last message to this one. The entry of the sender in
    this group is the number of the message."""

    @property
    def cost(self) -> int:
        return self.bundle.cost + length_of(self.clocks)

    @property
    def paper_bytes(self) -> int:
        return vector_clock.paper_bytes(self.clocks)

    def checked_number(self) -> int:
        """Its own entry. PeerError unless it has one, and clocks that an honest peer may send."""
        vector_clock.check_changes(self.clocks)
        for group, entries in self.clocks:
            if group == self.bundle.topic:
                for member, number in entries:
                    if member == self.sender:
                        return number
        raise PeerError(f"{self.bundle!r} has no number among the messages of {self.sender!r}")


class NotOwed(ProtocolMessage, frozen=True, tag=185):
    """So much has passed before this link began: nobody behind it need wait for that. Both sides begin with it, in as
    many messages as it takes; what is news is passed on."""

    clocks: Changes

    @property
    def bulk(self) -> int:
        return length_of(self.clocks)


class PlacesNear(ProtocolMessage, frozen=True, tag=187):
    """Who stands next to whom, within two hops of the receiver."""

    places: tuple[Place, ...]


class Around(ProtocolMessage, frozen=True, tag=188):
    """This broker, next to both of us, is dead: we are neighbours now. The first message of the link."""

    dead: str


class Flushed(ProtocolMessage, frozen=True, tag=189):
    """All that the dead broker may have owed you and was here has been sent."""

    dead: str


CBCAST_MESSAGES: Final = (Multicast, NotOwed, PlacesNear, Around, Flushed)


def length_of(clocks: Changes) -> int:
    """Characters, more or less as they travel."""
    return sum(len(group) + _ENTRY + sum(len(member) + _ENTRY for member, _ in entries) for group, entries in clocks)


def in_parts(clocks: Changes) -> list[Changes]:
    """The same, of which each part fits into a message."""
    parts: list[Changes] = []
    part: dict[str, list[tuple[str, int]]] = {}
    length = 0
    for group, entries in clocks:
        for entry in entries:
            more = length_of(((group, (entry,)),))
            if part and length + more > HEADER_MAX:
                parts.append(_as_changes(part))
                part, length = {}, 0
            part.setdefault(group, []).append(entry)
            length += more
    return [*parts, _as_changes(part)] if part else parts


def _as_changes(part: dict[str, list[tuple[str, int]]]) -> Changes:
    return tuple([(group, tuple(entries)) for group, entries in part.items()])
