"""What brokers with a log each say to each other about it. Tags 64..67 of the wire belong to this file."""

from typing import Annotated, ClassVar, Final

import msgspec

from resprout.core.bundle import Bundle
from resprout.core.contract import NeighbourMessage, Sender
from resprout.core.message_fields import (
    BROKER_STAMPED,
    BoundedNumber,
    BundleMessage,
    Derived,
    Hops,
    Otherwise,
    TotalSequence,
)

CROSSED: Final = Derived("bundles that crossed the link in that direction", Otherwise.CUT_OFF)


class Forward(BundleMessage, frozen=True, tag=64):
    """The next bundle of the sender's log that this link is owed."""

    said_by: ClassVar[Sender] = Sender.NEIGHBOUR

    bundle: Annotated[Bundle, BROKER_STAMPED]
    hops: Hops
    """Links between brokers that it has crossed, this one included."""
    prompt: bool = False
    """Its publisher waits: report its delivery at once."""
    is_backup: bool = False
    """Only to be kept: nobody on your side is owed it, but too few brokers have it."""


class Republished(BundleMessage, frozen=True, tag=67):
    """A bundle of the log that everybody had before everything stopped; as in `Forward`."""

    said_by: ClassVar[Sender] = Sender.NEIGHBOUR

    bundle: Annotated[Bundle, BROKER_STAMPED]
    hops: Hops
    tseq: TotalSequence
    """Of a total: its place in the one order."""
    owed: tuple[str, ...]
    """Brokers that it was on its way to, as far as is known."""

    def passed_on(self, bundle: Bundle, hops: int) -> "Republished":
        """`bundle`: the same, which may lie on disk here."""
        return Republished(bundle, hops, self.tseq, self.owed)


class Ahead(msgspec.Struct, frozen=True, array_like=True):
    """A range of bundles."""

    rung: Annotated[int, msgspec.Meta(ge=-64, le=64)]
    """0 is `Levels.done`, k is `firm[k - 1]`, and -k is `back_firm[k - 1]`."""
    first: BoundedNumber
    last: BoundedNumber


class Levels(NeighbourMessage, frozen=True, tag=65):
    """Cumulative acknowledgement, in bundles counted from 1 per direction of this link; see `order.entry` for what the
    levels mean and `order.link` for the counting."""

    have: Annotated[tuple[BoundedNumber, ...], CROSSED]
    """have[k]: so many of yours have reach k here."""
    firm: Annotated[tuple[BoundedNumber, ...], CROSSED]
    """firm[k - 1]: so many of yours have level k here."""
    back_have: Annotated[tuple[BoundedNumber, ...], CROSSED]
    """back_have[k - 1]: so many of mine, of those you were sent, have reach k here."""
    back_firm: Annotated[tuple[BoundedNumber, ...], CROSSED]
    """back_firm[k - 1]: so many of mine, of those you were sent, have level k here."""
    done: Annotated[BoundedNumber, CROSSED]
    """So many of yours are delivered to everyone behind me."""
    ahead: Annotated[tuple[Ahead, ...], CROSSED] = ()
    """These, too, though one before them is not; each is said once."""


BROKER_MESSAGES = (Forward, Republished, Levels)
