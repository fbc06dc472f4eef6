"""A portion of a run's subscribers, judged with what the others are known to have been given.

A run of usual size is one shard. Of a large one each shard is given the same `Context` and `Hints` and the deliveries
of its own subscribers; `conclude` puts together what they found.
"""

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from resprout.audit import logs as audited_logs
from resprout.audit.durable import NO_DURABLES, unjudged_note
from resprout.audit.mqtt import MQTT_RULES, NO_MQTT
from resprout.audit.timing import NO_TIMES, TIMING_RULES
from resprout.audit.values import NO_VALUES, VALUE_RULES
from resprout.audit.verdict import MET_TIME_LIMIT, RULES
from resprout.core.guarantee import Guarantee
from resprout.pipeline.judging.bank import AppliedRows, Replicas
from resprout.pipeline.judging.bank_together import Accounts, Testimony, judge_bank
from resprout.pipeline.judging.causal import Hints, Sweeps
from resprout.pipeline.judging.columns import Array
from resprout.pipeline.judging.context import Context, Detected
from resprout.pipeline.judging.deliveries import Checks, Deliveries, Subscriber
from resprout.pipeline.judging.logs import LogOrders, PlacedTotals
from resprout.pipeline.judging.totals import Places, SeenTotals, TotalOrderArrays
from resprout.trace import kinds
from resprout.values.rows import RETAIN_KEY


class ShardFindings(msgspec.Struct):
    broken: set[str]
    deliveries: int
    owed: int
    came: int
    told: int
    strongest: int
    seen: SeenTotals
    is_hindered: Array
    testimony: Testimony | None


def judge_shard(
    context: Context,
    hints: Hints,
    deliveries: Deliveries,
    applied: AppliedRows,
    lives: Iterable[int],
    bank_initial: int,
) -> ShardFindings:
    """`deliveries`: by life. `lives`: those of the shard with subscriptions; others are known by what they did."""
    checks = Checks(context, _owed(context, hints), hints.claim)
    replicas = (
        Replicas(context, applied, Accounts(context.operations, context.publications), bank_initial)
        if hints.applied
        else None
    )
    checks.note("receipt", context.receipts.delivers_refused(deliveries.number))
    checks.note("invented", deliveries.has_invented)
    bounds = {life: (begin, end) for life, begin, end in deliveries.bounds()}
    sweeps = Sweeps(context, hints, checks, deliveries)
    for life in sorted({*bounds, *lives, *(replicas.lives() if replicas else ())}):
        s = Subscriber(context.publications, life, deliveries, *bounds[life]) if life in bounds else None
        if s is not None:
            checks.look(s)
        due, until = checks.look_for_missing(life, s)
        if replicas is not None:
            replicas.look(life, s, due, until)
        if s is not None:
            sweeps.add(s)
    sweeps.finish()
    checks.note("tseq", checks.sightings.places_fall)
    return ShardFindings(
        broken=checks.broken,
        deliveries=len(deliveries.row),
        owed=checks.owed_count,
        came=checks.came_count,
        told=checks.told_count,
        strongest=checks.strongest,
        seen=checks.sightings.seen(),
        is_hindered=checks.is_hindered,
        testimony=replicas.testimony() if replicas is not None else None,
    )


