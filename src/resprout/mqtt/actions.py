"""Actions that the session state machine returns. The driver executes them in the order of the list."""

from typing import TypeAlias

import msgspec

from resprout.core.limits import AttributeValue
from resprout.mqtt.packets import FilterRequest, Packet, Will
from resprout.mqtt.records import Subscription


class SendPacket(msgspec.Struct, frozen=True, gc=False):
    packet: Packet
    """Packet to encode in the protocol version of the connection."""


class CloseConnection(msgspec.Struct, frozen=True, gc=False):
    """Close the connection once everything queued is sent. The machine expects no further calls for this connection."""

    reason: int
    """MQTT 5 reason code; 0 if the client disconnected."""
    text: str


class OpenSession(msgspec.Struct, frozen=True, gc=False):
    """Authenticate the client and open its session. The driver calls `opened` or `refused` with the result."""

    client_id: str
    """Client identifier; empty if the driver has to assign one."""
    clean_start: bool
    expiry: int
    """Session expiry in seconds; 0xFFFFFFFF if the session never expires."""
    username: str | None
    password: bytes | None
    will: Will | None
    keep_alive: int


class PublishMessage(msgspec.Struct, frozen=True, gc=False):
    """Publish a message in the tree. If `waits`, the driver calls `safe` or `publish_refused` with the result; for QoS
    0 it may only call `publish_refused`."""

    token: int
    topic: str
    payload: bytes
    guarantee: str | None
    """Value of the user property `resprout-guarantee`, not validated."""
    attributes: dict[str, AttributeValue]
    waits: bool
    packet_id: int = 0
    """Packet identifier of a QoS 2 publication, which the session keeps until PUBREL."""


class BeginSubscriptions(msgspec.Struct, frozen=True, gc=False):
    """Subscribe in the tree. The driver calls `subscribed` with the result."""

    token: int
    requests: tuple[tuple[str, str, FilterRequest, bool], ...]
    """For each subscription: topic filter, share name or "", the requested options, whether it is new in this
    session."""


class SendRetained(msgspec.Struct, frozen=True, gc=False):
    """Pass the retained messages that match a new subscription to `deliver_retained`, as far as `retained_room`
    permits."""

    subscription: Subscription


class EndSubscriptions(msgspec.Struct, frozen=True, gc=False):
    """Unsubscribe in the tree. The driver calls `unsubscribed` with the result."""

    token: int
    filters: tuple[str, ...]
    """Topic filters as the client sent them, with `$share/NAME/` for shared subscriptions."""


class SaveSession(msgspec.Struct, frozen=True, gc=False):
    """Publish `SessionState.dump` in the tree. Until the dump is safe, the driver holds back later packets of this
    connection and later `AckMessages` actions. The dump is published by the session's own client, so it is ordered
    after the client's earlier publications."""


class AckMessages(msgspec.Struct, frozen=True, gc=False):
    """Acknowledge the next `count` messages passed to `deliver`, in delivery order."""

    count: int


class PublishWill(msgspec.Struct, frozen=True, gc=False):
    """Publish the will now."""

    will: Will


class EndSession(msgspec.Struct, frozen=True, gc=False):
    """End the session: remove its subscriptions and its state."""


Action: TypeAlias = (
    SendPacket
    | CloseConnection
    | OpenSession
    | PublishMessage
    | BeginSubscriptions
    | SendRetained
    | EndSubscriptions
    | SaveSession
    | AckMessages
    | PublishWill
    | EndSession
)
