"""What a session remembers of its subscriptions, of messages on their way to the client, and of those from it."""

import msgspec

from resprout.core.message import Message
from resprout.mqtt.packets import Wish


class Subscription(msgspec.Struct, frozen=True, gc=False):
    wish: Wish
    """With the filter as the client wrote it."""
    topic_filter: str
    group: str = ""
    """The name of a shared subscription."""
    identifier: int = 0
    """0 for none."""


class Match(msgspec.Struct, frozen=True, gc=False):
    """How a message is sent that one or several subscriptions of a session match."""

    qos: int
    """The highest one that was granted."""
    retain_as_published: bool
    """Whether any of them wants it."""
    identifiers: tuple[int, ...]


class Outbound(msgspec.Struct):
    """A message on its way to the client."""

    message: Message | None
    """None for one that the client has, and that an earlier broker knew."""
    qos: int
    retain: bool
    identifiers: tuple[int, ...]
    expires_us: int
    """By the wall clock; 0 for never."""
    is_given: bool
    """Whether the tree waits for it to be done; retained messages come from elsewhere."""
    source: str = ""
    """The filter of the subscription by which it came, if the tree said so."""
    packet_id: int = 0
    is_sent: bool = False
    """Whether the client may have it."""
    is_released: bool = False
    """Whether the client has it (PUBREC), and PUBCOMP is missing."""
    is_counted: bool = False
    """Whether it counts against the receive maximum of this connection."""
    is_done: bool = False


class Flight(msgspec.Struct, frozen=True, array_like=True):
    """What has to be remembered of a message with QoS 2 on its way to the client."""

    packet_id: int
    """0 if PUBCOMP has come: the message must not be sent again."""
    source: str
    publisher: str
    epoch: int
    stream: str
    seq: int
    is_released: bool


class Inbound(msgspec.Struct):
    """A publication of the client with QoS 1 or 2."""

    packet_id: int
    qos: int
    connection: int
    """The connection that waits for its acknowledgement."""
    reason: int = -1
    """Of the acknowledgement; -1 until the tree has answered."""


class Asked(msgspec.Struct):
    """A SUBSCRIBE or UNSUBSCRIBE that the tree has not answered."""

    packet_id: int
    connection: int
    reasons: list[int]
    """By filter; -1 where the tree is asked."""
    new: list[tuple[Subscription, Subscription | None]]
    """By filter that the tree is asked for: the subscription, and the one that it replaces."""
