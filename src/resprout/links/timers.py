"""The wake-ups of the links floor. Acknowledgements and the watch serve all sessions with one timer each."""

from resprout.core.contract import Timer


class AcknowledgeDue(Timer, frozen=True):
    """When to acknowledge what no data has acknowledged meanwhile. A peer that waits for room does not depend on it."""

    @property
    def background(self) -> bool:
        return True


class FreeAcknowledgeDue(AcknowledgeDue, frozen=True):
    """When to acknowledge what cost nothing, and has found nothing to ride on."""


class TurnOver(Timer, frozen=True):
    """When to ship what waits for whatever else comes at the same moment."""


class WatchDue(Timer, frozen=True):
    """When to look at every connection: is a heartbeat due, has the peer fallen silent."""

    @property
    def background(self) -> bool:
        return True


class ReconnectDue(Timer, frozen=True):
    """When to try again to connect to a peer. Not housekeeping: messages may be waiting on either side."""

    peer: str


class LingerOver(Timer, frozen=True):
    """When to give up a session whose peer has opened it, lost its connection and not come back."""

    peer: str
