"""Entries of a broker's log: one bundle each, and who still needs it.

Two ladders say how far a bundle has come, each from reports of the neighbours concerned, and each up to k hops away:

- `reach` k: every broker within k hops that the bundle was sent to *has* it. It makes a publication safe.
- `level` k: moreover, the readers at every broker within k - 1 hops have *taken* it. Above f the entry is *stable*: no
  set of f crashes can bring a demand for this copy, and the log may forget it.

`RecentlyAcked` keeps marks of entries whose last report was sent recently: that report may not have arrived yet.

`Repeats` finds publications that come a second time because their publisher moved to another broker and published them
again. The *original* is the entry that came first. The *repeat* comes from the side to which the publisher moved, and
is stored as a copy beside it. Readers on this side take the original, never the repeat. So the repeat takes a reach or
a level only when the original has it: until then the neighbour that sent the repeat keeps it, and f + 1 brokers store
the publication. Reaches and levels wait only for lower ones of neighbours, so two brokers that sent each other the same
publication do not wait for each other. `done` does not wait for the original: the broker that serves the publisher asks
the whole tree before it tells `delivered` of what may be a repeat (`stacks.resprout.unsettled`).
"""

import enum
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from resprout.core import limits
from resprout.core.bundle import Bundle, CausalKey, Origin
from resprout.core.errors import transition
from resprout.core.message_fields import NOTHING, Reached

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
    """A bundle at this broker: where it came from, who reads it, and how far it has come elsewhere."""

    __slots__ = (
        "awaits", "bundle", "client", "copies", "cost", "first", "hops", "incarnation", "is_backup", "lacking",
        "last", "level", "no", "origin", "picks", "pins", "prompt", "publisher", "reach", "reach_lacking",
        "readers", "restored", "shown", "source", "spill", "stamp", "stream", "tseq", "undone", "waits",
    )  # fmt: skip

    def __init__(self, no: int, bundle: Bundle, source: "Link | None", client: Any, hops: int) -> None:
        self.no = no
        """Its place in the log."""
        self.bundle: Bundle | None = bundle
        """None once the entry is stable."""
        self.cost = bundle.cost
        self.source = source
        """The neighbour it came from; None when a local client published it, and for a total."""
        self.client = client
        """The session of the local client that published it; None otherwise. The log does not look inside."""
        self.prompt = False
        """Whether its publisher waits for `delivered`."""
        self.awaits = 0
        """The receipt levels that its publisher waits for, as bits, if it is served here."""
        self.publisher = bundle.publisher
        self.stream = bundle.stream
        self.incarnation = bundle.incarnation
        self.origin = bundle.origin
        self.first = bundle.first
        self.last = bundle.last
        self.stamp = bundle.stamp
        self.tseq = -1
        """Of a total: its place in the one order of totals."""
        self.restored: Republished | None = None
        """How it came back after a full restart, if it did: links are given it in the same form."""
        self.hops = hops
        """Links between brokers that it has crossed."""
        self.reach = 0
        """Its place on the first ladder, 0 to f: see the head of this file."""
        self.reach_lacking: list[int] = []
        """reach_lacking[k]: how many neighbours have not yet reported reach k."""
        self.level = 0
        """Its place on the second ladder, 0 to f + 1."""
        self.lacking: list[int] = []
        """lacking[k]: how many neighbours have not yet reported level k. lacking[0] counts this broker too, until
        its readers have taken the entry."""
        self.copies = 1 + hops
        """Brokers that certainly have it: those on the path it took, and neighbours that said so."""
        self.pins = 1
        """Local readers that have not taken it; plus one until it is shown."""
        self.undone = 0
        """Neighbours behind which it is not yet delivered, and local readers that have not taken it."""
        self.waits = 0
        """Links that have fallen behind and must catch up with it. While there are any, its source is charged."""
        self.readers: tuple[Any, ...] = ()
        """Sessions of local clients that it will be shown to."""
        self.picks: dict[str, tuple[int, ...]] | None = None
        """Where a content filter picked only some of its messages for a reader: their offsets, by the reader's name."""
        self.shown = False
        """Whether it was given to its local readers, if it has any."""
        self.spill = SpillState.MEMORY
        self.is_backup = False
        """Whether it is a copy for others: no reader on this side was owed it when it came."""

    def to_spill_state(self, state: SpillState) -> None:
        self.spill = transition(SPILL_TRANSITIONS, self.spill, state)

    @property
    def id(self) -> "Id":
        """A key that is the same at every broker, and sorts causes before effects."""
        return (self.stamp, self.publisher, self.stream, self.incarnation, self.first)

    @property
    def place(self) -> int:
        """Place in the total order, also of a total from before a full restart; -1 for others."""
        return self.tseq if self.restored is None else self.restored.tseq

    @property
    def delivered(self) -> bool:
        """Whether nobody on this side of the source is still owed it."""
        return self.undone == 0

    def __repr__(self) -> str:
        return f"<entry {self.no} level {self.level} {self.bundle!r}>"


