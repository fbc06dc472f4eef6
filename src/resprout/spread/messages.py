"""What neighbours say about interest. Tags 48..63 of the wire belong to this file.

`Outbound` lists messages for neighbours, in the order in which they must be sent.
"""

from typing import ClassVar

from resprout.core.contract import Departure, NeighbourMessage, ProtocolMessage
from resprout.core.message_fields import MARK_BYTES, BoundedNumber, Marks

Outbound = list[tuple[str, ProtocolMessage]]


class Interested(NeighbourMessage, frozen=True, tag=48):
    """Asks the neighbour to send what matches from now on. The sender chooses `id`, to tell apart a late answer to a
    withdrawn wish."""

    leaves: ClassVar[Departure] = Departure.TURN

    id: BoundedNumber
    filter: str
    where: str | None


class InterestConfirmed(NeighbourMessage, frozen=True, tag=49):
    """Every broker behind this link sends what matches from now on."""

    leaves: ClassVar[Departure] = Departure.TURN

    id: BoundedNumber
    base: Marks = ()
    """How far each origin with something still in flight had come before the interest was known."""
    more: bool = False
    """Whether more of the base follows; the last part confirms."""

    @property
    def bulk(self) -> int:
        return MARK_BYTES * len(self.base)


class Uninterested(NeighbourMessage, frozen=True, tag=50):
    """Withdraws a wish."""

    leaves: ClassVar[Departure] = Departure.TURN

    id: BoundedNumber


SPREAD_MESSAGES = (Interested, InterestConfirmed, Uninterested)
