"""What one broker is to do for MQTT clients: where it listens for them, and bounds on what each may use."""

from typing import Final

import msgspec

from resprout.core.guarantee import Guarantee
from resprout.net.address import Address

MQTT_PORT: Final = 1883
DAY_SECONDS: Final = 86_400
SCHEMES: Final = {"listen": "mqtt", "tls": "mqtts", "ws": "ws", "wss": "wss"}
"""What addresses of each listener begin with."""
NEVER: Final = 0xFFFFFFFF
"""As a session expiry: the session has no end."""


class MqttSettings(msgspec.Struct, frozen=True, kw_only=True):
    listen: Address | None = None
    """Where it listens without encryption."""
    tls: Address | None = None
    """Where it listens with TLS, with the certificate of the broker."""
    ws: Address | None = None
    """Where it listens for WebSocket without encryption."""
    wss: Address | None = None
    """Where it listens for WebSocket with TLS."""
    guarantees: tuple[tuple[str, Guarantee], ...] = ()
    """By filter, the guarantee of publications of MQTT clients; the first one that matches. Others are `causal`."""
    connections_max: int = 10_000
    """Connections of MQTT clients; for one more, those that have not said CONNECT make room."""
    greetings_max: int = 1_024
    """Connections without CONNECT; for one more, the oldest one of the address that has most of them is closed."""
    connect_seconds: int = 10
    """From the beginning of a connection to its CONNECT, with TLS and WebSocket in between."""
    receive_maximum: int = 256
    """Publications with QoS 1 and 2 of one client that are not acknowledged."""
    packet_bytes_max: int = 1_052_672
    """Bytes of one packet of a client."""
    topic_alias_max: int = 64
    """Topic aliases that one client may define."""
    session_expiry_max: int = DAY_SECONDS
    """Seconds that a session is kept without a connection, at most."""
    keep_alive_max: int = 3_600
    """Seconds; a client that wants none, or more, is given this (MQTT 5), or is watched as if it had asked for it."""
    retained_bytes_max: int = 64 << 20
    """Bytes of all retained messages of the network."""
    sys_seconds: int = 10
    """Between two publications of the figures on `$SYS`; 0: none."""

    @property
    def places(self) -> dict[str, Address]:
        """Where it listens, by the name of the setting."""
        named = {"listen": self.listen, "tls": self.tls, "ws": self.ws, "wss": self.wss}
        return {key: address for key, address in named.items() if address is not None}

    @property
    def is_wanted(self) -> bool:
        return bool(self.places)


MQTT_COUNTS: Final = {
    "connections_max": (1, 1_000_000),
    "greetings_max": (1, 100_000),
    "connect_seconds": (1, 300),
    "receive_maximum": (1, 65_535),
    "packet_bytes_max": (1_024, 1_052_672),
    "topic_alias_max": (0, 65_535),
    "session_expiry_max": (0, NEVER - 1),
    "keep_alive_max": (1, 65_535),
    "sys_seconds": (0, 86_400),
    "retained_bytes_max": (0, 1 << 34),
}
"""Numbers that a file may set, with their bounds."""