class RecentlyAcked:
    """How far each origin has come among entries whose last report was sent within the last two periods (`turn`).

    Two generations: the latest period, and the one before."""

    __slots__ = ("_before", "_latest", "_turned_us")

    def __init__(self) -> None:
        self._latest: dict[Origin, Reached] = {}
        self._before: dict[Origin, Reached] = {}
        self._turned_us = 0

    def note(self, entry: Entry) -> None:
        """Note that the last report about an entry was sent."""
        origin = entry.origin
        if entry.last > self._latest.get(origin, NOTHING):
            self._latest[origin] = entry.last

    def turn(self, now_us: int, period_us: int) -> None:
        """Begin another period. Called while every neighbour is heard, so reports of the period before the last have
        arrived."""
        if now_us - self._turned_us >= period_us:
            self._turned_us = now_us
            self._before, self._latest = self._latest, {}

    def marks(self) -> dict[Origin, Reached]:
        found = dict(self._before)
        for origin, at in self._latest.items():
            found[origin] = max(at, found.get(origin, NOTHING))
        return found


class Follower:
    """One repeat of an original, and the reach and level that it has taken over."""

    __slots__ = ("level", "reach", "repeat")

    def __init__(self, repeat: Entry) -> None:
        self.repeat = repeat
        self.reach = 0
        self.level = 0


class Repeats:
    """The entries that the log stores, by origin, and the repeats that wait for them."""

    __slots__ = ("_by_origin", "changed", "followers")

    def __init__(self) -> None:
        self._by_origin: dict[Origin, dict[int, tuple[Entry, ...]]] = {}
        """By origin and first number: entries of the log; a repeat has the same number as its original."""
        self.followers: dict[Entry, list[Follower]] = {}
        """By original: the repeats that wait for it."""
        self.changed: dict[Entry, None] = {}
        """Originals that have come further in this step."""

    def add(self, entry: Entry) -> None:
        """Remember an entry of the log."""
        entries = self._by_origin.get(entry.origin)
        if entries is None:
            entries = self._by_origin[entry.origin] = {}
        same = entries.get(entry.first)
        entries[entry.first] = (entry,) if same is None else (*same, entry)

    def drop(self, entry: Entry) -> None:
        """Forget an entry that leaves the log."""
        entries = self._by_origin[entry.origin]
        same = entries[entry.first]
        if len(same) > 1:
            entries[entry.first] = tuple([other for other in same if other is not entry])
            return
        del entries[entry.first]
        if not entries:
            del self._by_origin[entry.origin]

    def find_originals(self, bundle: Bundle) -> list[Entry]:
        """Return the entries with some of the numbers of this bundle. Totals are left out: every broker stores them by
        itself, and they are reported by name."""
        entries = self._by_origin.get(bundle.origin, {})
        first, last = bundle.first, bundle.last
        same = [entry for entry in entries.get(first, ()) if entry.last == last and entry.tseq < 0]
        if same or not entries:
            return same
        firsts = range(max(1, first - limits.BUNDLE_MESSAGES + 1), last + 1)  # they are bundled in another way
        near = [entry for at in firsts for entry in entries.get(at, ())]
        return [entry for entry in near if entry.last >= first and entry.tseq < 0]

    def has_unread(self, origin: Origin, last: int) -> bool:
        """Whether readers here have not taken some entry of an origin up to this number, or a neighbour that it goes to
        has not said that it has it."""
        entries = self._by_origin.get(origin, {})
        return any(first <= last and any(not entry.level for entry in same) for first, same in entries.items())

    def follow(self, repeat: Entry, originals: list[Entry]) -> None:
        """Let the reports of `repeat`, which has just come, wait for these entries."""
        for original in originals:
            self.followers.setdefault(original, []).append(Follower(repeat))
            self.changed[original] = None
            for lacking in (repeat.reach_lacking, repeat.lacking):
                for at in range(len(lacking)):
                    lacking[at] += 1
            repeat.reach = repeat.level = 0

    def touch(self, original: Entry) -> None:
        """Note that an original has come further."""
        if original in self.followers:
            self.changed[original] = None

    def advance(self, faults_tolerated: int, settle: Callable[[Entry], None]) -> None:
        """At the end of a step, let repeats come as far as their originals. `settle` is called for each repeat that may
        rise."""
        while self.changed:
            changed, self.changed = self.changed, {}
            for original in changed:
                for follower in self.followers.get(original, ()):
                    _catch_up(follower, original)
                    settle(follower.repeat)
                if original.level > faults_tolerated:
                    self.followers.pop(original, None)


def _catch_up(follower: Follower, original: Entry) -> None:
    repeat = follower.repeat
    for at in range(follower.reach, original.reach):
        repeat.reach_lacking[at] -= 1
    for at in range(follower.level, original.level):
        repeat.lacking[at] -= 1
    follower.reach = max(follower.reach, original.reach)
    follower.level = max(follower.level, original.level)
