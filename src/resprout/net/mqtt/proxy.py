"""PROXY protocol, version 2: the header with which a proxy announces the address of the client that it connects.

Only proxies whose addresses are configured (`[mqtt]` `proxies`) may send it, and they must. It comes before TLS.
"""

import ipaddress
from collections.abc import Callable
from typing import Final

from resprout.core.errors import UsageError
from resprout.net.mqtt.layers import LayerError
from resprout.net.tls import ProvenPeer

SIGNATURE: Final = b"\r\n\r\n\x00\r\nQUIT\n"
FIXED_BYTES: Final = 16
"""Signature, version and command, address family, and the length of the rest."""
BYTES_MAX: Final = 4_096
"""Maximum length of the rest: addresses, and fields that are ignored."""
_LOCAL: Final = 0x20
_PROXY: Final = 0x21
_ADDRESS_BYTES: Final = {1: 4, 2: 16}
"""Length of one address by family: IPv4 and IPv6."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def parse_network(text: str) -> Network:
    """Return the network of an address like 10.0.0.7 or 10.0.0.0/8. Raises UsageError if it is invalid."""
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is no address or network: {error}") from None


def is_proxy(address: str, networks: tuple[Network, ...]) -> bool:
    """Return whether this address is one of the configured proxies."""
    try:
        known = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return any(known.version == network.version and known in network for network in networks)


class ProxyLayer:
    """Reads the header, then passes everything through. `announce` is called with the client's address."""

    proven: ProvenPeer | None = None
    frames = 0

    def __init__(self, announce: Callable[[str], None]) -> None:
        self._announce = announce
        self._held = bytearray()
        self._is_done = False

    def receive(self, data: bytes) -> bytes:
        if self._is_done:
            return data
        self._held += data
        held = self._held
        if held[: len(SIGNATURE)] != SIGNATURE[: len(held)]:
            raise LayerError("the proxy did not begin with a PROXY protocol v2 header")
        if len(held) < FIXED_BYTES:
            return b""
        end = FIXED_BYTES + int.from_bytes(held[14:16], "big")
        if end > FIXED_BYTES + BYTES_MAX:
            raise LayerError(f"a PROXY protocol header of {end} bytes")
        if len(held) < end:
            return b""
        self._is_done = True
        self._read(held[12], held[13] >> 4, bytes(held[FIXED_BYTES:end]))
        rest = bytes(held[end:])
        self._held = bytearray()
        return rest

    def _read(self, command: int, family: int, body: bytes) -> None:
        if command == _LOCAL:  # a health check of the proxy itself
            return
        if command != _PROXY:
            raise LayerError(f"PROXY protocol version or command 0x{command:02x}")
        size = _ADDRESS_BYTES.get(family)
        if size is None:  # a Unix socket, or unknown to the proxy
            return
        if len(body) < 2 * size + 4:
            raise LayerError("a PROXY protocol header without its addresses")
        self._announce(str(ipaddress.ip_address(body[:size])))

    def wrap(self, data: bytes) -> bytes:
        return data

    def to_send(self) -> bytes:
        return b""

    def end(self) -> bytes:
        return b""
