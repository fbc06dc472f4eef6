"""What clients and brokers say to each other about positions in logs. Tags 323 and 324."""

from resprout.core.contract import ClientMessage, ProtocolMessage
from resprout.core.message_fields import BoundedNumber, PositionOffset


class AskPosition(ClientMessage, frozen=True, tag=323):
    """Store how far a reader of a log has come, by name; or tell it. Answered by `PositionTold`."""

    id: BoundedNumber
    """Chosen by the client, unique within its incarnation."""
    log: str
    name: str
    offset: PositionOffset
    """Where to go on reading; -1: forget the position; -2: only tell it."""
    version: BoundedNumber = 0
    """The one that the client has seen; 0: any, or none yet for one that is forced."""
    forced: bool = False
    """It may go back, and its version is counted up."""
    owner: str = ""
    """Of a forced one: a name that no other change has."""


class PositionTold(ProtocolMessage, frozen=True, tag=324):
    """Answer to `AskPosition`."""

    id: BoundedNumber
    offset: PositionOffset
    """As it is stored; -1: there is none."""
    version: BoundedNumber
    end: BoundedNumber
    """The offset behind the last message of the log."""
    reason: str = ""
    """Why it was not changed, or cannot be told; empty otherwise."""
    retryable: bool = False
    """The same question may be answered later."""


POSITION_MESSAGES = (AskPosition, PositionTold)
