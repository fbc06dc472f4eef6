"""What brokers say to each other about totals. Tags 68..70 and 79 of the wire, and row 10 of
parcels, belong to this file.

What is said of totals is said of every publication that is carried as one, whatever its own guarantee.

A total is named by its bundle's publisher, incarnation and first number: bundles are atomic, so that is enough. Numbers
that may be missing are -1 then.
"""

from collections.abc import Iterable
from typing import Annotated, ClassVar, Final

import msgspec

from resprout.core.bundle import Bundle
from resprout.core.contract import NeighbourMessage, Sender
from resprout.core.errors import PeerError
from resprout.core.guarantee import Guarantee
from resprout.core.message_fields import (
    BROKER_STAMPED,
    BoundedNumber,
    BrokerStamp,
    BundleMessage,
    Epoch,
    MaybeBrokerStamp,
    PlaceNumber,
)
from resprout.order.clock import check_stamp

TotalId = tuple[str, int, int]
"""(publisher, incarnation, first number) of a total's bundle."""

TotalPlace = tuple[int, int]
"""(epoch of the root, number): where a total stands in the one order. That of a bundle is the place of its first total;
those behind it follow."""

_NUMBER_BITS: Final = 40
_EPOCH_BITS: Final = 22
"""One less than there is room for in 63 bits, so that a root can still follow on whatever a peer may claim."""


def id_of(bundle: Bundle) -> TotalId:
    return (bundle.publisher, bundle.incarnation, bundle.first)


def tseq_of(place: TotalPlace) -> int:
    """A place as the one number that traces and subscribers see; it fits into 63 bits."""
    return place[0] << _NUMBER_BITS | place[1]


def epoch_of(tseq: int) -> int:
    """Of the root that gave a total this place; 0 for what has none."""
    return max(0, tseq) >> _NUMBER_BITS


class Submit(BundleMessage, frozen=True, tag=68):
    """To the parent: please have this total ordered."""

    said_by: ClassVar[Sender] = Sender.NEIGHBOUR

    bundle: Annotated[Bundle, BROKER_STAMPED]
    prompt: bool = False
    """Its publisher waits for receipts."""


class PlacedMessage(BundleMessage, frozen=True):
    """Says something about a total that has its place."""

    said_by: ClassVar[Sender] = Sender.NEIGHBOUR

    epoch: Epoch
    number: PlaceNumber
    bundle: Annotated[Bundle, BROKER_STAMPED]
    """With its final stamp when it is delivered."""


class Lock(PlacedMessage, frozen=True, tag=69):
    """The root has given this total its place. Locks cross every link in the order of their places."""

    prompt: bool = False
    """As in `Submit`."""


class Closed(NeighbourMessage, frozen=True, tag=70):
    """On my side of this link nothing more will be published on the total's keys until it is delivered; what was, has
    crossed this link already and is stamped no higher than this."""

    publisher: str
    incarnation: BoundedNumber
    first: BoundedNumber
    stamp: BrokerStamp


class KnownLock(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=10):
    """A row of a parcel: a total that has its place, as the sender knows it."""

    epoch: Epoch
    number: PlaceNumber
    bundle: Annotated[Bundle, BROKER_STAMPED]
    """With its final stamp when it is delivered."""
    stamp: MaybeBrokerStamp = -1
    """Its final stamp; -1 while it is not delivered at the sender, or, in a `Grant`, at anybody."""
    told: MaybeBrokerStamp = -1
    """In an `Attach`: what the member had said `Closed` with to the dead broker."""
    heard: MaybeBrokerStamp = -1
    """In an `Attach`: what the dead broker had said `Closed` with to the member."""
    active: bool = False
    """In a `Welcome`: its keys are closed at the parent, so they are at the newcomer."""


class TotalCopy(PlacedMessage, frozen=True, tag=79):
    """To a neighbour that came later than this total was delivered: keep it with me, until my readers have taken it."""

    prompt: bool = False
    """As in `Submit`."""


TOTAL_MESSAGES = (Submit, Lock, Closed, TotalCopy)


def check_locks(locks: Iterable[PlacedMessage | KnownLock]) -> None:
    """Raise PeerError for what no honest broker says. Receivers of locks call this before anything else."""
    for lock in locks:
        check_total(lock.bundle)
        if lock.epoch >> _EPOCH_BITS or lock.number >> _NUMBER_BITS:
            raise PeerError(f"{lock.bundle!r} at the impossible place {lock.epoch}, {lock.number}")
        if isinstance(lock, KnownLock):
            check_stamp(max(lock.stamp, lock.told, lock.heard))
            if lock.stamp >= 0 and lock.stamp != lock.bundle.stamp:
                raise PeerError(f"{lock.bundle!r} is said to be delivered at {lock.stamp}")


def check_total(bundle: Bundle) -> None:
    if bundle.guarantee is Guarantee.EVENTUAL:
        raise PeerError(f"{bundle!r} has no place in any order")
    check_stamp(bundle.stamp)
