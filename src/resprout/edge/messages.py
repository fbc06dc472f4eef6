"""Messages between a client and its broker. Tags 16..47 of the wire belong to this file."""

from resprout.core.bundle import Bundle
from resprout.core.contract import ProtocolMessage
from resprout.core.guarantee import Guarantee, Receipt

# client to broker


class Publish(ProtocolMessage, frozen=True, tag=16):
    bundle: Bundle
    prompt: bool = True
    """Somebody waits for the receipts: tell them at once, all the way. Otherwise they may wait for company."""

    @property
    def cost(self) -> int:
        return self.bundle.cost


class Subscribe(ProtocolMessage, frozen=True, tag=17):
    id: int
    """Chosen by the client, unique within its incarnation."""
    filter: str
    where: str | None


class Unsubscribe(ProtocolMessage, frozen=True, tag=18):
    id: int


class Advertise(ProtocolMessage, frozen=True, tag=19):
    """This client may publish on the topic; implied by its first publication there."""

    topic: str


class Unadvertise(ProtocolMessage, frozen=True, tag=20):
    topic: str


class Taken(ProtocolMessage, frozen=True, tag=21):
    """The client's code has everything up to this delivery, counted from 1 in the session."""

    deliveries: int


# broker to client


class Serving(ProtocolMessage, frozen=True, tag=32):
    """First message of a session: what this network offers."""

    stack: str
    guarantees: tuple[Guarantee, ...]
    faults_tolerated: int


class Subscribed(ProtocolMessage, frozen=True, tag=33):
    """From here on nothing that matches is missed."""

    id: int


class SubscribeRefused(ProtocolMessage, frozen=True, tag=34):
    id: int
    reason: str


class Unsubscribed(ProtocolMessage, frozen=True, tag=35):
    """Nothing of this subscription comes after this."""

    id: int


class Delivery(ProtocolMessage, frozen=True, tag=36):
    bundle: Bundle
    hops: int
    metadata_bytes: int
    """Ordering bytes that the bundle cost on its last link."""
    offsets: tuple[int, ...] | None
    """Where a content filter picked some messages: their places in the original bundle."""
    prompt: bool = False
    """The publisher waits: say at once that it is taken."""

    @property
    def cost(self) -> int:
        return self.bundle.cost


class Turned(ProtocolMessage, frozen=True, tag=37):
    """Every publication of the stream up to this one has reached this receipt."""

    stream: str
    receipt: Receipt
    seq: int


class PublishRefused(ProtocolMessage, frozen=True, tag=38):
    """These publications will never be delivered: definite."""

    stream: str
    first: int
    count: int
    reason: str


CLIENT_MESSAGES = (
    Publish, Subscribe, Unsubscribe, Advertise, Unadvertise, Taken,
    Serving, Subscribed, SubscribeRefused, Unsubscribed, Delivery, Turned, PublishRefused,
)  # fmt: skip
