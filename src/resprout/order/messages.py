"""Messages between brokers about their logs and about totals, and the timers of reports.

Tags 64..72 and 79 of the wire, and rows 10 and 16 of parcels, belong to this file. What is said of totals is said of
every publication that is carried as one, whatever its own guarantee. A total is named by its bundle's publisher,
incarnation and first number: bundles are atomic, so that is enough. Numbers that may be missing are -1 then.

The timers stand here and not with the reports, because structures are not compiled and reports are.
"""

from collections.abc import Iterable
from typing import Annotated, ClassVar, Final

import msgspec

from resprout.core.bundle import Bundle
from resprout.core.contract import NeighbourMessage, Sender, Timer
from resprout.core.errors import PeerError
from resprout.core.guarantee import Guarantee
from resprout.core.message_fields import (
    BROKER_STAMPED,
    BoundedNumber,
    BrokerStamp,
    BundleMessage,
    Derived,
    Epoch,
    Hops,
    MaybeBrokerStamp,
    Otherwise,
    PlaceNumber,
    TotalSequence,
)
from resprout.order.clock import check_stamp

CROSSED: Final = Derived("bundles that crossed the link in that direction", Otherwise.CUT_OFF)

TotalId = tuple[str, int, int]
"""(publisher, incarnation, first number) of a total's bundle."""

TotalPlace = tuple[int, int]
"""(epoch of the root, number): a position in the total order. A bundle has the place of its first total; the others
follow."""

_NUMBER_BITS: Final = 40
_EPOCH_BITS: Final = 22
"""One less than there is room for in 63 bits, so that a root can still follow on whatever a peer may claim."""


class Forward(BundleMessage, frozen=True, tag=64):
    """The next bundle of the sender's log for this link."""

    said_by: ClassVar[Sender] = Sender.NEIGHBOUR

    bundle: Annotated[Bundle, BROKER_STAMPED]
    hops: Hops
    """Links between brokers that it has crossed, this one included."""
    prompt: bool = False
    """Whether its publisher waits for `delivered`: report it at once."""
    is_backup: bool = False
    """Whether it is a copy to store only: no reader on the receiver's side is owed it, but too few brokers have it."""


class Republished(BundleMessage, frozen=True, tag=67):
    """A bundle of the log from before a full restart; like `Forward`."""

    said_by: ClassVar[Sender] = Sender.NEIGHBOUR

    bundle: Annotated[Bundle, BROKER_STAMPED]
    hops: Hops
    tseq: TotalSequence
    """Place of a total in the total order."""
    owed: tuple[str, ...]
    """Brokers that it was on its way to, as far as is known."""

    def passed_on(self, bundle: Bundle, hops: int) -> "Republished":
        """Return the message for the next hop; `bundle`: the same bundle, whose columns may be on disk here."""
        return Republished(bundle, hops, self.tseq, self.owed)


class Ahead(msgspec.Struct, frozen=True, array_like=True):
    """A range of bundles that have reached a rung, beyond its count in `Levels`."""

    rung: Annotated[int, msgspec.Meta(ge=-64, le=64)]
    """0 is `Levels.done`, k is `firm[k - 1]`, and -k is `back_firm[k - 1]`."""
    first: BoundedNumber
    last: BoundedNumber


class Levels(NeighbourMessage, frozen=True, tag=65):
    """Cumulative acknowledgement, in bundles counted from 1 per direction of this link; see `order.entry` for what the
    levels mean and `order.link` for the counting."""

    have: Annotated[tuple[BoundedNumber, ...], CROSSED]
    """have[k]: how many bundles of the receiver have reach k at the sender."""
    firm: Annotated[tuple[BoundedNumber, ...], CROSSED]
    """firm[k - 1]: how many bundles of the receiver have level k at the sender."""
    back_have: Annotated[tuple[BoundedNumber, ...], CROSSED]
    """back_have[k - 1]: how many bundles that the sender sent to the receiver have reach k at the sender."""
    back_firm: Annotated[tuple[BoundedNumber, ...], CROSSED]
    """back_firm[k - 1]: how many bundles that the sender sent to the receiver have level k at the sender."""
    done: Annotated[BoundedNumber, CROSSED]
    """How many bundles of the receiver are delivered to all readers at and behind the sender."""
    ahead: Annotated[tuple[Ahead, ...], CROSSED] = ()
    """Further ranges, beyond a bundle that has not come so far; each is reported once."""


