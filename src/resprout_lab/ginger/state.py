"""The data structures that a broker maintains (section 3.3), and the buffer of what it has processed (section 4.3.2).

| in the thesis | here |
|---|---|
| *neighbors*, *parent* | `neighbors`, `parent`; clients are in `sessions` |
| *subscribers*, *parentRef*, *numberOfChildren*, *clients* | `wishes`, and what `subscribers` makes of it |
| *poolUp*, *poolDown* | `Neighbor.pool`; of clients, `ClientSession.waiting` |
| *metadataBuffer* | `buffer`, in the order of processing |
| *residualDegree* | `residual_degree`, derived |

`TreeView` is the local tree view (section 4.2.2): Algorithms 1 and 2, and *sendTreeViewUpdate* of Algorithm 3. A broker
knows its *ancestors* (brokers with a lower depth, uncles among them) and its *siblings*, up to a distance of *maxHops*.
It learns them from the paths of `Subscribe` and `TreeViewUpdate` messages that come from its parent. The entries of a
path, and their order, are those of the logs in annexes II and III.

`GingerOptions` has the parameters of the thesis under its own names, and the corrections that are applied. The thesis
gives pseudocode, text and logs (annexes II to IX). Where the pseudocode contradicts the text or a log, this package
follows those two: such misprints are listed in docs/stacks/ginger.md and are no options. What is wrong in all three is
left as published, unless its correction is named in `corrected`.
"""

from collections import deque
from typing import Annotated, Any, Final

import msgspec

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
from resprout_lab.ginger.messages import MessageId, Path, PathEntry, Subscribe, TreeViewUpdate, id_of

CORRECTIONS: Final = {
    "acyclic": "G3: two orphans accept each other and form a cycle without a root",
    "whole_tree": "G4, G9, G16: a broker that moves, or a client that moves to it, misses topics it was not part of",
    "named_repairs": "G5: counters of connections end a repair too early, or hold messages for good",
    "marks": "G6: what a publisher sent is not retransmitted when the receiver's buffer holds nothing of it",
    "keep": "G7: a bounded buffer evicts what a neighbour still lacks",
    "duplicates": "G8: a message that two orphans push is delivered twice",
    "succession": "G10: a sibling that dies in an election leaves two roots",
    "root_order": "G11, G12: totals that lock one key from two sides of the tree wait for each other for ever",
    "client_queue": "G14: a message overtakes an earlier one of its publisher that a lock holds",
    "safe_first": "G15: clients of a broker that dies have seen a message that no other broker has",
    "ordered_workers": "a worker overtakes another one: messages of one publisher leave in another order",
}
"""By name: the finding of docs/stacks/ginger.md, and the anomaly that the correction removes."""

AS_PUBLISHED: Final = "none"
CORRECTED: Final = "all"


def _read(text: str) -> frozenset[str]:
    """The corrections that `all`, `none`, `all but A, B` or `A, B` name."""
    if text in (AS_PUBLISHED, CORRECTED):
        return frozenset(CORRECTIONS if text == CORRECTED else ())
    without = text.removeprefix("all but ")
    names = {name.strip() for name in without.split(",")}
    if unknown := sorted(names - CORRECTIONS.keys()):
        raise ValueError(f"corrected: there is no correction {unknown[0]!r}; there is {', '.join(CORRECTIONS)}")
    return frozenset(CORRECTIONS.keys() - names if without != text else names)


