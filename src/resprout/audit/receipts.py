"""Receipts are true.

- A receipt belongs to a publication that was made before it.
- `accepted`, `safe`, `delivered` come in this order; steps may be left out or repeated, not taken back.
- `delivered` is not before the delivery at any correct subscriber where the publication is due (see `audit.loss`) and
  still due at the receipt. A subscriber that was frozen at any time in between is not counted.
- What was refused is refused for good: neither a delivery nor a receipt comes after it.
- The last one is told. It is due in a run that came to rest with all links whole and no node frozen, for a publication
  that was accepted and neither failed nor was refused, if the client that made it is correct: `safe` in any case, and
  `delivered` if every subscriber where it was ever due is correct, wants it still, and has it, and each durable
  subscription that asks for it has a consumer, and somebody has acknowledged it there. Of receipts that the run does
  not promise none is due.

Each publication is looked at by itself: nothing is said about the order of receipts of different ones.
"""

from collections.abc import Iterator, Mapping, Sequence

from resprout.audit.durable import DurableRecord
from resprout.audit.history import History
from resprout.audit.records import MessageId, PublicationRecord, identity_of, seconds
from resprout.audit.subscriptions import NEVER
from resprout.audit.verdict import Anomaly
from resprout.trace.schema import Row, TraceError

_STEPS = {"accepted": 0, "safe": 1, "delivered": 2}


def check_receipts(history: History, durables: Sequence[DurableRecord] = ()) -> Iterator[Anomaly]:
    reached: dict[MessageId, str] = {}
    for number, row in history.receipts:
        id = (row.publisher or "", row.incarnation or 0, row.stream or "", row.seq or 0)
        receipt = row.receipt or ""
        if receipt != "failed" and receipt not in _STEPS:
            raise TraceError(f"row {number}: unknown receipt {receipt!r}")
        published = history.number_of.get(id, -1)
        p = history.publications[published] if published >= 0 else None
        if p is None or p.row > number:
            yield _wrong(history, id, row, "which it had not published")
        elif history.refused.get(id, number) < number:
            yield _wrong(history, id, row, "after it was refused for good")
        elif receipt != "failed":
            before = reached.get(id)
            if before is not None and _STEPS[receipt] < _STEPS[before]:
                yield _wrong(history, id, row, f"after {before!r}")
            else:
                reached[id] = receipt
                if receipt == "delivered" and before != "delivered":
                    yield from _too_early(history, p, number, row)
    yield from _delivered_though_refused(history)
    if history.is_whole:
        yield from _never_told(history, durables, reached)


def _never_told(
    history: History, durables: Sequence[DurableRecord], reached: Mapping[MessageId, str]
) -> Iterator[Anomaly]:
    given = history.promise.receipts
    failed = {identity_of(number, row) for number, row in history.receipts if row.receipt == "failed"}
    for id, receipt in reached.items():
        p = history.publications[history.number_of[id]]
        if receipt == "delivered" or id in failed or id in history.refused or not history.lives[p.life].correct:
            continue
        lives = [(history.lives[number], until) for number, until in history.due[p.number]]
        name = history.name(p.number)
        everywhere = all(life.correct and until == NEVER and life.has(p.number) for life, until in lives)
        everywhere = everywhere and not any(each.may_hold(p) for each in durables)
        if "delivered" in given and everywhere:
            text = f"{id[0]} was never told that {name} is delivered, though all {len(lives)} that are owed it have it"
        elif "safe" in given and receipt == "accepted":
            text = f"{id[0]} was never told that {name} is safe"
        else:
            continue
        yield Anomaly("receipt", p.time_us, id[0], (name,), text)


def _too_early(history: History, p: PublicationRecord, number: int, row: Row) -> Iterator[Anomaly]:
    for life_number, until in history.due[p.number]:
        life = history.lives[life_number]
        if until < number or not life.correct or p.number in life.early or life.frozen_between(p.row, number):
            continue
        d = life.first.get(p.number)
        if d is None or d.row > number:
            name = history.name(p.number)
            fact = "never delivered it" if d is None else f"delivered it only at {seconds(d.time_us)}"
            text = (
                f"{row.publisher} was told at {seconds(row.time_us)} that {name} is delivered, but {life.name} {fact}"
            )
            yield Anomaly("receipt", row.time_us, life.node, (name,), text)


def _delivered_though_refused(history: History) -> Iterator[Anomaly]:
    if not history.refused:
        return
    for life in history.lives:
        for d in life.deliveries:
            if d.id in history.refused:
                name = history.naming.message(d.id)
                text = f"{life.name} delivered {name} at {d.position}, though {d.id[0]} was told that it never will be"
                yield Anomaly("receipt", d.time_us, life.node, (name,), text)


def _wrong(history: History, id: MessageId, row: Row, why: str) -> Anomaly:
    name = history.naming.message(id)
    text = f"{row.node} was given the receipt {row.receipt!r} for {name} at {seconds(row.time_us)}, {why}"
    return Anomaly("receipt", row.time_us, row.node, (name,), text)
