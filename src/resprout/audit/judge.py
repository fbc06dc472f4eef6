"""The judge: all checks on one trace.

It looks only at what clients asked and got, never inside a protocol, and knows nothing of the stack that made the
trace. Every check is near-linear in the rows; causal order takes one pass over the publications per subscriber.
"""

from collections.abc import Sequence
from typing import Final

from resprout.audit import bank, bank_replay
from resprout.audit.bank_operations import operation_of, read_applied
from resprout.audit.bank_replicas import Circles, complete_replicas, loose_circles
from resprout.audit.barrier import check_barrier, unjudged_pairs
from resprout.audit.causal import check_causal
from resprout.audit.fifo import check_fifo
from resprout.audit.groups import by_pair
from resprout.audit.history import History
from resprout.audit.loss import check_loss, not_judged
from resprout.audit.owed import Due, dues, owed
from resprout.audit.presence import check_identity, check_positions, check_presence
from resprout.audit.receipts import check_receipts
from resprout.audit.records import NEVER
from resprout.audit.totals import TotalOrder, check_totals
from resprout.audit.verdict import RULES, Anomaly, Verdict, verdict_of
from resprout.core.guarantee import Guarantee
from resprout.trace.schema import Row
from resprout.trace.store import Trace

BANK_INITIAL: Final = 10_000
"""Cents in every account before anything happens, unless the run says `bank_initial`."""


def judge(trace: Trace | Sequence[Row], bank_initial: int | None = None) -> Verdict:
    """Every violation in a trace, explained. Raises TraceError for rows that do not make sense at all."""
    if isinstance(trace, Trace):
        rows: Sequence[Row] = trace.rows
        known = trace.info.scenario.get("bank_initial", trace.info.options.get("bank_initial"))
        bank_initial = known if bank_initial is None and isinstance(known, int) else bank_initial
    else:
        rows = trace
    history = History(rows)
    notes: dict[str, str] = {}
    skipped: dict[str, str] = {}
    due, is_owed = dues(history), owed(history)
    found = [*check_identity(history), *check_presence(history), *check_positions(history)]
    if (reason := not_judged(history)) is None:
        found += check_loss(history, due, is_owed)
    else:
        skipped["lost"] = reason
    found += check_fifo(history)
    found += check_causal(history, due, is_owed)
    groups = by_pair(history)
    order = TotalOrder(history, groups)
    found += check_totals(history, order)
    found += check_barrier(history, groups, order)
    if unjudged := unjudged_pairs(groups, order):
        notes["barrier"] = f"{unjudged} of {len(groups)} keys not judged: their totals contradict each other"
    found += check_receipts(history, due)
    skipped |= _nothing_to_judge(history, order)
    found += _check_bank(history, due, BANK_INITIAL if bank_initial is None else bank_initial, notes, skipped)
    return verdict_of(found, notes, skipped, _counts(history, len(rows), due, is_owed))


def _nothing_to_judge(history: History, order: TotalOrder) -> dict[str, str]:
    """By rule, why it holds only because nothing in the trace could break it: that is not worth the word clean."""
    delivered = {history.publications[number].guarantee for life in history.lives for number in life.heard}
    reasons = {}
    if max(delivered, default=Guarantee.EVENTUAL) < Guarantee.FIFO:
        reasons["fifo"] = "no ordered publication was delivered"
    if max(delivered, default=Guarantee.EVENTUAL) < Guarantee.CAUSAL:
        reasons["causal"] = "no causal or total publication was delivered"
    if not any(chain for chains in order.chains.values() for chain in chains.values()):
        reasons |= dict.fromkeys(("barrier", "total"), "no total that names a key was delivered")
    if not history.receipts and not history.refused:
        reasons["receipt"] = "nobody was given a receipt"
    return reasons


def _check_bank(
    history: History, due: Sequence[tuple[Due, ...]], initial: int, notes: dict[str, str], skipped: dict[str, str]
) -> list[Anomaly]:
    operations = {p.number: o for p in history.publications if (o := operation_of(p)) is not None}
    applied = read_applied(history, operations)
    if not history.applied:
        skipped |= dict.fromkeys((r for r in RULES if r.startswith("bank_")), "the trace holds no bank")
        return []
    if not any(history.tseq.get(number) is not None for number in operations):
        skipped["bank_realtime"] = "the run claims no order of totals"
    circles = Circles(operations.values())
    complete = complete_replicas(history, operations, circles, due)
    if loose := len(loose_circles(history, operations, circles)):
        notes |= dict.fromkeys(bank.TOGETHER, bank.loose_note(loose))
    if not any(bank.is_compared(history, a, circles, complete) for a in applied):
        reason = "no total was executed by a replica that knew all it needed"
        skipped |= dict.fromkeys(bank.TOGETHER, reason)
    return [
        *bank.check_founded(history, operations),
        *bank.check_alone(history, applied, initial),
        *bank.check_together(history, applied, circles, complete),
        *bank_replay.check_replay(history, applied, circles, complete, initial),
        *bank_replay.check_realtime(history, operations),
    ]


def _counts(history: History, rows: int, due: Sequence[tuple[Due, ...]], is_owed: bytearray) -> dict[str, int]:
    lives = history.lives
    expected = sum(
        until == NEVER and lives[life].correct
        for p in history.publications
        if is_owed[p.number]
        for life, until in due[p.number]
    )
    return {
        "rows": rows,
        "publications": len(history.publications),
        "deliveries": sum(len(life.deliveries) for life in lives),
        "owed": expected,
        "subscribers": sum(bool(life.subscriptions) for life in lives),
        "correct_subscribers": sum(life.correct and bool(life.subscriptions) for life in lives),
        "subscriptions": sum(len(life.subscriptions) for life in lives),
        "receipts": len(history.receipts),
        "refused": len(history.refused),
        "applied": len(history.applied),
    }
