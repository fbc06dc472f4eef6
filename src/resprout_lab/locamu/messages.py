"""What brokers say to each other beside joining the tree: publications with headers, and who has what."""

from typing import Final

from resprout.core.bundle import Bundle
from resprout.core.contract import ProtocolMessage
from resprout.core.message_fields import BundleMessage
from resprout_lab.blocks import causal_order
from resprout_lab.blocks.causal_order import Changes
from resprout_lab.blocks.groups import GROUP_MESSAGES
from resprout_lab.blocks.tree import PlacesNear

_ENTRY: Final = 24
"""Bytes that a name and a number take, and what holds them together; names may be longer, and most are shorter."""


class Carried(BundleMessage, frozen=True, tag=178):
    """A publication on its way, with the two control fields of the thesis (section 3.8.3)."""

    bundle: Bundle
    hops: int
    identifiers: Changes
    """*I*: of the last 2f + 1 brokers on its path, the oldest first, the numbers that each gave it, by target. One that
    was passed over is named without numbers: an empty entry."""
    dependencies: Changes
    """*D*: how many of each sender's messages to each target it depends on, as far as that has changed since the last
    one to the same receiver. What is sent for somebody else has all of it."""

    @property
    def cost(self) -> int:
        return self.bundle.cost + length_of(self.identifiers) + length_of(self.dependencies)

    @property
    def paper_bytes(self) -> int:
        return causal_order.paper_bytes(self.identifiers) + causal_order.paper_bytes(self.dependencies)


class MissingRequest(ProtocolMessage, frozen=True, tag=179):
    """So many messages of each of these to the one who says it are here: send what is beyond. The first thing that two
    brokers say to each other which begin to talk."""

    received: tuple[tuple[str, int], ...]

    @property
    def paper_bytes(self) -> int:
        return 8 * len(self.received)


class ProcessedCounts(ProtocolMessage, frozen=True, tag=181):
    """How many messages of each sender each target has processed: what all have is kept no longer. It is passed on to
    everybody within f + 1 hops of the target."""

    counts: Changes

    @property
    def bulk(self) -> int:
        return length_of(self.counts)

    @property
    def paper_bytes(self) -> int:
        return causal_order.paper_bytes(self.counts)


class PrefixesSkipped(ProtocolMessage, frozen=True, tag=182):
    """The exchange of *R*: nobody will ever be brought an identifier up to these that he has not seen, once he has
    processed what was sent to him before. It comes from the source of the numbers, from link to link."""

    after: int
    """The number of the last message of the one who says it to the one who hears it."""
    prefixes: Changes

    @property
    def bulk(self) -> int:
        return length_of(self.prefixes)

    @property
    def paper_bytes(self) -> int:
        return 4 + causal_order.paper_bytes(self.prefixes)


class Unavailable(ProtocolMessage, frozen=True, tag=186):
    """The sender does not hear these, or was told so: behind it, nobody need wait for a word of them; between it and
    the receiver, the receiver sends in their place. It replaces what was said before."""

    names: tuple[str, ...]


LOCAMU_MESSAGES: Final = (
    Carried, MissingRequest, ProcessedCounts, PrefixesSkipped, PlacesNear, Unavailable, *GROUP_MESSAGES,
)  # fmt: skip


def length_of(changes: Changes) -> int:
    """More or less as they travel."""
    return _ENTRY * (len(changes) + sum([len(entries) for _, entries in changes]))
