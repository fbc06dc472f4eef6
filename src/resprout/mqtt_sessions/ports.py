"""Interfaces between the sessions of MQTT clients and their driver: connections, hosts of embedded clients, turns.

`SessionServer` has the rest of what a driver provides, such as time and the state of the broker.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from resprout.core.contract import Answer, Deliver, Note, Request
from resprout.mqtt.decoder import Decoded
from resprout.mqtt.packets import Packet
from resprout.mqtt.reasons import Reason

Upward = Deliver | Answer | Note
"""Effects that a host passes to the user of its machine."""
PacketHandler = Callable[[Sequence[Decoded]], None]


class OpenerCredentials(msgspec.Struct, frozen=True):
    """Credentials of an embedded client towards its own broker, as verified by this process."""

    address: str
    """Address of the MQTT client, without the port; its connections are counted there."""
    identity: str | None = None
    """Identity that was authenticated with a secret."""
    proven: Any = None
    """Peer proven by a certificate, in the type of the driver; None without one."""
    internal: bool = False
    """Whether it is a part of the broker, which is exempt from rules and limits."""
    also: tuple[str, ...] = ()
    """Topic prefixes on which it may publish regardless of rules, for keys that this process adds to publications."""


class OutwardDoor(Protocol):
    """Credentials that an embedded client presents to other brokers; only the driver knows their type."""


class AdmissionError(Exception):
    """Refusal of a client, with the reason code for its CONNACK."""

    def __init__(self, reason: Reason, why: str, text: str = "") -> None:
        super().__init__(text or why)
        self.reason = reason
        self.why = why
        """Reason for metrics and logs, from a fixed set of texts."""


class AdmittedClient(msgspec.Struct, frozen=True):
    """Client that may connect."""

    name: str
    """Its name in the tree."""
    client_id: str
    who: OpenerCredentials
    door: OutwardDoor | None
    """Its credentials for other brokers."""


class ClientHost(Protocol):
    """Runs the machine of one embedded client, and connects it to brokers."""

    @property
    def is_over(self) -> bool: ...

    def start(self) -> None: ...

    def handle(self, event: Request) -> None: ...

    async def close(self) -> None:
        """Close the host and free what it has. Closing it again does nothing."""


class PacketConnection(Protocol):
    """Connection of an MQTT client, as its driver sees it."""

    take: PacketHandler
    lost: Callable[[str], None]
    drained: Callable[[], None]

    @property
    def address(self) -> str:
        """Address of the client, without the port."""

    @property
    def proven(self) -> Any:
        """Peer proven by the client certificate; None without one."""

    @property
    def is_open(self) -> bool: ...

    @property
    def is_writable(self) -> bool:
        """Whether more messages may be sent."""

    def send(self, packet: Packet) -> None:
        """Queue a packet for the next `flush`."""

    def flush(self) -> None: ...

    def close(self, reason: str) -> None: ...

    def hold(self) -> None:
        """Pause reading until `release`."""

    def release(self) -> None: ...

    def stop_deadline(self) -> None:
        """Cancel the timeout for CONNECT."""


class TurnLine(Protocol):
    """Queue of those that do much at once."""

    def join(self, take: Callable[[], None]) -> None:
        """Call `take` when its turn has come, never in this call."""
