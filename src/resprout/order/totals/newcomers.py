"""How a newcomer becomes part of the rounds of closing that are under way.

It has published nothing yet. Where a total is active at its parent it is active at the newcomer from its first moment,
so nothing will be published there before the delivery: the newcomer's side is closed, at 0, without a word. All other
totals the newcomer activates and closes like anybody else.
"""

from collections.abc import Iterable, Sequence

from resprout.core.message_fields import Mark
from resprout.order.totals.messages import KnownLock, check_locks
from resprout.order.totals.totals import Totals


def newcomer_locks(totals: Totals) -> tuple[KnownLock, ...]:
    """At the parent: what a Welcome carries, besides `Handover.last`. In the same step as `joined`."""
    return tuple(KnownLock(*record.place, record.bundle, active=record.active) for record in totals.locks.in_line())


def joined(totals: Totals, name: str) -> None:
    """At the parent, when `seat.neighbours` has the newcomer."""
    for record in totals.locks.undelivered.values():
        if record.active:
            record.heard[name] = 0


def accept_welcome(totals: Totals, locks: Sequence[KnownLock], last: Iterable[Mark], parent: str) -> None:
    """At the newcomer, when `position` has the parent and the clock and the watermarks are its parent's. Raises
    PeerError before it changes anything."""
    check_locks(locks)
    totals.backlog.check_room(len(locks), sum(lock.bundle.cost for lock in locks))
    for lock in locks:
        record = totals.add_lock((lock.epoch, lock.number), lock.bundle, [])
        if record is not None and lock.active:
            totals.locks.activate(record, 0)
            record.told[parent] = 0
    totals.submissions.note_ordered(last)
    totals.resubmit()
    totals.progress()
