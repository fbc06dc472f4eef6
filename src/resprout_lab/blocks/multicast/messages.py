"""What brokers say to each other in any causal multicast along a tree, beside joining it and the publications."""

from typing import Final

from resprout.core.bundle import Bundle
from resprout.core.contract import ProtocolMessage
from resprout.core.message_fields import BundleMessage
from resprout_lab.blocks import parts_of
from resprout_lab.blocks.causal_order import Changes, as_changes
from resprout_lab.blocks.crossing import Progress
from resprout_lab.blocks.recorded import ASKING_MESSAGES
from resprout_lab.blocks.tree import PlacesNear

HEADER_MAX: Final = 1 << 18
"""Characters of names and digits in the clocks of one message, so that it fits into a frame beside the largest bundle
even if each takes four bytes. Some 15,000 entries with short names."""
_ENTRY: Final = 10
"""What a count takes, and what holds it together with its names."""


class MulticastMessage(BundleMessage, frozen=True):
    """A publication, on to everybody who wants it. What orders it is the stack's."""

    bundle: Bundle
    hops: int
    sender: str
    """The member that multicasts it: the life of the broker at which it was published."""
    skipped: tuple[int, ...]
    """Messages that its header names and that did not go over this link, because nobody behind it wanted them: their
    places in `MulticastOrder.entries`."""

    @property
    def group(self) -> str:
        """Among which messages of its sender it has its number."""
        raise NotImplementedError

    def checked_number(self) -> int:
        """PeerError unless it has one, and a header that an honest peer may send."""
        raise NotImplementedError


class GroupsTold(ProtocolMessage, frozen=True, tag=313):
    """You were told all that is wanted here and behind me. Until then everything goes over the link."""


class NotOwed(ProtocolMessage, frozen=True, tag=185):
    """So much has passed before your subscription was recorded here, the next that I confirm: what has not come to you
    by now was not wanted then. Only what has changed since the last time."""

    clocks: Changes

    @property
    def bulk(self) -> int:
        return length_of(self.clocks)


class Around(ProtocolMessage, frozen=True, tag=188):
    """This broker, next to both of us, is dead: we are neighbours now. The first message of the link. A broker that is
    told so of itself was suspected, and begins another life."""

    dead: str


class Flushed(ProtocolMessage, frozen=True, tag=189):
    """All that the dead broker may have owed you and was here has been sent."""

    dead: str


MULTICAST_MESSAGES: Final = (*ASKING_MESSAGES, GroupsTold, NotOwed, PlacesNear, Around, Flushed, Progress)


def length_of(clocks: Changes) -> int:
    """Characters, more or less as they travel."""
    return sum(len(group) + _ENTRY + sum(len(member) + _ENTRY for member, _ in entries) for group, entries in clocks)


def in_parts(clocks: Changes) -> list[Changes]:
    """The same, of which each part fits into a message."""
    entries = [((group, member), number) for group, rows in clocks for member, number in rows]
    parts = parts_of(entries, HEADER_MAX, lambda entry: sum(map(len, entry[0])) + 2 * _ENTRY)
    return [as_changes(part) for part in parts]
