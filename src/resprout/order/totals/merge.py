"""What the coordinator of a repair and its members know together about locks: arithmetic, no machine."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from resprout.core.bundle import Bundle
from resprout.core.marks import Marks
from resprout.order.totals.last import LastPlaces
from resprout.order.totals.locks import LockRecord
from resprout.order.totals.messages import GrantedLock, LockReport, Place, TotalId, id_of


class Piece(NamedTuple):
    """Dead brokers that hung together, and the members of the repair that were next to one of them."""

    dead: Collection[str]
    members: Collection[str]


class MemberLocks(NamedTuple):
    """What one member has reported."""

    locks: Sequence[LockReport]
    last: Marks


class Said(NamedTuple):
    """What the dead had said about one total before they died."""

    highest: int
    """The highest stamp that they closed with; -1 when they said nothing."""
    is_unclosed: bool
    """Some piece of them had told nobody alive that it is closed."""


class MergedLocks(NamedTuple):
    """All that is known about locks. `locks` and `last` go into the Grant, the rest is for the coordinator."""

    locks: tuple[GrantedLock, ...]
    """In the order of their places."""
    last: Marks
    said: dict[TotalId, Said]
    told: dict[TotalId, dict[str, int]]
    """What each member had told the dead."""

    def delivered(self) -> list[Bundle]:
        """The totals that belong into the pool, with the final stamps by which they find their places there."""
        return [lock.bundle for lock in self.locks if lock.stamp >= 0]


def merge(
    own: Mapping[TotalId, LockRecord], own_last: Marks, reports: Mapping[str, MemberLocks], pieces: Sequence[Piece]
) -> MergedLocks:
    known = {id: GrantedLock(*r.place, r.bundle, -1 if r.stamp is None else r.stamp) for id, r in own.items()}
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


def _fuller(known: GrantedLock | None, lock: LockReport) -> GrantedLock:
    if known is not None and (known.stamp >= 0 or lock.stamp < 0):
        return known
    place: Place = (lock.epoch, lock.number) if known is None else (known.epoch, known.number)
    return GrantedLock(*place, lock.bundle, lock.stamp)


def _said(heard: Mapping[str, int], pieces: Iterable[Piece]) -> Said:
    """`heard` has what the coordinator heard, under the names of the dead, and what members did, under theirs."""
    stamps = [[heard[name] for name in (*piece.dead, *piece.members) if name in heard] for piece in pieces]
    return Said(max((max(piece) for piece in stamps if piece), default=-1), not all(stamps))
