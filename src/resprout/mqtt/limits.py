"""What a server offers to its MQTT clients, and the bounds of what one of them may use."""

from typing import Final

import msgspec

from resprout.core.errors import UsageError
from resprout.mqtt.decoder import PACKET_BYTES_MAX
from resprout.mqtt.packets import PACKET_ID_MAX

SECOND_US: Final = 1_000_000
NEVER_SECONDS: Final = 0xFFFFFFFF
"""As a session expiry: the session has no end."""


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    receive_maximum: int = 256
    """Publications with QoS 1 and 2 that a client of MQTT 5 may have unacknowledged."""
    packet_bytes_max: int = PACKET_BYTES_MAX
    """Bytes of one packet of a client; the decoder of the connection enforces it."""
    topic_alias_max: int = 64
    """Topic aliases that a client may define, and that the server defines if the client allows as many."""
    session_expiry_max: int = NEVER_SECONDS
    """Seconds that a session is kept without a connection, at most."""
    keep_alive_max: int = 0
    """Seconds; a client that wants none, or more, gets this. 0: any."""
    connect_seconds: int = 10
    """From the beginning of a connection to its CONNECT."""
    opening_seconds: int = 30
    """For the tree to open a session."""
    flight_max: int = 1_024
    """Messages with QoS 1 and 2 that a client has not acknowledged, if its receive maximum is not less."""
    waiting_max: int = 256
    """Messages more that may wait in the machine."""
    retained_waiting_max: int = 4_096
    """Retained messages that wait for a client, above which no SUBSCRIBE is granted that wants more."""
    subscriptions_max: int = 10_000
    """Subscriptions of one session."""
    subscription_bytes_max: int = 256 << 10
    """Bytes of the filters of one session: a session that survives its broker is remembered in one message."""
    asked_max: int = 1_024
    """SUBSCRIBE and UNSUBSCRIBE packets of one client that are not answered."""
    early_max: int = 1_024
    """Packets of a client that come before its session is open."""
    client_id_bytes_max: int = 1_024
    retain_available: bool = True
    shared_available: bool = True
    maximum_qos: int = 2
    response_information: str = ""
    """Where the topics for responses begin; the client identifier follows."""

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
