"""The messages by which members of HyParView agree on neighbours. Tags 272 to 279 of the wire belong to this file."""

from typing import Final

from resprout.core.contract import ProtocolMessage
from resprout_lab.blocks.mesh import OverlayMember


class JoinOverlay(ProtocolMessage, frozen=True, tag=272):
    """I am new: be my neighbour, and tell the others. Answered like a request, and never declined."""

    number: int
    address: str
    routine: bool = False

    @property
    def background(self) -> bool:
        return self.routine


class ForwardJoin(ProtocolMessage, frozen=True, tag=273):
    """This member is new. Whoever hears it when no steps are left asks it to be a neighbour."""

    newcomer: OverlayMember
    steps: int


class NeighbourRequest(ProtocolMessage, frozen=True, tag=274):
    """Be my neighbour."""

    number: int
    address: str
    urgent: bool
    """There is nobody else: another neighbour has to give way."""
    routine: bool
    """Asked now and then, whatever happens: nobody waits for it."""

    @property
    def background(self) -> bool:
        return self.routine


class NeighbourAnswer(ProtocolMessage, frozen=True, tag=275):
    number: int
    """Of the request."""
    accepted: bool
    address: str
    routine: bool
    others: tuple[OverlayMember, ...] = ()
    """For a newcomer: who else there is."""

    @property
    def background(self) -> bool:
        return self.routine


class NeighbourDropped(ProtocolMessage, frozen=True, tag=276):
    """We are no neighbours any more."""

    others: tuple[OverlayMember, ...]
    """Who may be asked in its place."""
    leaving: bool = False
    """The sender leaves the overlay."""


class Shuffle(ProtocolMessage, frozen=True, tag=277):
    """Some members that its origin knows. Where no steps are left, the origin is told of as many others."""

    origin: OverlayMember
    steps: int
    members: tuple[OverlayMember, ...]

    @property
    def background(self) -> bool:
        return True


class ShuffleReply(ProtocolMessage, frozen=True, tag=278):
    members: tuple[OverlayMember, ...]

    @property
    def background(self) -> bool:
        return True


HYPARVIEW_MESSAGES: Final = (
    JoinOverlay, ForwardJoin, NeighbourRequest, NeighbourAnswer, NeighbourDropped, Shuffle, ShuffleReply,
)  # fmt: skip
