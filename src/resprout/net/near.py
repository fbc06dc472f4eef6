"""A connection between two hosts of one process: frames are handed over as objects, without encoding and sockets.

A client inside a broker's process (`net.mqtt`) has a host of its own, and all that a broker promises to clients holds
for it: a session, a window, rights and limits. `NearHost` reaches one broker so, and every other one over TCP.

Frames arrive in a later turn of the event loop, in the order in which they were sent. What they hold is never changed
by either side: a simulator hands over the same objects. The opener has proven to the process who it is (`NearOpener`)
before the connection is made.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from resprout.core.contract import Connect, Disconnected
from resprout.edge.broker.guard import Permit
from resprout.edge.rights import Rights
from resprout.links.frames import Hello
from resprout.links.links import Links
from resprout.net.address import Address
from resprout.net.door import Door
from resprout.net.host import Host, Upward
from resprout.net.peer_connection import PeerConnection
from resprout.net.sessions import CODEC, Here
from resprout.net.tls import ProvenPeer

GONE = "the peer closed the connection"


class NearOpener(msgspec.Struct, frozen=True):
    """Who opens the connection, as far as it has proven that."""

    address: str
    """From where it comes, without the port: where its connections are counted."""
    identity: str | None = None
    """Whom it has shown to be, by a secret."""
    proven: ProvenPeer | None = None
    """What its certificate says."""
    internal: bool = False
    """It is a part of the broker: no rules say what it may do, and it counts for nobody."""
    also: tuple[str, ...] = ()
    """Beginnings of topics on which it may publish, whatever the rules say: what this process adds to publications."""


class NearPermit(Permit):
    """The rights of a client for which this process publishes more than the client knows of."""

    __slots__ = ("_also",)

    def __init__(self, rights: Rights, also: tuple[str, ...]) -> None:
        super().__init__(rights)
        self._also = also

    def publishes(self, topic: str) -> bool:
        return topic.startswith(self._also) or super().publishes(topic)


class NearConnection(PeerConnection):
    """One end; `join` makes both."""

    def __init__(self, host: Host, peer: str | None, opener: NearOpener) -> None:
        super().__init__(host, host.next_number(), peer)
        self.address = opener.address
        self.identity = opener.identity if peer is None else None
        self._proven = opener.proven if peer is None else None
        self.is_internal = opener.internal
        self._also = opener.also
        self._other: NearConnection | None = None
        self._arrived: list[Any] = []
        self._is_due = False
        self._greeted = peer is not None
        self._closing = False
        self._other_closed = False

    @property
    def is_plain(self) -> bool:
        return False

    @property
    def proven(self) -> ProvenPeer | None:
        return self._proven

    def permit_for(self, rights: Rights) -> Permit:
        return NearPermit(rights, self._also)

    def send(self, frame: Any) -> None:
        if self._other is not None and not self._closing:
            self._other._take(frame)

    def close(self, reason: str) -> None:
        if self._closing:
            return
        self._closing = True
        other, self._other = self._other, None
        if other is not None:
            other._hear_end()
        self._host.loop.call_soon(self._host.lost, self, reason)

    def abort(self, reason: str) -> None:
        self.close(reason)

    def slow_down(self) -> None:
        """A client sends little here before it is answered: its driver reads no faster."""

    def _take(self, frame: Any) -> None:
        self._arrived.append(frame)
        self._hand_on_soon()

    def _hear_end(self) -> None:
        self._other_closed = True
        self._hand_on_soon()

    def _hand_on_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._host.loop.call_soon(self._hand_on)

    def _hand_on(self) -> None:
        self._is_due = False
        frames, self._arrived = self._arrived, []
        if frames and not self._closing and (self._greeted or self._greet(frames[0])):
            self._host.arrived(self.number, frames)
        if self._other_closed:
            self.close(GONE)

    def _greet(self, hello: Any) -> bool:
        """The opener says who it is. False when it may not be that."""
        self._greeted = True
        self._host.reception.greeted(self)
        if type(hello) is Hello:
            self.name = hello.name
            self.is_client = hello.role == "client"
            if self.is_internal:
                self.permit = Permit(Rights(unruled=True))
            else:
                self._host.reception.check(self, hello)
        return not self._closing


def join(opener: Host, listener: Host, who: NearOpener) -> None:
    """Connect two hosts. The listener may refuse, as it refuses others, which the opener then hears."""
    near = NearConnection(opener, listener.here.name, who)
    far = NearConnection(listener, None, who)
    near._other, far._other = far, near
    listener.connected(far)
    opener.connected(near)


class NearHost(Host):
    """The host of a client that lives in the process of a broker. `listener`: that of the broker's current life."""

    def __init__(
        self,
        links: Links,
        here: Here,
        listener: Callable[[], Host],
        who: NearOpener,
        upward: Callable[[Upward], None],
        door: Door | None = None,
    ) -> None:
        """`door`: how this client proves to other brokers who it is."""
        self._listener = listener
        self._who = who
        super().__init__(links, CODEC, here, self._find, upward, door=door)

    def _find(self, peer: str) -> Address | None:
        return self._listener().where(peer)

    def _connect(self, effect: Connect) -> None:
        if effect.peer == self._listener().here.name:
            self.loop.call_soon(partial(self._join, effect.peer))
        else:
            super()._connect(effect)

    def _join(self, peer: str) -> None:
        if self.is_over:
            return
        listener = self._listener()
        if listener.is_over:
            self.handle(Disconnected(0, peer, "its life is over", refused=True))
        else:
            join(self, listener, self._who)
