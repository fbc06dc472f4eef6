"""One bundle in one broker's log, and who still needs it.

Two ladders say how far it has come, each from reports of the neighbours concerned, and each up to k hops away:

- `reach` k: every broker within k hops that the bundle was sent to *has* it. It makes a publication safe.
- `level` k: moreover, the readers at every broker within k - 1 hops have *taken* it. Above f the entry is *stable*: no
  set of f crashes can bring a demand for this copy, and the log may forget it.
"""

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from resprout.core.bundle import Bundle, CausalKey, Origin
from resprout.core.states import transition

if TYPE_CHECKING:
    from resprout.order.link import Link
    from resprout.order.messages import Republished


Id = CausalKey


class SpillState(enum.Enum):
    """Where the columns of an entry are, for brokers that spill to disk."""

    MEMORY = enum.auto()
    """In memory, or nowhere: the entry has no bundle any more."""
    CANDIDATE = enum.auto()
    """The same, and the entry stands once in the line of those that may be put on disk."""
    DISK = enum.auto()
    """On disk: the bundle is a `StowedBundle`."""


SPILL_TRANSITIONS: Final[Mapping[SpillState, frozenset[SpillState]]] = MappingProxyType(
    {
        SpillState.MEMORY: frozenset({SpillState.CANDIDATE}),
        SpillState.CANDIDATE: frozenset({SpillState.DISK, SpillState.MEMORY}),
        SpillState.DISK: frozenset({SpillState.MEMORY}),
    }
)


class Entry:
    __slots__ = (
        "awaits", "bundle", "client", "copies", "cost", "first", "hops", "incarnation", "is_backup", "lacking",
        "last", "level", "no", "picks", "pins", "prompt", "publisher", "reach", "reach_lacking", "readers",
        "restored", "shown", "source", "spill", "stamp", "stream", "tseq", "undone", "waits",
    )  # fmt: skip

    def __init__(self, no: int, bundle: Bundle, source: "Link | None", client: Any, hops: int) -> None:
        self.no = no
        """Its place in the log."""
        self.bundle: Bundle | None = bundle
        """None once it is stable."""
        self.cost = bundle.cost
        self.source = source
        """The neighbour it came from; None when a local client published it, and for a total."""
        self.client = client
        """The local client that published it, if any; the log does not look inside."""
        self.prompt = False
        """Its publisher waits for `delivered`."""
        self.awaits = 0
        """The receipts that it waits for, where it is served here."""
        self.publisher = bundle.publisher
        self.stream = bundle.stream
        self.incarnation = bundle.incarnation
        self.first = bundle.first
        self.last = bundle.last
        self.stamp = bundle.stamp
        self.tseq = -1
        """Of a total: its place in the one order of totals."""
        self.restored: Republished | None = None
        """How it came back after everything had stopped, if it did: links are given it in the same way."""
        self.hops = hops
        self.reach = 0
        self.reach_lacking: list[int] = []
        """reach_lacking[k]: how many neighbours concerned have not yet reported reach k."""
        self.level = 0
        self.lacking: list[int] = []
        """lacking[k]: the same for level k; lacking[0] counts this broker too, until its readers have taken it."""
        self.copies = 1 + hops
        """Brokers that certainly have it: the path it took, and neighbours that said so."""
        self.pins = 1
        """Not yet shown, and local readers that have not taken it."""
        self.undone = 0
        """Neighbours behind which, and local readers to whom, it is not yet delivered."""
        self.waits = 0
        """Links that must catch up with it, and readers that were shown it and have not taken it."""
        self.readers: tuple[Any, ...] = ()
        """Local clients that it will be shown to."""
        self.picks: dict[str, tuple[int, ...]] | None = None
        """Where a content filter picked only some of its messages for a reader: their offsets, by the reader's name."""
        self.shown = False
        self.spill = SpillState.MEMORY
        self.is_backup = False
        """Kept for others only: nobody on this side was owed it when it came in a repair."""

    def to_spill_state(self, state: SpillState) -> None:
        self.spill = transition(SPILL_TRANSITIONS, self.spill, state)

    @property
    def origin(self) -> Origin:
        return (self.publisher, self.stream, self.incarnation)

    @property
    def id(self) -> "Id":
        """The same at every broker, and in the order of causes before effects."""
        return (self.stamp, self.publisher, self.stream, self.incarnation, self.first)

    @property
    def place(self) -> int:
        """In the one order: of a total, also of one that had it before everything stopped. Otherwise -1."""
        return self.tseq if self.restored is None else self.restored.tseq

    @property
    def delivered(self) -> bool:
        """Nobody on this side of the source is still owed it."""
        return self.undone == 0

    def __repr__(self) -> str:
        return f"<entry {self.no} level {self.level} {self.bundle!r}>"
