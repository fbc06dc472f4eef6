"""What is not stable yet: the publications that a broker keeps, and how the two ends of a link agree to forget them.

A publication waits for *directions*: the links it crossed (the one it came on included) and, together, the local
clients it is given to. A direction is through with it when everyone behind it has it. Each end of a link tells the
other, in counts, how many of those that crossed it are delivered everywhere on its own side; nothing is forgotten
before that is true of all sides. So whenever a broker dies, its neighbours together still have all that it may have
left undone.
"""

from collections import deque

from resprout.core.bundle import Bundle, Origin
from resprout.core.contract import ProtocolMessage
from resprout.core.errors import PeerError
from resprout.core.marks import Reached
from resprout.edge.broker.item import KeptItem
from resprout.stacks.ginger.messages import MessageId, Progress

READERS = "~"
"""The direction of local clients; no neighbour can be called so."""


def id_of(bundle: Bundle) -> MessageId:
    return MessageId(bundle.publisher, bundle.stream, bundle.incarnation, bundle.first)


class WindowEntry(KeptItem):
    """One publication at one broker. Its source is the link it came on; None for a local client's."""

    __slots__ = ("id", "lock", "safe", "taken_in", "waiting")

    def __init__(self, bundle: Bundle, hops: int, source: str | None, prompt: bool, tseq: int = -1) -> None:
        super().__init__(bundle, hops, source, prompt, tseq)
        self.id = id_of(bundle)
        self.waiting: dict[str, None] = {}
        """Directions that are not through with it."""
        self.lock = 0
        """Of a total: the number under which it was locked."""
        self.taken_in = False
        """False while a lock holds it: then it is here, but nowhere in the order."""
        self.safe = hops > 0

    @property
    def undone(self) -> int:
        """How many directions are not through with it."""
        return len(self.waiting) + (not self.taken_in)

    def done_but_for(self, direction: str) -> bool:
        waiting = self.waiting
        return self.taken_in and (not waiting or (len(waiting) == 1 and direction in waiting))


class Lane:
    """The publications that crossed a link in one direction, numbered from 1, until both ends are through with them."""

    __slots__ = ("_forgotten", "entries", "last", "mine", "theirs")

    def __init__(self) -> None:
        self.entries: dict[int, WindowEntry] = {}
        self.last = 0
        self.mine = 0
        """So many are delivered everywhere on this side."""
        self.theirs = 0
        """So many are delivered everywhere on the other."""
        self._forgotten = 0

    def add(self, entry: WindowEntry) -> None:
        self.last += 1
        self.entries[self.last] = entry

    def advance(self, peer: str) -> bool:
        """True when there is news for the peer."""
        before = self.mine
        while self.mine < self.last and self.entries[self.mine + 1].done_but_for(peer):
            self.mine += 1
        self._forget()
        return self.mine > before

    def hear(self, count: int) -> list[WindowEntry]:
        """The entries with which the other side is through now."""
        if not self.theirs <= count <= self.last:
            raise PeerError(f"{count} of {self.last} publications done, {self.theirs} before")
        heard = [self.entries[no] for no in range(self.theirs + 1, count + 1)]
        self.theirs = count
        self._forget()
        return heard

    def _forget(self) -> None:
        while self._forgotten < self.mine and self._forgotten < self.theirs:
            self._forgotten += 1
            del self.entries[self._forgotten]


class GingerLink:
    """A neighbour in the tree."""

    __slots__ = (
        "acknowledged", "is_parent", "left", "name", "news", "pool", "received", "sent", "skips", "told", "unstable",
        "urgent",
    )  # fmt: skip

    def __init__(self, name: str, is_parent: bool) -> None:
        self.name = name
        self.is_parent = is_parent
        self.sent = Lane()
        self.left = 0
        """So many of those sent have left: the others wait for room, and nothing may be said of them yet."""
        self.received = Lane()
        self.acknowledged = 0
        """So many of those sent are there."""
        self.skips: dict[Origin, Reached] = {}
        """What passed and was not sent, to be told before the next that is."""
        self.pool: deque[tuple[ProtocolMessage, WindowEntry | None]] = deque()
        """Arrived behind something that a lock holds."""
        self.news = False
        """There is something to report; `urgent`: somebody waits for it."""
        self.urgent = False
        self.told = Progress(0, 0, 0)
        self.unstable = 0
        """Messages that came on this link and are not stable."""
