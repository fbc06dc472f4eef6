"""What brokers say to each other: messages that are routed and confirmed, and what is said between two of them.

A *routed* message is for many. It carries where it has been (`visited`), and where it is to go when its receiver cannot
tell yet (`to`, which makes it a guided message). Each is confirmed to whoever sent it (`RoutesConfirmed`).
"""

from typing import Annotated, Final

import msgspec

from resprout.core.bundle import Bundle
from resprout.core.contract import ProtocolMessage
from resprout.core.message_fields import MARK_BYTES, BoundedNumber, Marks
from resprout.edge.messages import HELD_SUBSCRIPTIONS_MAX, RECEIVED_MARKS_MAX, HeldSubscription
from resprout.overlay.messages import Life, Place
from resprout_lab.blocks.crossing import Progress

DELTA_MAX: Final = 8
PAPER_ENTRY_BYTES: Final = 8
"""Of an entry of the visited list, a name and a number; one that was passed over takes as much."""
_NAME_BYTES: Final = 24
"""Of a name in a header, more or less as it travels."""

HopPath = tuple[str, ...]
"""Brokers in the order of the tree, the one that starts left out."""
BarrierId = tuple[str, ...]
"""The brokers of a barrier, in order of their names."""


class VisitedNode(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A broker on the way of a message, and the number that it gave it there."""

    name: str
    life: int
    """Numbers begin again with each life."""
    number: int
    """0: it was passed over."""


class SubscriptionId(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """One wish of one life of a broker, for all of its clients that have it."""

    name: str
    life: int
    number: int


class KnownSubscription(msgspec.Struct, frozen=True, array_like=True, gc=False):
    id: SubscriptionId
    filter: str
    where: str | None
    source: str
    """Its broker, or the one on the way there that is delta + 1 hops from whoever is told."""

    @property
    def bulk(self) -> int:
        return 64 + 4 * len(self.filter) + 4 * len(self.where or "")


class RoutedMessage(ProtocolMessage, frozen=True):
    """On its way to many. Each kind is a subclass."""

    place: int
    """Counts what is routed over this link, from 1."""
    hops: int
    """Between the broker where it began and its receiver, those that were passed over included."""
    visited: tuple[VisitedNode, ...]
    """The last of those on the way, delta + 1 at most."""
    to: tuple[HopPath, ...] | None
    """Guided: where it goes from the receiver on; None: the receiver knows."""

    @property
    def key(self) -> object:
        """The same for all copies of a message."""
        raise NotImplementedError

    @property
    def cancels(self) -> object:
        """The key of an earlier message that this one undoes; None: of none."""
        return None

    @property
    def published(self) -> Bundle | None:
        """The bundle of a publication."""
        return None


class RoutedPublication(RoutedMessage, frozen=True, tag=160):
    bundle: Bundle
    settled: int
    """Of those that the sender gave numbers to, all up to this are confirmed."""
    barriers: tuple[BarrierId, ...]
    """It has passed brokers that may lack subscriptions, because of these."""

    @property
    def key(self) -> object:
        return (*self.bundle.origin, self.bundle.first)

    @property
    def published(self) -> Bundle | None:
        return self.bundle

    @property
    def cost(self) -> int:
        return self.bundle.cost

    @property
    def bulk(self) -> int:
        names = len(self.visited) + sum(map(len, self.to or ())) + sum(map(len, self.barriers))
        return self.bundle.key_bytes + _NAME_BYTES * names

    @property
    def paper_bytes(self) -> int:
        return PAPER_ENTRY_BYTES * len(self.visited)


class RoutedCopies(RoutedPublication, frozen=True, tag=173):
    """A publication that too few brokers on the way to readers get."""

    copies: Annotated[int, msgspec.Meta(ge=1, le=DELTA_MAX)]
    """At least so many brokers beyond the receiver have to get it."""


class RoutedSubscription(RoutedMessage, frozen=True, tag=161):
    wish: KnownSubscription

    @property
    def key(self) -> object:
        return self.wish.id

    @property
    def bulk(self) -> int:
        return self.wish.bulk


class RoutedUnsubscription(RoutedMessage, frozen=True, tag=162):
    id: SubscriptionId
    """With the number 0: everything that earlier lives of that broker wanted."""

    @property
    def key(self) -> object:
        return "end", self.id

    @property
    def cancels(self) -> object:
        return self.id


class RoutedRejoin(RoutedMessage, frozen=True, tag=163):
    """A broker has joined, or is back: to everybody within delta + 1 hops of it."""

    name: str
    places: tuple[Place, ...]
    """Its own, and those of the brokers next to it."""

    @property
    def key(self) -> object:
        return self.name, max(place.incarnation for place in self.places if place.name == self.name)

    @property
    def bulk(self) -> int:
        return _bulk_of(self.places)


class RoutedHeal(RoutedMessage, frozen=True, tag=164):
    """What was not told beyond this barrier is known there now."""

    name: str
    number: int
    """By whom it is said, and under which number."""
    barrier: BarrierId

    @property
    def key(self) -> object:
        return self.name, self.number, self.barrier


class RoutedClaim(RoutedMessage, frozen=True, tag=171):
    """A client of a dead broker has come to the sender: send it what you keep and it lacks."""

    wish: SubscriptionId
    """A subscription of the sender. Answers go to its source."""
    number: BoundedNumber
    """Of the claim, at the sender."""
    home: Life
    """The broker that served the client last."""
    received: Annotated[Marks, msgspec.Meta(max_length=RECEIVED_MARKS_MAX)]
    subscriptions: Annotated[tuple[HeldSubscription, ...], msgspec.Meta(max_length=HELD_SUBSCRIPTIONS_MAX)]

    @property
    def key(self) -> object:
        return "claim", self.wish.name, self.wish.life, self.number

    @property
    def bulk(self) -> int:
        marks = len(self.received) + sum(len(held.base) for held in self.subscriptions)
        texts = sum(16 + 4 * len(held.filter) + 4 * len(held.where or "") for held in self.subscriptions)
        return MARK_BYTES * marks + texts


class RoutedHandover(RoutedMessage, frozen=True, tag=172):
    """An answer to a claim."""

    wish: SubscriptionId
    number: BoundedNumber
    bundle: Bundle | None
    """None: the client may lack something that is not kept any more."""

    @property
    def key(self) -> object:
        about = None if self.bundle is None else (*self.bundle.origin, self.bundle.first)
        return "handover", self.wish.name, self.wish.life, self.number, about

    @property
    def cost(self) -> int:
        return 0 if self.bundle is None else self.bundle.cost

    @property
    def bulk(self) -> int:
        names = len(self.visited) + sum(map(len, self.to or ()))
        return _NAME_BYTES * names + (0 if self.bundle is None else self.bundle.key_bytes)


class RoutesConfirmed(ProtocolMessage, frozen=True, tag=165):
    """Of what was routed over this link: everybody beyond here who can be reached has it."""

    upto: int
    """All of the first so many."""
    beyond: tuple[tuple[int, int], ...]
    """And these, first and last, of which nothing was said before."""
    barriers: tuple[tuple[int, tuple[BarrierId, ...]], ...]
    """By place: those beyond which nobody could be told."""

    @property
    def bulk(self) -> int:
        return 20 * len(self.beyond) + _NAME_BYTES * sum(len(b) for _, each in self.barriers for b in each)


class SyncRequest(ProtocolMessage, frozen=True, tag=166):
    """I begin: tell me what I need."""

    address: str
    as_child: bool
    """Take me in below you, if you do not know me."""


class SyncSnapshot(ProtocolMessage, frozen=True, tag=167):
    """The tree and the subscriptions as I know them, on my side of you."""

    is_operational: bool
    places: tuple[Place, ...]
    subscriptions: tuple[KnownSubscription, ...]
    more: bool

    @property
    def bulk(self) -> int:
        return _bulk_of(self.places) + sum(one.bulk for one in self.subscriptions)


class NotKnown(ProtocolMessage, frozen=True, tag=168):
    """To a `SyncRequest`: you are nowhere near here."""


class MeetRequest(ProtocolMessage, frozen=True, tag=169):
    """We are next to each other, past these dead; the first message of the link."""

    between: tuple[Life, ...]
    places: tuple[Place, ...]
    """Of the sender and of these dead: it may have joined one of them a moment before."""

    @property
    def bulk(self) -> int:
        return _bulk_of(self.places)


class NodeStatus(ProtocolMessage, frozen=True, tag=170):
    """I know all I need: no guided messages any more."""


ROUTED_MESSAGES: Final = (
    RoutedPublication, RoutedSubscription, RoutedUnsubscription, RoutedRejoin, RoutedHeal, RoutedClaim, RoutedHandover,
    RoutedCopies,
)  # fmt: skip
DELTA_MESSAGES: Final = (
    *ROUTED_MESSAGES, RoutesConfirmed, Progress, SyncRequest, SyncSnapshot, NotKnown, MeetRequest, NodeStatus,
)  # fmt: skip


def _bulk_of(places: tuple[Place, ...]) -> int:
    return _NAME_BYTES * sum(2 + len(place.neighbours) for place in places)
