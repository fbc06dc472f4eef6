"""What a broker hands on about its totals to brokers on new links, so that rounds of closing continue over them.

A repair replaces dead brokers by a star around a *coordinator*. For every lock, each *member* says what it had told
the dead broker and heard from it:

- What a member had told is true of the member's side, so the coordinator has now heard it from the member.
- What the dead broker had told is true of everything beyond it. A member may have acted on it, so it still stands for
  the new link, and the coordinator closes no lower than that. Where a piece of the dead had told nobody, nobody can
  have acted on it; the coordinator then closes at its clock, above everything that the piece may have published. This
  is decided piece by piece: what one piece had said says nothing about another. A piece that was next to no living
  broker does not count.
- What the coordinator had told the dead is forgotten: it tells the members itself.

A total that anybody has delivered is delivered by all, at its stamp, in the course of the pool. Everything is installed
before anything goes on: `take_locks` holds the totals, `resume` lets them go. In between:

    coordinator     merge, Grant to the members, take_locks, the pool (deliver_at), lead, resume
    member          report; then, with the Grant: take_locks, the pool (deliver_at), follow, resume

What a member has logged since its report crosses the new link behind the pool, and among it, for each total that it
delivered meanwhile on what the dead had said, that it is closed: what was logged before the total crosses before that,
what was logged after it does not. The stack sees to it, which has the log.

A newcomer has published nothing yet. Where a total is active at its parent it is active at the newcomer from its first
moment, so nothing will be published there before the delivery: the newcomer's side is closed, at 0, without a message.
All other totals the newcomer activates and closes like any other broker.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from resprout.core.bundle import Bundle
from resprout.core.message_fields import Mark, Marks
from resprout.order.messages import KnownLock, RootOrderedTopic, TotalId, TotalPlace, check_locks, id_of
from resprout.order.totals.pending import LastPlaces, LockRecord
from resprout.order.totals.totals import Totals, TotalsState


class Piece(NamedTuple):
    """Dead brokers that hung together, and the members of the repair that were next to one of them."""

    dead: Collection[str]
    members: Collection[str]


class MemberLocks(NamedTuple):
    """What one member has reported."""

    locks: Sequence[KnownLock]
    last: Marks


class Said(NamedTuple):
    """What the dead had said about one total before they died."""

    highest: int
    """The highest stamp that they closed with; -1 when they said nothing."""
    is_unclosed: bool
    """Some piece of them had told nobody alive that it is closed."""


class MergedLocks(NamedTuple):
    """All that is known about locks. `locks` and `last` go into the Grant, the rest is for the coordinator."""

    locks: tuple[KnownLock, ...]
    """In the order of their places."""
    last: Marks
    said: dict[TotalId, Said]
    told: dict[TotalId, dict[str, int]]
    """What each member had told the dead."""


class Handover:
    """Reads and changes the `Totals` of one broker when its links are repaired."""

    def __init__(self, totals: Totals) -> None:
        self._totals = totals
        self._told: dict[TotalId, int] = {}
        """Between `take_locks` and `follow`: by total, the stamp of the `Closed` that was sent on the dead link."""
        self._heard: dict[TotalId, int] = {}
        """Likewise, the stamp of the `Closed` that came over the dead link."""
        self._new: Collection[str] = ()
        """The neighbours on the new links."""
        self._asked: dict[TotalId, tuple[str, ...]] = {}
        """During a repair, totals that the root has published and that waited here for their places: the neighbours
        that have submitted them."""
        self._latest: TotalPlace = (-1, 0)
        """The highest place of all totals that were taken here before the repair."""

    # -- a member reports, the coordinator merges ----------------------------------------------------------------------

    def report(self, dead: Collection[str]) -> tuple[KnownLock, ...]:
        """Return what this broker knows of every lock, and the stamps of `Closed` that crossed its links to these dead
        brokers."""
        return tuple(self._report(record, dead) for record in self._totals.locks.records.values())

    def topics(self) -> tuple[RootOrderedTopic, ...]:
        """Return the root-ordered topics, which every Attach, Grant and Welcome carries."""
        return self._totals.published.topics.rows()

    def take_topics(self, topics: Iterable[RootOrderedTopic]) -> None:
        """Take over root-ordered topics that another broker knows, before anything else of its parcel."""
        self._totals.published.topics.take(topics)

    def last(self) -> Marks:
        """Return the last ordered total of each publisher, which every Attach, Grant and Welcome carries."""
        return self._totals.submissions.last.marks()

    def _report(self, record: LockRecord, dead: Collection[str]) -> KnownLock:
        if _is_final(record):
            return _delivered(record)
        names = [name for name in self._totals.position.neighbours if name in dead]
        told, heard = _if_all(record.told, names), _if_all(record.heard, names)
        return KnownLock(*record.place, record.bundle, told=told, heard=heard, root_ordered=record.root_ordered)

    def merge(self, reports: Mapping[str, MemberLocks], pieces: Sequence[Piece]) -> MergedLocks:
        """Merge the locks of all members with those of this broker, the coordinator. Called before anything changes
        here. `reports` has every member of `pieces`; each passed `check_locks` when it came."""
        return merge(self._totals.locks.records, self.last(), reports, pieces)

    # -- everyone installs ---------------------------------------------------------------------------------------------

    def take_locks(
        self, locks: Sequence[KnownLock], last: Sequence[Mark], dead: Collection[str], new: Collection[str]
    ) -> None:
        """Take the merged locks and hold all totals. The first step, called when `position.neighbours` has the new
        links instead of the dead ones. Locks that were unknown here are passed on to the other links; the new ones have
        them already. Raises PeerError before it changes anything."""
        totals = self._totals
        if locks:
            check_locks(locks)
            new_here = (lock for lock in locks if not lock.is_scoped and not totals.is_ordered(lock.bundle))
            unknown = [lock.bundle.cost for lock in new_here]
            totals.backlog.check_room(len(unknown), sum(unknown))
        totals.move_to(TotalsState.INSTALLING)
        self._new = new
        others = self._others()
        self._asked = {}
        self._latest = totals.latest
        for lock in locks:
            id = id_of(lock.bundle)
            if not lock.is_scoped:
                totals.add_lock((lock.epoch, lock.number), lock.bundle, others, root_ordered=lock.root_ordered)
            elif id in totals.submissions.waiting:
                self._asked[id] = totals.submissions.sources(id)
        if last:
            dropped = totals.submissions.note_ordered(last)
            totals.published.tell_overtaken([one for one in dropped if id_of(one[0]) not in self._asked])
        self._told, self._heard = {}, {}
        for record in totals.locks.undelivered.values():
            _take_out(record.told, dead, self._told, record.id)
            _take_out(record.heard, dead, self._heard, record.id)

    def _others(self) -> list[str]:
        return [name for name, is_open in self._totals.position.neighbours.items() if is_open and name not in self._new]

    def may_be_missed(self, lock: KnownLock) -> bool:
        """Whether the dead may have died before they passed on this total, which the root has published. They had
        passed it over if a later one had come: totals come in the order of their places."""
        return (lock.epoch, lock.number) > self._latest

    def was_waiting(self, bundle: Bundle) -> bool:
        """Whether a total that the root has published waited here for its place when the repair began."""
        return id_of(bundle) in self._asked

    def take_missed(self, lock: KnownLock, hops: int) -> None:
        """Deliver a total that the root has published, which the dead had not passed on. Called at its place in the
        pool."""
        asked = self._asked.pop(id_of(lock.bundle), ())
        self._totals.published.take_missed((lock.epoch, lock.number), lock.bundle, asked, hops)

    def tell_known(self, bundle: Bundle) -> None:
        """Tell whoever has submitted a total that it was ordered, if it waited here and is not delivered here."""
        asked = self._asked.pop(id_of(bundle), None)
        if asked is not None:
            self._totals.published.tell_overtaken([(bundle, asked)])

    def deliver_at(self, bundle: Bundle) -> None:
        """Deliver a total with the stamp that its bundle carries, because some broker has delivered it so; do nothing
        if this one has, too. Called at its place in the pool, after everything that is before it."""
        totals = self._totals
        record = totals.locks.undelivered.get(id_of(bundle))
        if record is None:
            return
        for name in self._others() if record.publication is None else ():
            if name not in record.told:
                totals.tell_closed(record, name, bundle.stamp - 1)
        totals.deliver_with_stamp(record, bundle.stamp)

    def follow(self, coordinator: str) -> None:
        """At a member: count each `Closed` that crossed the dead link as if it had crossed the new one."""
        for id, record in self._totals.locks.undelivered.items():
            if id in self._told:
                record.told[coordinator] = self._told[id]
            if id in self._heard:
                record.heard[coordinator] = self._heard[id]

    def lead(self, merged: MergedLocks) -> None:
        """At the coordinator: count each `Closed` that a member had sent to the dead as heard from that member. Raise
        the floor of each total to the stamps that the dead had stated, or to the clock where a piece of them had stated
        none. The clock must have been raised to the clocks of all members and to all stamps of the pool."""
        clock = self._totals.clock
        locks = self._totals.locks
        for record in locks.in_line() if locks.undelivered else ():
            record.heard.update(merged.told.get(record.id, {}))
            if (said := merged.said.get(record.id)) is not None:
                record.floor = max(record.floor, said.highest, clock.tick() if said.is_unclosed else 0)

    def resume(self) -> None:
        """Continue closing, then submit totals without a place again: the last step. Local clients may submit more only
        after that (`TotalsState`), because a total that comes behind a later one of its publisher is dropped."""
        totals = self._totals
        totals.move_to(TotalsState.RESUBMITTING)
        if totals.backlog.count:
            totals.progress()
            totals.resubmit()
        totals.move_to(TotalsState.RUNNING)


def merge(
    own: Mapping[TotalId, LockRecord], own_last: Marks, reports: Mapping[str, MemberLocks], pieces: Sequence[Piece]
) -> MergedLocks:
    known = {id: _delivered(record) if _is_final(record) else _locked(record) for id, record in own.items()}
    heard = {id: dict(record.heard) for id, record in own.items()}
    told: dict[TotalId, dict[str, int]] = {}
    last = LastPlaces()
    for mark in own_last:
        last.note(mark)
    for name, report in sorted(reports.items()):
        for mark in report.last:
            last.note(mark)
        for lock in report.locks:
            id = id_of(lock.bundle)
            known[id] = _fuller(known.get(id), lock)
            if lock.told >= 0:
                told.setdefault(id, {})[name] = lock.told
            if lock.heard >= 0:
                heard.setdefault(id, {})[name] = lock.heard
    locks = tuple(sorted(known.values(), key=lambda lock: (lock.epoch, lock.number, id_of(lock.bundle))))
    said = {id: _said(heard.get(id, {}), pieces) for id in known}
    return MergedLocks(locks, last.marks(), said, told)


def _fuller(known: KnownLock | None, lock: KnownLock) -> KnownLock:
    if known is not None and (known.stamp >= 0 or lock.stamp < 0):
        return known
    place: TotalPlace = (lock.epoch, lock.number) if known is None else (known.epoch, known.number)
    return KnownLock(
        *place, lock.bundle, lock.stamp, is_scoped=lock.is_scoped, root_ordered=lock.root_ordered
    )  # fmt: skip


def _is_final(record: LockRecord) -> bool:
    """Whether somebody has delivered the total: this broker, or the root that has published it."""
    return record.stamp is not None or record.publication is not None


def _delivered(record: LockRecord) -> KnownLock:
    return KnownLock(
        *record.place, record.bundle, record.bundle.stamp, is_scoped=record.publication is not None,
        root_ordered=record.root_ordered,
    )  # fmt: skip


def _locked(record: LockRecord) -> KnownLock:
    return KnownLock(*record.place, record.bundle, root_ordered=record.root_ordered)


def _said(heard: Mapping[str, int], pieces: Iterable[Piece]) -> Said:
    """`heard` has what the coordinator heard, under the names of the dead, and what members did, under theirs."""
    stamps = [[heard[name] for name in (*piece.dead, *piece.members) if name in heard] for piece in pieces]
    return Said(max((max(piece) for piece in stamps if piece), default=-1), not all(stamps))


def _if_all(said: Mapping[str, int], names: Sequence[str]) -> int:
    """What was said on these links, if on all of them: a silent one is never counted as closed. -1 otherwise."""
    return max((said[name] for name in names), default=-1) if all(name in said for name in names) else -1


def _take_out(said: dict[str, int], dead: Collection[str], kept: dict[TotalId, int], id: TotalId) -> None:
    stamps = [said.pop(name) for name in dead if name in said]
    if stamps:
        kept[id] = max(stamps)


def newcomer_locks(totals: Totals) -> tuple[KnownLock, ...]:
    """At the parent: what a Welcome carries, besides `Handover.last`. In the same step as `joined`."""
    return tuple(
        KnownLock(*record.place, record.bundle, active=record.active, root_ordered=record.root_ordered)
        for record in totals.locks.in_line()
        if record.publication is None  # it has the wish of the newcomer when it is delivered
    )


def joined(totals: Totals, name: str) -> None:
    """Count the newcomer as closed for active totals. Called at the parent, when `position.neighbours` has it."""
    for record in totals.locks.undelivered.values():
        if record.active:
            record.heard[name] = 0


def accept_welcome(totals: Totals, locks: Sequence[KnownLock], last: Iterable[Mark], parent: str) -> None:
    """At the newcomer, when `position` has the parent and the clock and the watermarks are its parent's. Raises
    PeerError before it changes anything."""
    check_locks(locks)
    totals.backlog.check_room(len(locks), sum(lock.bundle.cost for lock in locks))
    for lock in locks:
        record = totals.add_lock((lock.epoch, lock.number), lock.bundle, [], root_ordered=lock.root_ordered)
        if record is not None and lock.active:
            totals.locks.activate(record, 0)
            record.told[parent] = 0
    totals.published.tell_overtaken(totals.submissions.note_ordered(last))
    totals.resubmit()
    totals.progress()
