"""In-process connection between two hosts: frames are passed as objects, without encoding and sockets.

A client inside a broker's process (`net.mqtt`) has a host of its own and gets the same session, windows, rights and
limits as any other client. Its `InProcessHost` reaches that broker in the process and all other brokers over TCP.

Frames arrive in a later turn of the event loop, in order. Neither side modifies them, as in the simulator. The opener
has authenticated to the process (`OpenerCredentials`) before the connection is made.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from resprout.core.contract import Connect, Disconnected
from resprout.edge.broker.guard import Permit
from resprout.edge.rights import Rights
from resprout.links.frames import Hello
from resprout.links.links import Links
from resprout.mqtt_sessions.ports import OpenerCredentials
from resprout.net.address import Address
from resprout.net.door import Door
from resprout.net.event_loop import weight_of
from resprout.net.host import Host, Upward
from resprout.net.peer_connection import PeerConnection
from resprout.net.sessions import CODEC, Here
from resprout.net.tls import ProvenPeer

GONE = "the peer closed the connection"
TURN_MESSAGES: Final = 64
"""Number of messages of a client after which its turn ends."""


class InProcessPermit(Permit):
    """Rights of a client plus the topic prefixes that this process publishes on for it."""

    __slots__ = ("_also",)

    def __init__(self, rights: Rights, also: tuple[str, ...]) -> None:
        super().__init__(rights)
        self._also = also

    def publishes(self, topic: str) -> bool:
        return topic.startswith(self._also) or super().publishes(topic)


class InProcessConnection(PeerConnection):
    """One end of an in-process connection; `join` creates both."""

    def __init__(self, host: Host, peer: str | None, opener: OpenerCredentials) -> None:
        super().__init__(host, host.next_number(), peer)
        self.address = opener.address
        self.identity = opener.identity if peer is None else None
        self._proven = opener.proven if peer is None else None
        self.is_internal = opener.internal
        self._also = opener.also
        self._other: InProcessConnection | None = None
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
        return InProcessPermit(rights, self._also)

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
        """Do nothing: the client's driver reads no faster than the broker answers."""

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
        if self.peer is None:
            frames, self._arrived = _cut(frames)
            if self._arrived:  # it takes turns with other connections, as a client over TCP does
                self._is_due = True
                self._host.line.join(self._hand_on)
        if frames and not self._closing and (self._greeted or self._greet(frames[0])):
            self._host.arrived(self.number, frames)
        if self._other_closed and not self._arrived:
            self.close(GONE)

    def _greet(self, hello: Any) -> bool:
        """Handle the opener's `Hello`. Return False if the opener was refused."""
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


def _cut(frames: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return the frames of one turn, and the rest."""
    weight = 0
    for place, frame in enumerate(frames, 1):
        weight += weight_of((frame,))
        if weight >= TURN_MESSAGES:
            return frames[:place], frames[place:]
    return frames, []


def join(opener: Host, listener: Host, who: OpenerCredentials) -> None:
    """Connect two hosts. The listener may refuse the opener, as on any connection."""
    near = InProcessConnection(opener, listener.here.name, who)
    far = InProcessConnection(listener, None, who)
    near._other, far._other = far, near
    listener.connected(far)
    opener.connected(near)


class InProcessHost(Host):
    """Host of a client inside a broker's process. `listener` returns the broker's current host."""

    def __init__(
        self,
        links: Links,
        here: Here,
        listener: Callable[[], Host],
        who: OpenerCredentials,
        upward: Callable[[Upward], None],
        door: Door | None = None,
    ) -> None:
        """`door` holds the credentials for other brokers."""
        self._listener = listener
        self._who = who
        self.links: Final = links
        self.is_released = False
        """Whether `release` was called, or will be."""
        super().__init__(links, CODEC, here, self._find, upward, door=door)

    def release(self) -> None:
        """Break the reference cycles of this closed host, so that it is freed at once. Brokers collect garbage rarely,
        and a host with its sessions takes 30 KB."""
        assert self.is_over, "it was closed"
        self._do.clear()
        self.links.release()
        self.reception.release()
        del (
            self._find,
            self._alarms,
            self._dials,
            self._intake,
            self._run,
            self._steps,
            self.door,
            self.inquiries,
            self.reception,
        )

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
            self.handle(Disconnected(0, peer, "the broker has left the tree", refused=True))
        else:
            join(self, listener, self._who)