BROKER_MESSAGES = (Forward, Republished, Levels)


class ReportTaken(Timer, frozen=True):
    """When to tell neighbours, and clients that do not wait for it, how far the bundles that they sent have come."""


class ReportSpread(Timer, frozen=True):
    """When to tell neighbours how far the bundles that they were sent have come elsewhere."""


class ReportTotals(Timer, frozen=True):
    """When to tell neighbours of totals that are not delivered everywhere yet."""


def id_of(bundle: Bundle) -> TotalId:
    return (bundle.publisher, bundle.incarnation, bundle.first)


def tseq_of(place: TotalPlace) -> int:
    """Return a place as the number that traces and subscribers see; it fits into 63 bits."""
    return place[0] << _NUMBER_BITS | place[1]


def epoch_of(tseq: int) -> int:
    """Return the epoch of the root that gave a total this place; 0 without a place."""
    return max(0, tseq) >> _NUMBER_BITS


class Submit(BundleMessage, frozen=True, tag=68):
    """Asks the parent to have this total ordered."""

    said_by: ClassVar[Sender] = Sender.NEIGHBOUR

    bundle: Annotated[Bundle, BROKER_STAMPED]
    prompt: bool = False
    """Whether its publisher waits for receipts."""


class PlacedMessage(BundleMessage, frozen=True):
    """Base of messages about a total that has its place."""

    said_by: ClassVar[Sender] = Sender.NEIGHBOUR

    epoch: Epoch
    number: PlaceNumber
    bundle: Annotated[Bundle, BROKER_STAMPED]
    """Carries its final stamp once it is delivered."""


class Lock(PlacedMessage, frozen=True, tag=69):
    """Tells the place that the root has given this total. Locks cross every link in the order of their places."""

    prompt: bool = False
    """As in `Submit`."""
    root_ordered: bool = False
    """Whether its topics are root-ordered from now on (`order.totals.root_order`)."""


class OrderedTotal(PlacedMessage, frozen=True, tag=71):
    """A total that the root has delivered, with its final stamp: deliver it, and pass it on to whoever wants it."""

    hops: Hops
    """Links between brokers that it has crossed from the root, this one included."""
    prompt: bool = False
    """As in `Submit`."""


class AlreadyOrdered(NeighbourMessage, frozen=True, tag=72):
    """Answers a `Submit`: that total was ordered before, and the sender has delivered it. It is not told where nobody
    reads it."""

    publisher: str
    incarnation: BoundedNumber
    first: BoundedNumber
    stamp: BrokerStamp
    """The clock of the sender."""


class Closed(NeighbourMessage, frozen=True, tag=70):
    """Nothing more will be published on the total's keys, on the sender's side of this link, until it is delivered.
    What was published has crossed this link already, with a stamp no higher than this."""

    publisher: str
    incarnation: BoundedNumber
    first: BoundedNumber
    stamp: BrokerStamp


class KnownLock(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=10):
    """A row of a parcel: a total that has its place, as the sender knows it."""

    epoch: Epoch
    number: PlaceNumber
    bundle: Annotated[Bundle, BROKER_STAMPED]
    """Carries its final stamp once it is delivered."""
    stamp: MaybeBrokerStamp = -1
    """Its final stamp; -1 while it is not delivered at the sender, or, in a `Grant`, at anybody."""
    told: MaybeBrokerStamp = -1
    """In an `Attach`: the stamp of the `Closed` that the member had sent to the dead broker."""
    heard: MaybeBrokerStamp = -1
    """In an `Attach`: the stamp of the `Closed` that the dead broker had sent to the member."""
    active: bool = False
    """In a `Welcome`: whether it is active at the parent, and therefore at the newcomer."""
    is_scoped: bool = False
    """Whether the root has published it (`OrderedTotal`), so that not all brokers know it."""
    root_ordered: bool = False
    """As in `Lock`."""


class RootOrderedTopic(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=16):
    """A row of a parcel: a topic all of whose ordered publications with keys go to the root."""

    topic: str
    is_settled: bool
    """Whether all brokers know that."""


class TotalCopy(PlacedMessage, frozen=True, tag=79):
    """Asks a neighbour that joined after this total was delivered to store it, until the sender's readers have taken
    it."""

    prompt: bool = False
    """As in `Submit`."""
    is_scoped: bool = False
    """As in `KnownLock`."""


TOTAL_MESSAGES = (Submit, Lock, OrderedTotal, AlreadyOrdered, Closed, TotalCopy)


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
