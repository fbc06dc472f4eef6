"""State of a connection to a peer, for all transports.

`net.connection` implements connections over TCP, `net.in_process` connections between two hosts of one process. Hosts
and their reception use only this interface. The handshake before a session (`net.door.Prelude`) exists for TCP only.
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from resprout.core.limits import ClientLimits
from resprout.edge.broker.guard import Permit
from resprout.edge.rights import Rights
from resprout.net.tls import ProvenPeer

if TYPE_CHECKING:
    from resprout.net.host import Host


class PeerConnection(ABC):
    """Connection to a peer. `peer` is the name of the peer that this side connected to; None if the other side
    connected."""

    def __init__(self, host: "Host", number: int, peer: str | None) -> None:
        self._host = host
        self.number = number
        self.peer = peer
        self.name = peer
        """Name of the peer; None until the `Hello` of an opener arrives."""
        self.is_client = False
        """Whether the opener is a client, according to its `Hello`."""
        self.address = ""
        """Address of the peer, without the port."""
        self.identity: str | None = None
        """Identity of the opener, authenticated with a secret."""
        self.announced = False
        """Whether the machine was told of this connection."""
        self.permit: Permit | None = None
        """Rights of the opener if it is a client; None if there are no rules."""
        self.limits: ClientLimits = host.door.limits
        """Limits of the opener if it is a client."""
        self.place: str | None = None
        self.belongs_to: str | None = None
        """Key under which the connection is counted: an address or an identity."""
        self.is_internal = False
        """Whether a part of this process opened it, which is exempt from rules."""
        self.shaking_hands = False
        """Whether this side opened it and the handshake is not complete."""

    @property
    def is_broker(self) -> bool:
        """Whether the peer is a broker, as far as it has identified itself."""
        return self.name is not None and not self.is_client

    @property
    @abstractmethod
    def is_plain(self) -> bool:
        """Whether the connection is unencrypted."""

    @property
    @abstractmethod
    def proven(self) -> ProvenPeer | None:
        """Peer proven by a certificate or the network key; None without either."""

    def permit_for(self, rights: Rights) -> Permit:
        """Return the permit of the opener for these rights."""
        return Permit(rights)

    @abstractmethod
    def send(self, frame: Any) -> None:
        """Send a frame after all earlier ones."""

    @abstractmethod
    def close(self, reason: str) -> None:
        """Close the connection after flushing."""

    @abstractmethod
    def abort(self, reason: str) -> None:
        """Close the connection immediately."""

    @abstractmethod
    def slow_down(self) -> None:
        """Report that its last frames took long to handle, possibly because of other connections in the same turn."""
