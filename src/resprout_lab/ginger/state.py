"""The data structures that a broker maintains (section 3.3), and the buffer of what it has processed (section 4.3.2).

| in the thesis | here |
|---|---|
| *neighbors*, *parent* | `neighbors`, `parent`; clients are in `sessions` |
| *subscribers*, *parentRef*, *numberOfChildren*, *clients* | `wishes`, and what `subscribers` makes of it |
| *poolUp*, *poolDown* | `Neighbor.pool`; of clients, `ClientSession.waiting` |
| *metadataBuffer* | `buffer`, in the order of processing |
| *residualDegree* | `residual_degree`, derived |
"""

from collections import deque
from typing import Any

from resprout.core.bundle import Bundle
from resprout.core.contract import Locate
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.core.seen import Seen, SeenRanges
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.messages import Serving, Successor
from resprout.filters.predicate import Predicate
from resprout.stacks.peers import Outbox, Peers
from resprout.stacks.shell import Step
from resprout_lab.blocks.recorded import RecordedSubscriptions
from resprout_lab.blocks.retention import KeptItem, Retention
from resprout_lab.blocks.subscriptions import Matches
from resprout_lab.ginger.messages import MessageId, id_of
from resprout_lab.ginger.options import GingerOptions

RECEIPTS = (ReceiptLevel.ACCEPTED, ReceiptLevel.SAFE)


def shown(bundle: Bundle) -> str:
    """As in the logs: who, which one, and with which guarantee."""
    return f"({bundle.publisher}, {bundle.stream[0]}{bundle.first}) {bundle.guarantee.label}"


class Entry(KeptItem):
    """A Metadata message at this broker. Its source is a neighbour or a client."""

    __slots__ = ("id", "processed", "safe")

    def __init__(self, bundle: Bundle, hops: int, source: str | None, prompt: bool = False, place: int = -1) -> None:
        super().__init__(bundle, hops, source, prompt, place)
        self.id = id_of(bundle)
        self.processed = bundle.guarantee is not Guarantee.TOTAL
        self.safe = hops > 0 or not self.processed
        """Another broker has it."""


class Neighbor:
    """A broker next to this one in the tree."""

    __slots__ = ("address", "children", "name", "pool")

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.children: tuple[str, ...] = ()
        """*neighborNumChildren*, by name."""
        self.pool: deque[Any] = deque()
        """What came from it and waits."""


class State(Step, Retention):
    def __init__(self, name: str, options: GingerOptions) -> None:
        Step.__init__(self)
        Retention.__init__(self, options.held_max)
        self.name = name
        self.options = options
        self.outbox = Outbox(self)
        self.peers = Peers(self, self.outbox, name)
        self.dead: dict[str, int] = {}
        """Brokers that were declared dead, with the incarnation that it concerns."""
        self.parent: str | None = None
        self.is_root = False
        self.neighbors: dict[str, Neighbor] = {}
        self.clock = 0
        self.seen = SeenRanges()
        """Which identifiers were processed here."""
        self.marks = Seen()
        """The last identifier of each client."""
        self.wishes = RecordedSubscriptions(self.marks.marks)
        self.sessions = ClientSessions(Serving("ginger", tuple(Guarantee), 1, receipts=RECEIPTS), self, self.wishes)
        self.buffer: dict[MessageId, Entry] = {}
        self._of_topic: dict[str, deque[MessageId]] = {}
        self.held_back: deque[Entry] = deque()
        """Processed, and not shown to clients here yet (`safe_first`)."""
        self.whole_tree = options.corrects("whole_tree")

    def log(self, line: str) -> None:
        """A line in the words of the thesis' logs. Nobody reads it here; the replays of the annexes do."""

    # -- the tree ------------------------------------------------------------------------------------------------------

    @property
    def attached(self) -> bool:
        return self.is_root or self.parent is not None

    @property
    def children(self) -> list[str]:
        return [name for name in self.neighbors if name != self.parent]

    @property
    def residual_degree(self) -> int:
        clients = sum(session.attending for session in self.sessions.all.values())
        return self.options.total_degree - len(self.neighbors) - clients

    def subscribers(self, bundle: Bundle, matches: Matches | None = None) -> list[str]:
        """The neighbours in the sub-tree of the message's topic."""
        if self.whole_tree:
            return list(self.neighbors)
        wanted = self.wishes.table.matches(bundle) if matches is None else matches
        return [name for name in self.neighbors if name in wanted]

    def subscribed_topics(self, other_than: str) -> set[Predicate]:
        """*getSubscribedTopics*: what clients here and children subscribe to."""
        directions = [*self.sessions.all, *self.children]
        return {one for name in directions if name != other_than for one in self.wishes.table.of(name)}

    def locate(self, name: str, address: str) -> Successor:
        if address:
            self.out.append(Locate(name, address))
        return Successor(name, address)

    @property
    def first_held_back(self) -> int | None:
        return self.held_back[0].no if self.held_back else None

    def show_safe(self) -> None:
        """Give clients what is safe, in the order of processing."""
        shows_all = not self.neighbors or not self.options.corrects("safe_first")
        while self.held_back and (shows_all or self.held_back[0].safe):
            self.sessions.show(self.held_back.popleft(), self.out)

    # -- metadataBuffer ------------------------------------------------------------------------------------------------

    def remember(self, entry: Entry) -> None:
        """Put a message into the buffer. As published, the oldest of its topic makes room."""
        if entry.id in self.buffer:
            return
        self.buffer[entry.id] = entry
        if self.options.corrects("keep"):
            self.keep(entry)
            return
        of_topic = self._of_topic.setdefault(entry.bundle.topic, deque())
        of_topic.append(entry.id)
        if len(of_topic) > self.options.buffer_size:
            self.buffer.pop(of_topic.popleft(), None)

    def evict(self, entry: Entry) -> None:
        """With `keep`: it was kept for long enough."""
        if self.buffer.pop(entry.id, None) is not None:
            self.let_go(entry)
