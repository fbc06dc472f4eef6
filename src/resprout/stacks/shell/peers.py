"""Sessions with other brokers: neighbours, those that would lead a repair, and whoever there is a word to say to.

`post` says something to any broker, at once and in order. Without a session it opens one, and the message waits here
until there is a session, perhaps in vain. What is said in a session goes through the outbox.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from resprout.core.contract import Adopt, Close, Open, ProtocolMessage
from resprout.core.names import newcomer_name
from resprout.overlay.liveness import Liveness
from resprout.stacks.shell.outbox import Outbox
from resprout.stacks.shell.step import Step

ERRANDS_MAX: Final = 256
"""Words that wait for a session with one broker; older ones are then out of date anyway."""
PEERS_MAX: Final = 4_096


class Peer:
    __slots__ = (
        "errands", "idle_since_us", "incarnation", "is_newcomer", "liveness", "name", "opened", "unfinished", "up",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_newcomer = newcomer_name(name) is not None
        """It has no right to its name yet."""
        self.incarnation = 0
        self.up = False
        self.opened = False
        """This side keeps the session."""
        self.liveness = Liveness.HEARD
        """As the links say; before they have said anything, the best is hoped for."""
        self.errands: deque[ProtocolMessage] = deque(maxlen=ERRANDS_MAX)
        self.idle_since_us = 0
        self.unfinished: Any = None
        """What it has said so far of something that takes several messages; gone with the session."""


class Peers:
    def __init__(self, step: Step, outbox: Outbox, own_name: str = "") -> None:
        """`own_name`: of this broker. Others may say that it is somebody to turn to; it does not call itself."""
        self._own_name = own_name
        self._step = step
        self._outbox = outbox
        self._peers: dict[str, Peer] = {}
        self.is_newcomer = False
        """This broker has no right to its name yet, and says so to everybody it calls."""

    def get(self, name: str) -> Peer | None:
        return self._peers.get(name)

    def incarnation(self, name: str) -> int:
        """Of the session that stands; 0 for none."""
        peer = self._peers.get(name)
        return peer.incarnation if peer is not None and peer.up else 0

    def find(self, name: str) -> Peer | None:
        """With a session that stands."""
        peer = self._peers.get(name)
        return peer if peer is not None and peer.up else None

    def find_settled(self, name: str) -> Peer | None:
        """The same, but for newcomers."""
        peer = self._peers.get(name)
        return peer if peer is not None and peer.up and not peer.is_newcomer else None

    def is_up(self, name: str) -> bool:
        peer = self._peers.get(name)
        return peer is not None and peer.up

    def is_heard(self, name: str) -> bool:
        """There is a session, and its connection stands."""
        peer = self._peers.get(name)
        return peer is not None and peer.up and peer.liveness is Liveness.HEARD

    def is_clear(self, name: str) -> bool:
        """Nothing waits for room on the way to it, and it is heard."""
        return self.is_heard(name) and not self._outbox.waiting(name)

    # -- coming and going ----------------------------------------------------------------------------------------------

    def open(self, name: str) -> Peer:
        peer = self._peers.get(name)
        if peer is None:
            peer = self._peers[name] = Peer(name)
        if not peer.opened:
            peer.opened = True
            self._step.out.append(Open(name, self.is_newcomer))
        return peer

    def settle_name(self, parent: str) -> None:
        """The name of this broker is its own, says its parent. Sessions with others in which it was a newcomer end."""
        if self.is_newcomer:
            self.is_newcomer = False
            for peer in [peer for peer in self._peers.values() if peer.opened and peer.name != parent]:
                self.close(peer.name, "it has a place now")
            self._step.out.append(Open(parent))

    def adopt(self, key: str, name: str) -> None:
        """A newcomer has its name now. What stood under the name belongs to an earlier life."""
        self.close(name, f"{name} begins another life")
        peer = self._peers.pop(key)
        peer.name = name
        peer.is_newcomer = False
        self._peers[name] = peer
        self._outbox.rename(key, name)
        self._step.out.append(Adopt(key, name))

    def close(self, name: str, reason: str) -> None:
        if self._peers.pop(name, None) is not None:
            self._outbox.end(name)
            self._step.out.append(Close(name, reason))

    def came_up(self, name: str, incarnation: int, room: int) -> Peer | None:
        """A session begins. None when there are too many: then it is over."""
        peer = self._peers.get(name)
        if peer is None:
            if len(self._peers) >= PEERS_MAX:
                self._step.out.append(Close(name, "no more brokers are taken here"))
                return None
            peer = self._peers[name] = Peer(name)
        peer.up, peer.liveness, peer.unfinished = True, Liveness.HEARD, None
        peer.incarnation = incarnation
        peer.idle_since_us = self._step.now_us
        self._outbox.begin(name, room)
        while peer.errands:
            self._outbox.send(name, peer.errands.popleft())
        return peer

    def lost(self, name: str, refused: bool) -> Peer | None:
        """Its connection is broken, or cannot be made; `refused`: its own host says that the process is gone."""
        peer = self._peers.get(name)
        if peer is not None:
            peer.liveness = max(peer.liveness, Liveness.ENDED if refused else Liveness.SILENT)
        return peer

    def heard(self, name: str) -> Peer | None:
        """Its connection stands again."""
        peer = self._peers.get(name)
        if peer is not None:
            peer.liveness = Liveness.HEARD
        return peer

    def went_down(self, name: str) -> None:
        peer = self._peers.get(name)
        if peer is not None:
            peer.up, peer.unfinished = False, None
            self._outbox.end(name)
            if not peer.opened:
                del self._peers[name]

    def keep_only(self, wanted: Iterable[str], idle_us: int) -> None:
        """Open what is wanted, and close what this side opened and has not used for a while. What others opened is
        theirs to close."""
        wanted, now_us = dict.fromkeys([name for name in wanted if name != self._own_name]), self._step.now_us
        for name in wanted:
            self.open(name)
        for peer in list(self._peers.values()):
            if peer.name in wanted:
                peer.idle_since_us = now_us
            elif peer.opened and now_us - peer.idle_since_us > idle_us:
                self.close(peer.name, "not needed any more")

    # -- what is said --------------------------------------------------------------------------------------------------

    def post(self, name: str, message: ProtocolMessage) -> None:
        """To any broker; without a session one is opened, and the message waits for it, perhaps in vain."""
        peer = self._peers.get(name)
        if name == self._own_name:
            return
        if peer is None or not peer.up:
            if peer is None and len(self._peers) >= PEERS_MAX:
                return
            peer = self.open(name)
            peer.errands.append(message)
        else:
            if peer.liveness is not Liveness.HEARD and not peer.is_newcomer:
                self.open(name)  # whoever opened the session may be gone: call it; newcomers have no address yet
            self._outbox.send(name, message)
        peer.idle_since_us = self._step.now_us