class GingerOptions(msgspec.Struct, frozen=True, dict=True):
    corrected: str = CORRECTED
    """The corrections to apply: `all`, `none` (as published), `all but A, B`, or `A, B`."""
    total_degree: Annotated[int, msgspec.Meta(ge=1)] = 3
    """*total-degree*: brokers and clients that a broker has as neighbours before it refuses a ParentRequest."""
    buffer_size: Annotated[int, msgspec.Meta(ge=1)] = 150
    """*bufferSize*: messages of one topic that a broker keeps for others. With `keep`, it keeps them for `keep_us`."""
    timer_us: Annotated[int, msgspec.Meta(ge=1_000)] = 2_000_000
    """*timerDuration*: how long a broker waits for a connection. Also how long it may be silent before it counts as
    dead; the thesis learns of deaths from TCP alone."""
    max_hops: Annotated[int, msgspec.Meta(ge=1, le=64)] = 3
    """*maxHops*: the distance up to which a broker knows others."""
    workers: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 10
    """*nr-actors*: messages that a broker processes at a time. It matters where processing takes time (`work_us`)."""
    work_us: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Mean time that a worker takes for a message, drawn evenly between nothing and twice as much."""
    keep_us: Annotated[int, msgspec.Meta(ge=1_000)] = 10_000_000
    """How long a broker keeps a message for others (with `keep`), and a client one that it published. Longer than a
    repair takes; what is kept for longer delays publishers that are held back."""
    held_max: Annotated[int, msgspec.Meta(ge=1)] = 10_000
    """Messages of one neighbour or client that may be kept here before it is held back."""

    def __post_init__(self) -> None:
        self.__dict__["corrections"] = _read(self.corrected)

    def corrects(self, name: str) -> bool:
        assert name in CORRECTIONS, name
        return name in self.__dict__["corrections"]


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


class Known:
    """A broker in the view."""

    __slots__ = ("address", "hops", "is_above")

    def __init__(self, hops: int, address: str, is_above: bool = False) -> None:
        self.hops = hops
        self.is_above = is_above
        """It is on the way to the root, and no uncle."""
        self.address = address


class TreeView:
    def __init__(self, state: State, address: str) -> None:
        self._state = state
        self._address = address
        self.ancestors: dict[str, Known] = {}
        self.siblings: dict[str, Known] = {}
        self.paths: dict[tuple[str, str | None], tuple[str, Path]] = {}
        """By filter and condition: who sent the last `Subscribe` for it, and its path."""
        self.former: dict[str, str] = {}
        """Every broker that was ever in the view and is not known to be dead, with its address."""

    def nearest_ancestors(self) -> list[str]:
        return sorted(self.ancestors, key=lambda name: self.ancestors[name].hops)

    def successors(self) -> tuple[Successor, ...]:
        """The view of a client (section 4.2.2.1): the brokers around its own one, the nearest first."""
        state = self._state
        first = [state.neighbors[state.parent]] if state.parent is not None else []
        near = [*first, *(one for one in state.neighbors.values() if one.name != state.parent)]
        far = {**self.siblings, **{name: self.ancestors[name] for name in self.nearest_ancestors()}}
        return (
            *[Successor(one.name, one.address) for one in near],
            *[Successor(name, known.address) for name, known in far.items() if name not in state.neighbors],
        )

    # -- Algorithm 1 ---------------------------------------------------------------------------------------------------

    def handle_path(self, sender: str, path: Path) -> Path:
        """Increment the hops of each entry, and store those that came from the parent."""
        state = self._state
        entries = ", ".join(f"({one.name}, hops={one.hops}, down={str(one.down).lower()})" for one in path)
        state.log(f"received path=[{entries}] from {sender}")
        path = tuple([PathEntry(entry.name, entry.hops + 1, entry.down, entry.address) for entry in path])
        if sender == state.parent:
            previous: PathEntry | None = None
            for entry in path:
                if entry.hops <= state.options.max_hops and self._is_unknown(entry.name):
                    if entry.hops == 2 and not entry.down:
                        self._store(self.siblings, "sibling", entry)
                    elif entry.down or (previous is not None and previous.down):
                        self._store(self.ancestors, "ancestor", entry)
                previous = entry
        return tuple([entry for entry in path if entry.hops <= state.options.max_hops])

    def _is_unknown(self, name: str) -> bool:
        state = self._state
        known = name in self.siblings or name in self.ancestors or name in state.neighbors
        return not known and name != state.name and name not in state.dead

    def _store(self, kind: dict[str, Known], word: str, entry: PathEntry) -> None:
        self._state.log(f"adding {word} {entry.name}")
        kind[entry.name] = Known(entry.hops, entry.address, entry.down)
        self.former[entry.name] = entry.address
        self._state.locate(entry.name, entry.address)

    def extended(self, path: Path, receiver: str) -> Path:
        """The path of a message that goes on to a neighbour."""
        return (PathEntry(self._state.name, 0, receiver != self._state.parent, self._address), *path)

    # -- Algorithms 2 and 3 --------------------------------------------------------------------------------------------

    def on_tree_view_update(self, neighbor: Neighbor, update: TreeViewUpdate) -> None:
        state = self._state
        if update.failed:
            self.remove(update.other)
            self.former.pop(update.other, None)
        if neighbor.name != state.parent:
            neighbor.children = update.children
        path = self.handle_path(neighbor.name, update.path)
        for name in state.children:
            if name != neighbor.name:
                onward = self.extended(path, name)
                state.outbox.send(name, TreeViewUpdate(update.other, tuple(state.children), update.failed, onward))

    def send_tree_view_update(self, other: str, failed: bool) -> None:
        """Tell all neighbours of one that was added or that failed. The parent needs no path."""
        state = self._state
        for name in state.neighbors:
            path = () if name == state.parent else self._own_path()
            state.outbox.send(name, TreeViewUpdate(other, tuple(state.children), failed, path))
        if not failed and other in state.children:
            for (filter, where), (source, path) in self.paths.items():
                if source in state.neighbors and source != other:
                    state.outbox.send(other, Subscribe(0, filter, where, self.extended(path, other)))

    def _own_path(self) -> Path:
        """This broker, its children, its parent, its siblings and ancestors, as a child of it sees them."""
        state = self._state
        entries = [PathEntry(state.name, 0, True, self._address)]
        entries += [PathEntry(name, 1, False, state.neighbors[name].address) for name in reversed(state.children)]
        if state.parent is not None:
            entries.append(PathEntry(state.parent, 1, True, state.neighbors[state.parent].address))
        for name, known in reversed(self.siblings.items()):
            entries.append(PathEntry(name, known.hops, False, known.address))
        for name in self.nearest_ancestors():
            entries.append(PathEntry(name, self.ancestors[name].hops, True, self.ancestors[name].address))
        return tuple([entry for entry in entries if entry.hops < state.options.max_hops])

    def remove(self, name: str) -> None:
        """*removeFromTreeView*."""
        if self.ancestors.pop(name, None) is not None:
            self._state.log(f"removing ancestor {name}")
        elif self.siblings.pop(name, None) is not None:
            self._state.log(f"removing sibling {name}")