def conclude(context: Context, hints: Hints, findings: Sequence[ShardFindings], bank_initial: int) -> Detected:
    found = Detected(broken=set().union(*(f.broken for f in findings)), promise=context.promise)
    places, seen = Places(context.publications), SeenTotals.joined([f.seen for f in findings])
    order = TotalOrderArrays(places, seen, hints.claim)
    facts = {
        "identity": context.breaks_identity,
        "bank_applied": hints.has_unfounded,
        "receipt": context.receipts.is_broken or _never_told(context, findings),
        "total": order.is_broken,
        "durable": context.durables.is_broken or context.durables.misses(_owed(context, hints)),
        "tseq": hints.breaks_places,
        "barrier": order.breaks_barrier(),
    }
    found.broken |= {rule for rule, is_broken in facts.items() if is_broken}
    if context.logs.count:
        found.broken |= context.logs.broken(_owed(context, hints), _log_orders(context, hints, places, seen, order))
    if context.logs.unjudged:
        found.notes["log_complete"] = audited_logs.unjudged_note(context.logs.unjudged, context.logs.count)
    if order.unjudged:
        found.notes["barrier"] = f"{order.unjudged} of {order.keys} keys not judged: their totals contradict each other"
    if context.durables.unjudged:
        found.notes["durable"] = unjudged_note(context.durables.unjudged, context.durables.count)
    found.skipped |= _nothing_to_judge(context, max(f.strongest for f in findings), order, hints)
    testimonies = [f.testimony for f in findings if f.testimony is not None]
    if testimonies:
        found.broken |= judge_bank(context, testimonies, hints.claim, bank_initial, found)
    else:
        found.skipped |= dict.fromkeys((r for r in RULES if r.startswith("bank_")), "the trace holds no bank")
    deliveries, owed = sum(f.deliveries for f in findings), sum(f.owed for f in findings)
    came, told = sum(f.came for f in findings), sum(f.told for f in findings)
    found.counts = context.counts(deliveries, owed, came, told, hints.applied)
    return found


def _log_orders(context: Context, hints: Hints, places: Places, seen: SeenTotals, order: TotalOrderArrays) -> LogOrders:
    assert hints.links is not None, "they are gathered where there are logs"
    publications = context.publications
    placed = PlacedTotals(
        places.start, places.pair, places.is_total, seen.before, seen.after, hints.claim[places.number]
    )
    return LogOrders(publications, hints.links, hints.claim, placed if order.is_proven else None)


def _owed(context: Context, hints: Hints) -> Array:
    return context.receipts.owed(
        hints.heard_by_correct, context.lives.correct, context.durables.may_block | context.logs.may_hold
    )


def _never_told(context: Context, findings: Sequence[ShardFindings]) -> bool:
    """Whether a last receipt is missing that was due; see `audit.loss`."""
    is_hindered = np.logical_or.reduce(
        [context.durables.may_hold, context.logs.may_hold, *[f.is_hindered for f in findings]]
    )
    return context.is_whole and context.receipts.misses_last(
        is_hindered, context.lives.correct, context.promise.receipts
    )


def _nothing_to_judge(context: Context, strongest: int, order: TotalOrderArrays, hints: Hints) -> dict[str, str]:
    """By rule, why it is not judged, or holds only because nothing could break it."""
    reasons = {}
    if context.ended == kinds.TIMEOUT:
        reasons["lost"] = reasons["lost_told"] = MET_TIME_LIMIT
    elif not context.is_quiescent:
        reason = "the trace has no quiescent row, so deliveries may be missing from its end"
        reasons["lost"] = reasons["lost_told"] = reason
    elif context.promise.is_probable:
        reasons["lost_told"] = "the run promises probability: what is missing counts for the reliability"
    if strongest < Guarantee.FIFO:
        reasons["fifo"] = "no ordered publication was delivered"
    if strongest < Guarantee.CAUSAL:
        reasons["causal"] = "no causal or total publication was delivered"
    if not order.any_seen:
        reasons["total"] = "no total was delivered"
    if not order.any_key_seen:
        reasons["barrier"] = "no total that names a key was delivered"
    if not hints.claims_any:
        reasons["tseq"] = "the run claims no order of totals"
    if not context.durables.count:
        reasons["durable"] = NO_DURABLES
    if not context.logs.count:
        reasons |= dict.fromkeys(audited_logs.LOG_RULES, audited_logs.NO_LOGS)
    elif not context.logs.reads:
        reasons["log_read"] = audited_logs.NO_READS
    reasons |= dict.fromkeys(TIMING_RULES, NO_TIMES)
    reasons |= dict.fromkeys(MQTT_RULES, NO_MQTT)
    retains = RETAIN_KEY in context.words.keys.texts
    reasons |= dict.fromkeys(VALUE_RULES, "Spark does not judge last values" if retains else NO_VALUES)
    if not context.receipts.count and not context.receipts.refused_count:
        reasons["receipt"] = "no client got a receipt"
    return reasons
