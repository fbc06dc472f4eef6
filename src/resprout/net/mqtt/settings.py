"""MQTT settings of one broker: listeners, guarantees and limits."""

from typing import Final

import msgspec

from resprout.core.guarantee import Guarantee
from resprout.net.address import Address
from resprout.net.mqtt.proxy import Network

MQTT_PORT: Final = 1883
DAY_SECONDS: Final = 86_400
SCHEMES: Final = {"listen": "mqtt", "tls": "mqtts", "ws": "ws", "wss": "wss"}
"""URL scheme of each listener."""
NEVER: Final = 0xFFFFFFFF
"""Session expiry of a session that never expires."""


class MqttSettings(msgspec.Struct, frozen=True, kw_only=True):
    listen: Address | None = None
    """Address to listen on without encryption."""
    tls: Address | None = None
    """Address to listen on with TLS, with the broker's certificate."""
    ws: Address | None = None
    """Address to listen on for WebSocket without encryption."""
    wss: Address | None = None
    """Address to listen on for WebSocket with TLS."""
    guarantees: tuple[tuple[str, Guarantee], ...] = ()
    """Guarantees of publications from MQTT clients, by topic filter. The first match counts; the default is
    `causal`."""
    proxies: tuple[Network, ...] = ()
    """Networks of proxies, whose connections begin with a PROXY protocol v2 header."""
    connections_max: int = 10_000
    """Maximum number of connections. A new one above it replaces a connection that has not sent CONNECT."""
    greetings_max: int = 1_024
    """Maximum number of connections without CONNECT. A new one above it replaces the oldest one of the address that has
    most."""
    connect_seconds: int = 10
    """Seconds from the start of a connection to CONNECT, including the TLS and WebSocket handshakes."""
    receive_maximum: int = 256
    """Maximum number of unacknowledged QoS 1 and 2 publications of one client."""
    packet_bytes_max: int = 1_052_672
    """Maximum size of a packet from a client in bytes."""
    topic_alias_max: int = 64
    """Maximum number of topic aliases that one client may define."""
    session_expiry_max: int = DAY_SECONDS
    """Maximum session expiry in seconds."""
    keep_alive_max: int = 3_600
    """Maximum keep alive in seconds, also used if a client requests 0. MQTT 5 clients learn it from CONNACK; it is
    enforced for all versions."""
    response_topics: str = ""
    """Prefix of response topics, below which each client gets its own (Response Information); empty for none."""
    sys_seconds: int = 10
    """Interval in seconds between publications of `$SYS` topics; 0 disables them."""

    @property
    def places(self) -> dict[str, Address]:
        """Addresses to listen on, by name of the setting."""
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
}
"""Minimum and maximum of the numbers in the file."""
