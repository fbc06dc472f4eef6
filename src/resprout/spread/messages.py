"""What neighbours say about interest. Tags 48..63 of the wire belong to this file.

`Outbound` lists messages for neighbours, in the order in which they must be sent.
"""

from typing import ClassVar

from resprout.core.contract import Departure, NeighbourMessage, ProtocolMessage
from resprout.core.message_fields import MARK_BYTES, BoundedNumber, Marks

Outbound = list[tuple[str, ProtocolMessage]]


class Interested(NeighbourMessage, frozen=True, tag=48):
    """Send what matches from now on. `id` is the sender's, so that a late answer to a withdrawn wish is told apart."""

    leaves: ClassVar[Departure] = Departure.TURN

    id: BoundedNumber
    filter: str
    where: str | None


class InterestConfirmed(NeighbourMessage, frozen=True, tag=49):
    """Every broker behind this link sends what matches from now on."""

    leaves: ClassVar[Departure] = Departure.TURN

    id: BoundedNumber
    base: Marks = ()
    """Of what is still on its way there: how far each origin had come before the interest was known."""
    more: bool = False
    """It is not confirmed yet: more of the base follows."""

    @property
    def bulk(self) -> int:
        return MARK_BYTES * len(self.base)


class Uninterested(NeighbourMessage, frozen=True, tag=50):
    leaves: ClassVar[Departure] = Departure.TURN

    id: BoundedNumber


SPREAD_MESSAGES = (Interested, InterestConfirmed, Uninterested)
