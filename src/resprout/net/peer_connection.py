"""What a host knows about a connection with a peer, however bytes or frames travel on it.

`net.connection` has connections over TCP, `net.near` those between two hosts of one process. A host and its reception
use nothing of a connection but what is declared here; what comes before a session (`net.door.Prelude`) is for TCP only.
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
    """`peer`: whom this side wanted to reach; None when the other side opened it."""

    def __init__(self, host: "Host", number: int, peer: str | None) -> None:
        self._host = host
        self.number = number
        self.peer = peer
        self.name = peer
        """Who is at the other end, as far as that is known: an opener says it in its `Hello`."""
        self.is_client = False
        """The opener has said that it is one."""
        self.address = ""
        """Of the other end, without the port."""
        self.identity: str | None = None
        """Whom the opener has shown to be, by a secret."""
        self.announced = False
        """The machine knows of this connection."""
        self.permit: Permit | None = None
        """What the opener may do, if it is a client, and if not all may do everything."""
        self.limits: ClientLimits = host.door.limits
        """How much the opener may use, if it is a client."""
        self.place: str | None = None
        self.belongs_to: str | None = None
        """Among whose connections it is counted: of an address, and of an identity."""
        self.is_internal = False
        """A part of this node has opened it: it may do everything, and rules do not concern it."""
        self.shaking_hands = False
        """This side has opened it and does not know yet who is there; nobody was told of it."""

    @property
    def is_broker(self) -> bool:
        """A broker is at the other end, as far as anybody has said who is there."""
        return self.name is not None and not self.is_client

    @property
    @abstractmethod
    def is_plain(self) -> bool:
        """Everybody on the way can read it."""

    @property
    @abstractmethod
    def proven(self) -> ProvenPeer | None:
        """Who is at the other end, as its certificate or the key of the network proves; None without either."""

    def permit_for(self, rights: Rights) -> Permit:
        """What the opener may do with these rights."""
        return Permit(rights)

    @abstractmethod
    def send(self, frame: Any) -> None:
        """Pass on a frame, after those before it."""

    @abstractmethod
    def close(self, reason: str) -> None:
        """After what was sent has left."""

    @abstractmethod
    def abort(self, reason: str) -> None:
        """At once."""

    @abstractmethod
    def slow_down(self) -> None:
        """What it has sent took long, perhaps because of what others sent in the same turn."""
