"""Messages between brokers of any causal multicast along a tree, besides joining and publications."""

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
"""Most characters of names and digits in the clocks of one message, so that it fits into a frame beside the largest
bundle even if each takes four bytes. This is enough for some 15,000 entries with short names."""
_ENTRY: Final = 10
"""Characters of a count and its encoding, beside the names."""


class MulticastMessage(BundleMessage, frozen=True):
    """A publication on its way to all subscribers. A subclass adds what orders it."""

    bundle: Bundle
    hops: int
    sender: str
    """The member that multicasts it: the life of the broker at which it was published."""
    skipped: tuple[int, ...]
    """Indices in `MulticastOrder.entries` of the messages that its header names and that did not go over this link,
    because nothing behind it subscribes to them."""

    @property
    def group(self) -> str:
        """Group within which its sender has numbered it."""
        raise NotImplementedError

    def checked_number(self) -> int:
        """Return its number. Raises PeerError unless it has one, and a header that an honest peer may send."""
        raise NotImplementedError


class GroupsTold(ProtocolMessage, frozen=True, tag=313):
    """All subscriptions at and behind the sender were sent. Until then everything goes over the link."""


class NotOwed(ProtocolMessage, frozen=True, tag=185):
    """Numbers that had passed before the sender recorded a subscription, which it confirms next: messages up to them
    that have not come to the receiver were not subscribed then. Holds only changes since the last one."""

    clocks: Changes

    @property
    def bulk(self) -> int:
        return length_of(self.clocks)


class Around(ProtocolMessage, frozen=True, tag=188):
    """First message of a link around a dead broker, with its name: both ends are neighbours now. A living broker that
    is told so of itself was suspected, and begins another life."""

    dead: str


class Flushed(ProtocolMessage, frozen=True, tag=189):
    """Everything that the dead broker may have owed to the receiver, and that was here, has been sent."""

    dead: str


MULTICAST_MESSAGES: Final = (*ASKING_MESSAGES, GroupsTold, NotOwed, PlacesNear, Around, Flushed, Progress)


def length_of(clocks: Changes) -> int:
    """Return the approximate number of characters of clocks in a message."""
    return sum(len(group) + _ENTRY + sum(len(member) + _ENTRY for member, _ in entries) for group, entries in clocks)


def in_parts(clocks: Changes) -> list[Changes]:
    """Split clocks into parts that fit into a message each."""
    entries = [((group, member), number) for group, rows in clocks for member, number in rows]
    parts = parts_of(entries, HEADER_MAX, lambda entry: sum(map(len, entry[0])) + 2 * _ENTRY)
    return [as_changes(part) for part in parts]
