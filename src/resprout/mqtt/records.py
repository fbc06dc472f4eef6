"""Records of a session: subscriptions, messages to the client, publications from the client."""

import msgspec

from resprout.core.message import Message
from resprout.mqtt.packets import FilterRequest


class Subscription(msgspec.Struct, frozen=True, gc=False):
    request: FilterRequest
    """Requested options, with the topic filter as the client sent it."""
    topic_filter: str
    group: str = ""
    """Share name of a shared subscription; empty for others."""
    identifier: int = 0
    """Subscription identifier; 0 if there is none."""


class Match(msgspec.Struct, frozen=True, gc=False):
    """Delivery options for a message, merged from all subscriptions of the session that match it."""

    qos: int
    """Highest granted QoS of the matching subscriptions."""
    retain_as_published: bool
    """Whether any matching subscription has Retain As Published."""
    identifiers: tuple[int, ...]


class Outbound(msgspec.Struct):
    """Message to the client."""

    message: Message | None
    """Message; None if the client received it from an earlier broker and only PUBREL and PUBCOMP remain."""
    qos: int
    retain: bool
    identifiers: tuple[int, ...]
    expires_us: int
    """Expiry time in microseconds since 1970; 0 if it does not expire."""
    is_from_tree: bool
    """Whether the message came through `deliver` and must be reported as done; False for retained messages."""
    source: str = ""
    """Filter of the durable subscription that delivered the message; empty if there is none."""
    packet_id: int = 0
    is_sent: bool = False
    """Whether it was sent, so the client may have received it."""
    is_released: bool = False
    """Whether PUBREC was received and PUBCOMP is outstanding."""
    is_counted: bool = False
    """Whether it counts against the receive maximum of this connection."""
    is_done: bool = False


class Flight(msgspec.Struct, frozen=True, array_like=True):
    """State of a QoS 2 message in a session dump."""

    packet_id: int
    """Packet identifier; 0 after PUBCOMP, when the message must not be sent again."""
    source: str
    publisher: str
    epoch: int
    stream: str
    seq: int
    is_released: bool


class Inbound(msgspec.Struct):
    """QoS 1 or 2 publication from the client."""

    packet_id: int
    qos: int
    connection: int
    """Number of the connection that expects the acknowledgement."""
    reason: int = -1
    """Reason code of the acknowledgement; -1 until the tree has answered."""
    is_released: bool = False
    """Whether PUBREL came before PUBREC was sent."""


class PendingRequest(msgspec.Struct):
    """SUBSCRIBE or UNSUBSCRIBE that is not answered yet."""

    packet_id: int
    connection: int
    reasons: list[int]
    """Reason code of each filter; -1 while the tree has not answered."""
    new: list[tuple[Subscription, Subscription | None]]
    """Requested subscriptions, each with the subscription that it replaces or None."""
