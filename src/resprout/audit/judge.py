"""The judge: all checks on one trace.

It looks only at what clients asked and got, never inside a protocol, and knows nothing of the stack that made the trace
but what the run promises (`core.guarantee`). Every check is near-linear in the rows, also of a run that breaks its
promises; causal order takes one pass over the publications per subscriber.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from resprout.audit import bank
from resprout.audit.bank import AppliedOperation, Circles, complete_replicas, loose_circles, operation_of, read_applied
from resprout.audit.causal import DirectCauses, check_causal, check_fifo, direct_causes
from resprout.audit.durable import NO_DURABLES, check_durables, handed_out, unjudged_note
from resprout.audit.durable_records import read_durables
from resprout.audit.history import History
from resprout.audit.log_order import check_order
from resprout.audit.logs import LOG_RULES, check_logs, log_notes, log_skips, read_logs
from resprout.audit.loss import PROBABLE, check_loss, check_receipts, count_deliveries, not_judged, owed
from resprout.audit.mqtt import MQTT_RULES, NO_MQTT, check_mqtt, mqtt_clients
from resprout.audit.timing import CLOCKS_US, NO_TIMES, TIMING_RULES, check_times, read_times
from resprout.audit.totals import (
    ByLife,
    TotalOrder,
    by_pair,
    check_barrier,
    check_places,
    check_totals,
    keys_of,
    unjudged_pairs,
)
from resprout.audit.values import VALUE_RULES, check_values, read_values, value_notes, value_skips
from resprout.audit.verdict import RULES, Anomaly, Verdict, verdict_of
from resprout.core.bundle import Pair
from resprout.core.guarantee import Guarantee, Promises
from resprout.trace.schema import Row
from resprout.trace.store import Trace, check_judgeable

BANK_INITIAL: Final = 10_000
"""Cents in every account before anything happens, unless the run says `bank_initial`."""


def judge(
    trace: Trace | Sequence[Row],
    bank_initial: int | None = None,
    promise: Promises | None = None,
    clocks_us: int = CLOCKS_US,
) -> Verdict:
    """Every violation in a trace, explained. Raises TraceError for rows that do not make sense at all. `promise`: what
    it is judged by, unless the trace itself says. `clocks_us`: by how much clocks may differ."""
    case = Case(trace, bank_initial, promise, clocks_us)
    found, more = case.anomalies(RULES)
    return verdict_of(found, case.notes(), case.skipped(), case.counts(), more, case.promise)


class Case:
    """One trace, arranged for the checks. Raises TraceError for rows that do not make sense at all."""

    def __init__(
        self,
        trace: Trace | Sequence[Row],
        bank_initial: int | None = None,
        promise: Promises | None = None,
        clocks_us: int = CLOCKS_US,
    ) -> None:
        if isinstance(trace, Trace):
            check_judgeable(trace.info)
            promise = trace.info.promise if promise is None else promise
            rows: Sequence[Row] = trace.rows
            known = trace.info.scenario.get("bank_initial", trace.info.options.get("bank_initial"))
            bank_initial = known if bank_initial is None and isinstance(known, int) else bank_initial
        else:
            rows = trace
        self._initial = BANK_INITIAL if bank_initial is None else bank_initial
        self._rows = len(rows)
        self.promise = Promises() if promise is None else promise
        self._history = History(rows, self.promise)
        self._durables = read_durables(self._history)
        self._logs = read_logs(self._history.logged)
        self._mqtt = mqtt_clients(self._history.rows)
        self._values = read_values(self._history.rows, self._history.is_whole)
        self._owed = owed(self._history, [*self._durables, *self._logs])
        self._times = read_times(self._history)
        self._clocks_us = clocks_us
        self._operations = {p.number: o for p in self._history.publications if (o := operation_of(p)) is not None}

    # -- what is wrong -------------------------------------------------------------------------------------------------

    def anomalies(self, rules: Collection[str]) -> tuple[list[Anomaly], dict[str, int]]:
        """Of these rules, and perhaps of others; and by rule, how many there are beyond those that are explained."""
        history = self._history
        found = list(history.found)
        more: dict[str, int] = {}
        if not {"lost", "lost_told"}.isdisjoint(rules) and not_judged(history) is None and not self.promise.is_probable:
            found += check_loss(history, self._owed)
        if "fifo" in rules:
            found += check_fifo(history)
        if "causal" in rules:
            explained, count = check_causal(history, self._owed)
            found += explained
            more["causal"] = count - len(explained)
        if "total" in rules:
            found += check_totals(history, self._order)
        if "tseq" in rules:
            found += check_places(history, self._order)
        if "barrier" in rules:
            found += check_barrier(history, self._groups, self._order)
        if "receipt" in rules:
            found += check_receipts(history, [*self._durables, *self._logs], self._mqtt)
        if "durable" in rules:
            found += check_durables(history, self._durables, self._owed_to_durables())
        if self._mqtt and not set(MQTT_RULES).isdisjoint(rules):
            found += check_mqtt(history.rows, history.naming)
        if (self._times or history.expired) and not set(TIMING_RULES).isdisjoint(rules):
            found += check_times(history, self._times, handed_out(self._durables), self._clocks_us)
        if not set(LOG_RULES).isdisjoint(rules):
            found += check_logs(history, self._logs, self._owed)
            for log in self._logs:
                found += check_order(history, log, self._causes, self._groups, self._order)
        if self._values is not None and not set(VALUE_RULES).isdisjoint(rules):
            found += check_values(self._values)
        if history.applied and any(rule.startswith("bank_") for rule in rules):
            found += self._bank_anomalies()
        return found, more

    def _owed_to_durables(self) -> bytearray:
        """What is owed, without what has expired, or is not due when the run ends."""
        left, ended_us = bytearray(self._owed), self._history.ended_us
        for number, times in self._times.items():
            if times.expires_us <= ended_us or times.due_us >= ended_us:
                left[number] = 0
        return left

    def _bank_anomalies(self) -> Iterator[Anomaly]:
        history, operations, applied = self._history, self._operations, self._applied
        yield from bank.check_founded(history, operations)
        yield from bank.check_alone(history, applied, self._initial)
        yield from bank.check_together(history, applied, self._circles, self._complete)
        yield from bank.check_replay(history, applied, self._circles, self._complete, self._initial)
        yield from bank.check_realtime(history, operations)

    # -- what else there is to say -------------------------------------------------------------------------------------

    def notes(self) -> dict[str, str]:
        """By rule, what part of it was not judged."""
        notes = {}
        if unjudged := unjudged_pairs(self._groups, self._order):
            keys = len(keys_of(self._groups))
            notes["barrier"] = f"{unjudged} of {keys} keys not judged: their totals contradict each other"
        if unjudged := sum(not each.is_judged_for_loss(self._history) for each in self._durables):
            notes["durable"] = unjudged_note(unjudged, len(self._durables))
        notes |= log_notes(self._history, self._logs)
        notes |= value_notes(self._values)
        if self._history.applied and (loose := len(loose_circles(self._history, self._operations, self._circles))):
            notes |= dict.fromkeys(bank.TOGETHER, bank.loose_note(loose, self.promise))
        return notes

    def skipped(self) -> dict[str, str]:
        """By rule, why it was not judged, or holds only because nothing in the trace could break it: that is not worth
        the word clean."""
        history = self._history
        delivered = {history.publications[number].guarantee for life in history.lives for number in life.heard}
        reasons = {}
        if (reason := not_judged(history)) is not None:
            reasons["lost"] = reasons["lost_told"] = reason
        elif self.promise.is_probable:
            reasons["lost_told"] = PROBABLE
        if max(delivered, default=Guarantee.EVENTUAL) < Guarantee.FIFO:
            reasons["fifo"] = "no ordered publication was delivered"
        if max(delivered, default=Guarantee.EVENTUAL) < Guarantee.CAUSAL:
            reasons["causal"] = "no causal or total publication was delivered"
        totals = {pair for pair, chains in self._order.chains.items() if any(chains.values())}
        if not totals:
            reasons["total"] = "no total was delivered"
        if not keys_of(totals):
            reasons["barrier"] = "no total that names a key was delivered"
        if not history.claims:
            reasons["tseq"] = "the run claims no order of totals"
        if not history.receipts and not history.refused:
            reasons["receipt"] = "no client got a receipt"
        if not self._times and not history.expired:
            reasons |= dict.fromkeys(TIMING_RULES, NO_TIMES)
        if not self._durables:
            reasons["durable"] = NO_DURABLES
        if not self._mqtt:
            reasons |= dict.fromkeys(MQTT_RULES, NO_MQTT)
        return reasons | log_skips(self._logs) | value_skips(self._values) | self._skipped_of_bank()

    def _skipped_of_bank(self) -> dict[str, str]:
        history = self._history
        if not history.applied:
            return dict.fromkeys((r for r in RULES if r.startswith("bank_")), "the trace holds no bank")
        reasons = {}
        if not any(history.tseq.get(number) is not None for number in self._operations):
            reasons["bank_realtime"] = "the run claims no order of totals"
        if not any(bank.is_compared(history, a, self._circles, self._complete) for a in self._applied):
            reason = "no total was executed by a replica that knew all it needed"
            reasons |= dict.fromkeys(bank.TOGETHER, reason)
        return reasons

    def counts(self) -> dict[str, int]:
        history, lives = self._history, self._history.lives
        deliveries = count_deliveries(history, self._owed)
        return {
            "rows": self._rows,
            "publications": len(history.publications),
            "deliveries": sum(len(life.deliveries) for life in lives),
            "owed": deliveries.owed,
            "came": deliveries.came,
            "told": deliveries.told,
            "subscribers": sum(bool(life.subscriptions) for life in lives),
            "correct_subscribers": sum(life.correct and bool(life.subscriptions) for life in lives),
            "subscriptions": sum(len(life.subscriptions) for life in lives),
            "receipts": len(history.receipts),
            "refused": len(history.refused),
            "applied": len(history.applied),
        }

    # -- what several of them need -------------------------------------------------------------------------------------

    @cached_property
    def _causes(self) -> DirectCauses:
        return direct_causes(self._history)

    @cached_property
    def _groups(self) -> Mapping[Pair, ByLife]:
        return by_pair(self._history)

    @cached_property
    def _order(self) -> TotalOrder:
        return TotalOrder(self._history, self._groups)

    @cached_property
    def _applied(self) -> list[AppliedOperation]:
        return read_applied(self._history, self._operations)

    @cached_property
    def _circles(self) -> Circles:
        return Circles(self._operations.values())

    @cached_property
    def _complete(self) -> dict[Pair, dict[int, int]]:
        return complete_replicas(self._history, self._operations, self._circles)
