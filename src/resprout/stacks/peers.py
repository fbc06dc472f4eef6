"""Sessions with other brokers, and the outbox through which a broker sends to them.

`Peers.post` sends a message to any broker, at once and in order. Without a session it opens one, and the message waits
here until there is a session, perhaps in vain. Everything that is sent in a session goes through the outbox.

The `Outbox` keeps the order of messages for each peer, within one window for each. Every message is charged by its
`cost`, whoever sends it: bundles on their way, totals, the parcels of a repair. A message that costs something leaves
while any room is left; without room it waits here, and messages that follow wait behind it. So messages to one peer
arrive in the order in which they were sent, with two exceptions:

- what is `express` (signs of life) has no order with anything and never waits;
- what is sent with `pass_by` is free, and waits for nothing that waits here. It tells a peer what the peer may forget,
  and by that makes the room that others wait for: behind them, both sides could wait for ever.

The log is not kept here a second time: a part that has much to send asks for `room` first, and stays behind with a
cursor while there is none.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from resprout.core.contract import Adopt, Close, Open, ProtocolMessage, Send
from resprout.core.limits import newcomer_name
from resprout.overlay.lineage import Liveness
from resprout.stacks.shell import Step

ERRANDS_MAX: Final = 256
"""Messages that may wait for a session with one broker; older ones are out of date by then."""
PEERS_MAX: Final = 4_096


class _Lane:
    """The queue to one peer within one session, and the room in its window."""

    __slots__ = ("queue", "room")

    def __init__(self, room: int) -> None:
        self.room = room
        self.queue: deque[ProtocolMessage] = deque()


class Outbox:
    """Messages to other brokers, in order and within one window for each peer."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._lanes: dict[str, _Lane] = {}

    # -- sessions ------------------------------------------------------------------------------------------------------

    def begin(self, peer: str, room: int) -> None:
        """Begin a session with this much room. What waited in an earlier session is dropped."""
        self._lanes[peer] = _Lane(room)

    def end(self, peer: str) -> None:
        self._lanes.pop(peer, None)

    def rename(self, peer: str, name: str) -> None:
        """Continue a session under another name."""
        lane = self._lanes.pop(peer, None)
        if lane is not None:
            self._lanes[name] = lane

    # -- room ----------------------------------------------------------------------------------------------------------

    def room(self, peer: str) -> int:
        """Return the bytes that may leave now; 0 while something waits."""
        lane = self._lanes.get(peer)
        return 0 if lane is None or lane.queue else lane.room

    def waiting(self, peer: str) -> int:
        """Return the number of messages that wait for room."""
        lane = self._lanes.get(peer)
        return len(lane.queue) if lane is not None else 0

    def writable(self, peer: str, room: int) -> list[ProtocolMessage]:
        """Set the room to what the peer grants, send what waits as far as it goes, and return that."""
        lane = self._lanes.get(peer)
        if lane is None:
            return []
        lane.room = room
        queue, left = lane.queue, []
        while queue and (lane.room > 0 or not queue[0].cost):
            message = queue.popleft()
            lane.room -= message.cost
            left.append(message)
        self._step.out.extend([Send(peer, message) for message in left])
        return left

    # -- what is said --------------------------------------------------------------------------------------------------

    def send(self, peer: str, message: ProtocolMessage) -> int:
        """Send a message in order, or queue it while there is no room; drop it without a session. Return the room
        that is left: at most 0 when the caller should wait."""
        lane = self._lanes.get(peer)
        if lane is None:
            return 0
        cost = message.cost
        if (lane.queue or (cost and lane.room <= 0)) and not message.express:
            lane.queue.append(message)
            return 0
        lane.room -= cost
        self._step.out.append(Send(peer, message))
        return lane.room

    def pass_by(self, peer: str, message: ProtocolMessage) -> None:
        """Send a free message at once, ahead of those that wait for room."""
        assert not message.cost, "whatever costs something takes its turn"
        if peer in self._lanes:
            self._step.out.append(Send(peer, message))


class Peer:
    """Another broker with which there is, or was, a session."""

    __slots__ = (
        "errands", "idle_since_us", "incarnation", "is_newcomer", "liveness", "name", "opened", "unfinished", "up",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_newcomer = newcomer_name(name) is not None
        """Whether it has no right to its name yet."""
        self.incarnation = 0
        self.up = False
        self.opened = False
        """Whether this side opened the session and keeps it."""
        self.liveness = Liveness.HEARD
        """What the links say of it; HEARD until they say otherwise."""
        self.errands: deque[ProtocolMessage] = deque(maxlen=ERRANDS_MAX)
        self.idle_since_us = 0
        self.unfinished: Any = None
        """The parcel that it is sending; dropped with the session."""


class Peers:
    """The sessions with other brokers, by name."""

    def __init__(self, step: Step, outbox: Outbox, own_name: str = "") -> None:
        """`own_name`: the name of this broker, which never opens a session with itself."""
        self._own_name = own_name
        self._step = step
        self._outbox = outbox
        self._peers: dict[str, Peer] = {}
        self.is_newcomer = False
        """Whether this broker has no right to its name yet; every peer it opens a session with is told."""

    def get(self, name: str) -> Peer | None:
        return self._peers.get(name)

    def incarnation(self, name: str) -> int:
        """Return the incarnation of the peer of the session; 0 without a session."""
        peer = self._peers.get(name)
        return peer.incarnation if peer is not None and peer.up else 0

    def find(self, name: str) -> Peer | None:
        """Return the peer if there is a session with it."""
        peer = self._peers.get(name)
        return peer if peer is not None and peer.up else None

    def find_settled(self, name: str) -> Peer | None:
        """Like `find`, but return None for a newcomer."""
        peer = self._peers.get(name)
        return peer if peer is not None and peer.up and not peer.is_newcomer else None

    def is_up(self, name: str) -> bool:
        peer = self._peers.get(name)
        return peer is not None and peer.up

    def is_heard(self, name: str) -> bool:
        """Whether there is a session, and its connection stands."""
        peer = self._peers.get(name)
        return peer is not None and peer.up and peer.liveness is Liveness.HEARD

    def is_clear(self, name: str) -> bool:
        """Whether the peer is heard, and nothing waits for room on the way to it."""
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
        """Keep the session with the parent, which has confirmed the name of this broker, and close those in which it
        was a newcomer."""
        if self.is_newcomer:
            self.is_newcomer = False
            for peer in [peer for peer in self._peers.values() if peer.opened and peer.name != parent]:
                self.close(peer.name, "it has a place now")
            self._step.out.append(Open(parent))

    def adopt(self, key: str, name: str) -> None:
        """Give a newcomer its name. A session under that name belongs to an earlier life."""
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
        """Take note of a new session and return its peer; None when there are too many, and it is closed."""
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
        """Mark a peer as silent: its connection broke, or cannot be made. `refused`: its host says that the process
        is gone."""
        peer = self._peers.get(name)
        if peer is not None:
            peer.liveness = max(peer.liveness, Liveness.ENDED if refused else Liveness.SILENT)
        return peer

    def heard(self, name: str) -> Peer | None:
        """Mark a peer as heard: its connection stands again."""
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
        """Open sessions that are wanted, and close those that this side opened and has not used for `idle_us`.
        Sessions that others opened are theirs to close."""
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
        """Send a message to any broker. Without a session, open one; the message waits for it and may be lost."""
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
