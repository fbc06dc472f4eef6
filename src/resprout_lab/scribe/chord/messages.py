"""What members of a ring say to each other. Tags 284 to 287 of the wire belong to this file."""

from typing import Final

from resprout.core.contract import ProtocolMessage
from resprout.core.errors import PeerError
from resprout.overlay.wires import OverlayMember
from resprout_lab.scribe.chord.options import SUCCESSORS_SAID_MAX


class FindOwner(ProtocolMessage, frozen=True, tag=284):
    """Whose is this key? On its way to whoever can tell the one that asks."""

    key: bytes
    origin: OverlayMember
    number: int
    """By which the origin knows the answer."""
    hops: int
    routine: bool
    """Asked now and then, whatever happens: nobody waits for it."""

    @property
    def background(self) -> bool:
        return self.routine


class OwnerFound(ProtocolMessage, frozen=True, tag=285):
    number: int
    owner: OverlayMember
    hops: int
    routine: bool

    @property
    def background(self) -> bool:
        return self.routine


class AskSuccessor(ProtocolMessage, frozen=True, tag=286):
    """Who precedes you, and who follows? I am before you on the ring, or will be (`joins`)."""

    address: str
    joins: bool

    @property
    def background(self) -> bool:
        return not self.joins


class SuccessorSays(ProtocolMessage, frozen=True, tag=287):
    predecessor: OverlayMember | None
    successors: tuple[OverlayMember, ...]
    address: str
    joins: bool

    @property
    def background(self) -> bool:
        return not self.joins

    def check(self) -> None:
        """PeerError for what no honest member says."""
        if len(self.successors) > SUCCESSORS_SAID_MAX:
            raise PeerError(f"{len(self.successors)} successors in one message; at most {SUCCESSORS_SAID_MAX}")


CHORD_MESSAGES: Final = (FindOwner, OwnerFound, AskSuccessor, SuccessorSays)
