"""Limits and optional features of the server, per client."""

from typing import Final

import msgspec

from resprout.core.errors import UsageError
from resprout.mqtt.decoder import PACKET_BYTES_MAX
from resprout.mqtt.packets import PACKET_ID_MAX

SECOND_US: Final = 1_000_000
NEVER_SECONDS: Final = 0xFFFFFFFF
"""Session expiry of a session that never expires."""


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    receive_maximum: int = 256
    """Maximum number of unacknowledged QoS 1 and 2 publications from an MQTT 5 client."""
    unreleased_max: int = 4_096
    """Maximum number of QoS 2 publications without PUBREL from an MQTT 3 client. Each note of a session names them."""
    packet_bytes_max: int = PACKET_BYTES_MAX
    """Maximum size of a packet from the client in bytes. The decoder of the connection enforces it."""
    topic_alias_max: int = 64
    """Topic alias maximum that the server announces, and the most aliases that it uses towards the client."""
    session_expiry_max: int = NEVER_SECONDS
    """Maximum session expiry in seconds."""
    keep_alive_max: int = 0
    """Maximum keep alive in seconds, also used if the client requests 0; 0 for no maximum."""
    connect_seconds: int = 10
    """Seconds from the start of a connection to CONNECT."""
    opening_seconds: int = 30
    """Timeout for opening a session in the tree, in seconds."""
    flight_max: int = 1_024
    """Maximum number of unacknowledged QoS 1 and 2 messages to the client; its receive maximum may lower it."""
    waiting_max: int = 256
    """Number of messages that may be queued in the state machine beyond `flight_max`."""
    retained_waiting_max: int = 256
    """Number of retained messages that may be queued in the state machine."""
    subscriptions_max: int = 10_000
    """Maximum number of subscriptions of one session."""
    subscription_bytes_max: int = 256 << 10
    """Maximum size of all topic filters of one session in bytes. A dump of the session must fit in one message."""
    pending_requests_max: int = 1_024
    """Maximum number of unanswered SUBSCRIBE and UNSUBSCRIBE packets of one client."""
    pending_filters_max: int = 20_000
    """Maximum number of topic filters in these packets."""
    early_max: int = 1_024
    """Maximum number of packets that a client may send before its session is open."""
    client_id_bytes_max: int = 1_024
    retain_available: bool = True
    shared_available: bool = True
    maximum_qos: int = 2
    response_information: str = ""
    """Prefix of response topics (Response Information); the client's name in the tree is appended."""

    def __post_init__(self) -> None:
        for name, least, most in (
            ("receive_maximum", 1, PACKET_ID_MAX),
            ("packet_bytes_max", 64, PACKET_BYTES_MAX),
            ("topic_alias_max", 0, PACKET_ID_MAX),
            ("session_expiry_max", 0, NEVER_SECONDS),
            ("keep_alive_max", 0, PACKET_ID_MAX),
            ("flight_max", 1, PACKET_ID_MAX),
            ("maximum_qos", 0, 2),
        ):
            if not least <= getattr(self, name) <= most:
                raise UsageError(f"limit {name} must be {least} to {most}, not {getattr(self, name)}")
