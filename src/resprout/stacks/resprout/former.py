"""What a disk says of the life before: the log, who was to read or be sent what, how far origins had come, and where in
the tree this broker stood.

Everything in it was written by `disk_log`. What cannot be read is counted, and left out.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from resprout.core.bundle import Bundle, Origin, from_record, to_record
from resprout.core.message_fields import Epoch, Mark, Marks, raise_to
from resprout.edge.durable_messages import NO_DROPS, Drops, IdBatches, Spans, Tries
from resprout.overlay.messages import Life
from resprout.stacks.resprout.durable_state import STATE_MARKS_MAX, DurableProgress, DurableState
from resprout.values.rows import KnownOutcome, KnownValue, ValueRow, ValuesReached

BundleKey = tuple[str, str, int, int]
"""(publisher, stream, incarnation, first number): whatever its stamp."""


class FormerWish(msgspec.Struct, frozen=True, array_like=True):
    filter: str
    where: str | None


class Roster(msgspec.Struct, frozen=True, array_like=True):
    """Where a broker stood, and for whom."""

    network: str
    life: Life
    epoch: Epoch
    neighbours: tuple[Life, ...]
    others: tuple[Life, ...] = ()
    """Whom else it knew: neighbours may come back with empty disks, and tell nothing of theirs."""
    looks_after: tuple[Life, ...] = ()
    """Dead brokers whose clients it looked after."""
    hidden: tuple[FormerWish, ...] = ()
    """Subscriptions of its clients and ghosts to topics that begin with `$`, which the wildcard `#` does not match."""
    moved: tuple[str, ...] = ()
    """Clients that had come from elsewhere: what they were still to be given is not written beside each bundle."""
    given_up: tuple[Life, ...] = ()
    """Lives whose clients nobody can look after, and who may not have heard so."""


class KeptBundle(msgspec.Struct, frozen=True, array_like=True, tag="bundle"):
    """An entry of the log, as it was accepted."""

    record: bytes
    tseq: int = -1
    readers: tuple[str, ...] = ()
    """Clients of this broker, and ghosts."""
    sent_to: tuple[str, ...] = ()
    """Neighbours."""


class KeptRoster(msgspec.Struct, frozen=True, array_like=True, tag="roster"):
    roster: Roster


class KeptWish(msgspec.Struct, frozen=True, array_like=True, tag="wish"):
    """One more for `hidden` of the roster before it."""

    wish: FormerWish


class KeptMarks(msgspec.Struct, frozen=True, array_like=True, tag="marks"):
    """Of entries that are not kept any more: they were here."""

    marks: Marks


class KeptListeners(msgspec.Struct, frozen=True, array_like=True, tag="listeners"):
    """Clients with subscriptions for whom this broker stands from now on, and no longer."""

    came: tuple[str, ...]
    went: tuple[str, ...]


class KeptDurable(msgspec.Struct, frozen=True, array_like=True, tag="durable"):
    """A durable subscription, as this broker knew it."""

    state: DurableState


class KeptDone(msgspec.Struct, frozen=True, array_like=True, tag="done"):
    """Of a durable subscription: up to here everything is done, and all of these spans."""

    subscription: str
    term: int
    marks: Marks
    spans: Spans = ()
    drops: Drops = NO_DROPS
    tries: tuple[Tries, ...] = ()


class KeptIds(msgspec.Struct, frozen=True, array_like=True, tag="ids"):
    """Of a durable subscription: messages with these ids have come."""

    subscription: str
    ids: IdBatches


class KeptWrite(msgspec.Struct, frozen=True, array_like=True, tag="write"):
    """What one retained publication did here (`values.store.AppliedWrite`)."""

    topic: str
    place: int
    is_applied: bool
    value: KnownValue | None
    outcome: KnownOutcome | None


class KeptReached(msgspec.Struct, frozen=True, array_like=True, tag="reached"):
    """All last values follow, up to this place; those before this record do not count."""

    place: int


_Kept = (
    KeptWrite
    | KeptReached
    | KeptBundle
    | KeptRoster
    | KeptWish
    | KeptMarks
    | KeptListeners
    | KeptDurable
    | KeptDone
    | KeptIds
)
encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Kept).decode


class FormerEntry(msgspec.Struct, frozen=True):
    bundle: Bundle
    tseq: int
    readers: frozenset[str]
    sent_to: frozenset[str]

    def joined(self, other: "FormerEntry") -> "FormerEntry":
        """Of what was written twice. Of two stamps the lower one: whatever depends on it was stamped after either."""
        first, second = sorted((self, other), key=lambda entry: entry.bundle.stamp)
        return FormerEntry(
            first.bundle, max(self.tseq, other.tseq), first.readers | second.readers, first.sent_to | second.sent_to
        )


class Former:
    def __init__(self, records: Iterable[bytes] = ()) -> None:
        self.roster: Roster | None = None
        """The latest."""
        self.entries: dict[BundleKey, FormerEntry] = {}
        self.unreadable = 0
        self.count = 0
        """Records, readable or not."""
        self._seen: dict[Origin, int] = {}
        self._listeners: set[str] = set()
        self._durables: dict[str, DurableState] = {}
        self._done: dict[str, DurableProgress] = {}
        self._values: dict[str, KnownValue] = {}
        self._outcomes: dict[tuple[str, int, int], KnownOutcome] = {}
        """By writer, life and number."""
        self._values_place = -1
        self._wishes: dict[FormerWish, None] = {}
        """Since the latest roster."""
        for record in records:
            self.count += 1
            self._take(record)
        self._join_wishes()

    def _join_wishes(self) -> None:
        """Put what was written behind the latest roster into it."""
        if self.roster is not None and self._wishes:
            self.roster = msgspec.structs.replace(self.roster, hidden=(*self.roster.hidden, *self._wishes))

    def _take(self, record: bytes) -> None:
        try:
            kept = _decode(record)
        except msgspec.MsgspecError:
            self.unreadable += 1
            return
        if isinstance(kept, KeptRoster):
            self.roster = kept.roster
            self._wishes = {}
        elif isinstance(kept, KeptWish):
            self._wishes[kept.wish] = None
        elif isinstance(kept, KeptWrite):
            self._take_write(kept)
        elif isinstance(kept, KeptReached):
            self._values, self._outcomes, self._values_place = {}, {}, kept.place
        elif isinstance(kept, KeptListeners):
            self._listeners.difference_update(kept.went)
            self._listeners.update(kept.came)
        elif isinstance(kept, KeptMarks):
            raise_to(self._seen, kept.marks)
        elif isinstance(kept, KeptDurable):
            name, before = kept.state.subscription, self._durables.get(kept.state.subscription)
            if before is None or before.over:
                self._done.pop(name, None)
            base = before.base if before is not None and kept.state.is_partial else kept.state.base
            self._durables[name] = msgspec.structs.replace(kept.state, base=base, is_partial=False)
            self._raise_done(name, kept.state.done, kept.state.spans, kept.state.drops, kept.state.tries)
        elif isinstance(kept, KeptDone):
            self._raise_done(kept.subscription, kept.marks, kept.spans, kept.drops, kept.tries)
        elif isinstance(kept, KeptIds):
            self._done.setdefault(kept.subscription, DurableProgress()).ids.add(kept.ids)
        else:
            bundle = from_record(kept.record)
            if bundle is None:
                self.unreadable += 1
                return
            self.add(bundle, kept.tseq, kept.readers, kept.sent_to)

    def _take_write(self, kept: KeptWrite) -> None:
        if kept.is_applied:
            self._values.pop(kept.topic, None)
        if kept.is_applied and kept.value is not None:
            self._values[kept.topic] = kept.value
        if (outcome := kept.outcome) is not None:
            self._outcomes[outcome.publisher, outcome.incarnation, outcome.seq] = outcome
        self._values_place = max(kept.place, self._values_place)

    def _raise_done(
        self, subscription: str, marks: Marks, spans: Spans, drops: Drops, tries: tuple[Tries, ...]
    ) -> None:
        progress = self._done.setdefault(subscription, DurableProgress())
        progress.add(marks, spans)
        progress.tries.add(tries)
        progress.drops = progress.drops.joined(drops)

    def add(self, bundle: Bundle, tseq: int, readers: Iterable[str], sent_to: Iterable[str]) -> None:
        key = key_of(bundle)
        entry = FormerEntry(bundle, tseq, frozenset(readers), frozenset(sent_to))
        known = self.entries.get(key)
        self.entries[key] = entry if known is None else known.joined(entry)
        raise_to(self._seen, (Mark(*bundle.origin, bundle.last),))

    @property
    def seen(self) -> Mapping[Origin, int]:
        """How far each origin had come at this broker, also of entries that were stable and forgotten."""
        return self._seen

    @property
    def listeners(self) -> frozenset[str] | None:
        """Clients that will want what they missed; None when that is not known of all of them."""
        if self.roster is None or any(name.startswith("~") for name in self._listeners):
            return None
        return frozenset(self._listeners)

    @property
    def durables(self) -> list[DurableState]:
        """Durable subscriptions, those that were ended included."""
        done = {name: self._done.get(name, DurableProgress()) for name in self._durables}
        return [
            msgspec.structs.replace(
                state,
                done=done[name].marks()[-STATE_MARKS_MAX:],
                spans=done[name].spans(),
                drops=done[name].drops,
                tries=done[name].tries.all(),
            )
            for name, state in self._durables.items()
        ]

    def ids(self) -> Iterator[tuple[str, IdBatches]]:
        """Return ids of messages that came lately, by durable subscription."""
        return ((name, self._done[name].ids.all()) for name in self._durables if name in self._done)

    def values(self) -> tuple[ValueRow, ...]:
        """Return the last values; nothing if none were ever retained."""
        if self._values_place < 0:
            return ()
        return (*self._values.values(), *self._outcomes.values(), ValuesReached(self._values_place))

    def is_owed(self, client: str, home: Life, bundle: Bundle, on_its_way: bool) -> bool:
        """Whether a client of this home may be given the bundle, if it asked for it and has not received it: then it
        was to read it here, or it was `on_its_way` to this broker and had not come. What had passed before the client
        asked is not owed, and would come after its effects."""
        roster = self.roster
        if roster is None or home != roster.life or client in roster.moved:
            return True
        entry = self.entries.get(key_of(bundle))
        if entry is not None:
            return client in entry.readers or any(name.startswith("~") for name in entry.readers)
        return on_its_way and bundle.first > self._seen.get(bundle.origin, 0)


def key_of(bundle: Bundle) -> BundleKey:
    return (*bundle.origin, bundle.first)


def bundle_record(bundle: Bundle, tseq: int, readers: Iterable[str], sent_to: Iterable[str]) -> bytes:
    return encode(KeptBundle(to_record(bundle), tseq, tuple(readers), tuple(sent_to)))


def in_order(entries: Iterable[FormerEntry]) -> Iterator[FormerEntry]:
    """Causes before effects; and each origin in its own order, also where one copy of a publication that was under way
    twice is left, and of the next one the other."""
    reached: dict[Origin, int] = {}
    keyed = []
    for entry in sorted(entries, key=lambda entry: (entry.bundle.origin, entry.bundle.first)):
        stamp = reached[entry.bundle.origin] = max(entry.bundle.stamp, reached.get(entry.bundle.origin, 0))
        keyed.append(((stamp, *entry.bundle.origin, entry.bundle.first), entry))
    return iter([entry for _, entry in sorted(keyed, key=lambda pair: pair[0])])


class Owing:
    """Where bundles were on their way to when everything stopped. The tree is pieced together from what each broker
    says of its neighbours."""

    def __init__(self, rosters: Iterable[Roster]) -> None:
        self._links: dict[str, set[str]] = {}
        for roster in rosters:
            for neighbour in roster.neighbours:
                self._links.setdefault(roster.life.name, set()).add(neighbour.name)
                self._links.setdefault(neighbour.name, set()).add(roster.life.name)
        self._behind: dict[tuple[str, str], frozenset[str]] = {}

    def regions(self, holders: dict[str, frozenset[str]]) -> tuple[str, ...]:
        """Brokers that a bundle may still have come to. `holders`: who has it, and to whom each was to send it."""
        owed: set[str] = set()
        for holder, sent_to in holders.items():
            for neighbour in sent_to:
                if neighbour not in holders:
                    owed |= self._region(neighbour, holder)
        return tuple(sorted(owed))

    def _region(self, broker: str, away_from: str) -> frozenset[str]:
        """It, and everybody behind it."""
        known = self._behind.get((broker, away_from))
        if known is None:
            found = {broker}
            todo = [broker]
            while todo:
                here = todo.pop()
                for other in sorted(self._links.get(here, ())):
                    if other not in found and not (here == broker and other == away_from):
                        found.add(other)
                        todo.append(other)
            known = self._behind[broker, away_from] = frozenset(found)
        return known
