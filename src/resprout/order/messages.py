"""What brokers with a log each say to each other about it. Tags 64..79 of the wire belong to this file."""

from resprout.core.bundle import Bundle
from resprout.core.contract import ProtocolMessage


class Forward(ProtocolMessage, frozen=True, tag=64):
    """The next bundle of the sender's log that this link is owed."""

    bundle: Bundle
    hops: int
    """Links between brokers that it has crossed, this one included."""
    prompt: bool = False
    """Its publisher waits: report its delivery at once."""

    @property
    def cost(self) -> int:
        return self.bundle.cost


class Levels(ProtocolMessage, frozen=True, tag=65):
    """Cumulative acknowledgement, in bundles counted from 1 per direction of this link; see `order.link`."""

    taken: tuple[int, ...]
    """taken[k]: so many of yours have reached level k here."""
    spread: tuple[int, ...]
    """spread[k - 1]: so many of mine, of those you were sent, have reached level k here."""
    done: int
    """So many of yours are delivered to everyone behind me."""


class Ready(ProtocolMessage, frozen=True, tag=66):
    """You have heard everything that is wanted on my side: start sending."""


BROKER_MESSAGES = (Forward, Levels, Ready)
