"""The verdict of a judge: as data, as lines for people, and as JSON for programs. Both printed forms are stable.

`Witness` is the view of a run that checks explain anomalies from, whether the run is over or goes on.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Protocol

import msgspec

from resprout.audit.interest import TraceInterest
from resprout.audit.records import MessageId, Naming
from resprout.core.guarantee import Promises

RULES: Final[dict[str, str]] = {
    "identity": "publications are numbered in the order they were made",
    "invented": "every delivered message was published before",
    "unasked": "every delivered message matches a subscription",
    "twice": "no message is delivered twice",
    "position": "positions count from 0 without gaps",
    "lost": "a confirmed subscription misses no owed message without notice",
    "lost_told": "a client misses no owed message, even where it was told that some may be missing",
    "early": "no delayed message is delivered before its time",
    "expired": "no message is delivered after it expired",
    "fifo": "publications of one client keep their order",
    "causal": "no message is delivered before one that it depends on",
    "barrier": "every total divides the messages on its keys alike for all subscribers",
    "total": "totals with common keys, or with none, have one order",
    "tseq": "every total has a place of its own, and bound ones come in the order of their places",
    "receipt": "receipts are true, and the last one is sent",
    "durable": "a durable subscription hands out every owed message, in order, and marks repeats",
    "mqtt_twice": "an MQTT session is handed a message with QoS 2 once",
    "mqtt_session": "an MQTT session is there when its client comes back",
    "log_kept": "a replica of a log stores published messages that match, each once, at consecutive offsets",
    "log_complete": "a log has every message that it is owed, at every replica that runs at the end",
    "log_same": "an offset of a log has one message, for all replicas and readers",
    "log_order": "a log agrees with the order that subscribers saw",
    "log_gap": "a log has a gap only where something failed before",
    "log_read": "a page of a log has every message that was asked for, in order",
    "kv_writes": "writes to keys are linearizable in the order of their revisions",
    "kv_reads": "reads have the values of one place, no older than what the reader had seen",
    "retained": "a subscription begins with the last values of one place, and misses none behind it",
    "bank_applied": "replicas execute the operations that they receive, once and in order",
    "bank_conserved": "money is neither made nor lost",
    "bank_negative": "no balance falls below zero",
    "bank_balance": "replicas hold equal balances at every total",
    "bank_outcome": "a total ends alike at every replica",
    "bank_replay": "executing the totals one by one in their order gives the same outcomes",
    "bank_realtime": "a total published after another was delivered everywhere is ordered after it",
}
"""Every rule and its promise in words, in the order of reports."""

APART: Final = ("bank_", "log_", "durable", "mqtt_", "kv_", "retained", "early", "expired")
"""How rules begin about what most traces do not have. That they were not judged there is not worth a word."""

CLEAN: Final = "clean"
VIOLATED: Final = "violated"
NOT_JUDGED: Final = "not judged"
UNFINISHED: Final = "unfinished"
"""Of a whole run: it met its time limit before it came to rest. What is missing was not judged, so it is not clean."""
MEASURED: Final = "measured"
"""Of a promise of probability: neither kept nor broken, but with a share."""

MET_TIME_LIMIT: Final = "the run met its time limit before it came to rest"
"""Why nothing that is missing can be judged in a run that is unfinished."""
EXPLAINED_MAX: Final = 1_000
"""Anomalies of one rule that a verdict holds, the earliest ones; all are counted."""

SHOWN_PER_RULE: Final = 10
"""Anomalies of one rule that are written out for people; the rest are counted. Programs get those of the verdict."""


def missed(skipped: Collection[str]) -> list[str]:
    """Of the rules that were not judged, those for which it matters."""
    absent = [start for start in APART if all(rule in skipped for rule in RULES if rule.startswith(start))]
    return [rule for rule in skipped if not rule.startswith(tuple(absent))]


class Anomaly(msgspec.Struct, frozen=True):
    """One violation: which rule, who saw it, which publications, and why in one line that a person can follow."""

    rule: str
    time_us: int
    """When it showed: the time of the delivery, receipt or publication that cannot be right."""
    subscriber: str
    """The client that saw it; the publisher, for receipts and numbers."""
    messages: tuple[str, ...]
    """The publications concerned, the offending one first, as `audit.records` writes them."""
    explanation: str


class Check(msgspec.Struct, frozen=True):
    """How one rule came out."""

    rule: str
    status: str
    """CLEAN, VIOLATED, NOT_JUDGED or MEASURED."""
    anomalies: int = 0
    reason: str = ""
    """Why it was not judged, or what part of it was not; what was measured."""
    share: float | None = None
    """Of what was measured: the reliability."""


class Verdict(msgspec.Struct, frozen=True):
    anomalies: list[Anomaly]
    """By rule as in `RULES`, then by time, subscriber and messages; of each rule the first `EXPLAINED_MAX`, or fewer
    where it would take too long to say why. `checks` count all."""
    checks: list[Check]
    """One for each rule."""
    counts: dict[str, int]
    """What was judged: publications, deliveries, subscribers, owed deliveries, and more."""

    @property
    def violated(self) -> bool:
        return self.found > 0

    @property
    def unfinished(self) -> bool:
        """The run met its time limit: it is stuck, or was given too little time."""
        return self.check("lost").reason == MET_TIME_LIMIT

    @property
    def status(self) -> str:
        """VIOLATED, UNFINISHED or CLEAN, the worst that holds."""
        return VIOLATED if self.violated else UNFINISHED if self.unfinished else CLEAN

    @property
    def found(self) -> int:
        """How many anomalies there are."""
        return sum(check.anomalies for check in self.checks)

    @property
    def reliability(self) -> float | None:
        """The share of owed deliveries that came, of a run that promises probability."""
        return self.check("lost").share

    def check(self, rule: str) -> Check:
        return next(check for check in self.checks if check.rule == rule)


def verdict_of(
    anomalies: Iterable[Anomaly],
    notes: dict[str, str],
    skipped: dict[str, str],
    counts: dict[str, int],
    more: Mapping[str, int] = {},
    promise: Promises = Promises(),  # noqa: B008 (it is frozen)
) -> Verdict:
    """`notes`: by rule, what part was left out. `skipped`: by rule, why it was not judged at all. `more`: by rule, how
    many anomalies there are beside those given, later than these. `promise`: where it is of probability, what is lost
    is measured by the counts `owed`, `came` and `told`."""
    by_rule: dict[str, list[Anomaly]] = {rule: [] for rule in RULES}
    for anomaly in anomalies:
        by_rule[anomaly.rule].append(anomaly)
    found = {rule: len(given) + more.get(rule, 0) for rule, given in by_rule.items()}
    ordered = [
        anomaly
        for given in by_rule.values()
        for anomaly in sorted(given, key=lambda a: (a.time_us, a.subscriber, a.messages, a.explanation))[:EXPLAINED_MAX]
    ]
    checks = [
        Check(rule, VIOLATED, found[rule], notes.get(rule, ""))
        if found[rule]
        else Check(rule, NOT_JUDGED, 0, skipped[rule])
        if rule in skipped
        else Check(rule, CLEAN, 0, notes.get(rule, ""))
        for rule in RULES
    ]
    if promise.is_probable and "lost" not in skipped:
        checks = [_measured(counts) if check.rule == "lost" else check for check in checks]
    return Verdict(ordered, checks, counts)


def _measured(counts: Mapping[str, int]) -> Check:
    owed, came, told = counts["owed"], counts["came"], counts["told"]
    share = came / owed if owed else 1.0
    words = f"reliability {share:.6f}: {came} of {owed} owed deliveries came"
    return Check("lost", MEASURED, 0, f"{words}; of {told} the client was told" if told else words, share)


def lines(verdict: Verdict, shown_per_rule: int = SHOWN_PER_RULE) -> list[str]:
    """Plain text, one line per rule and per anomaly."""
    c = verdict.counts
    judged = (
        f"{c['publications']} publications, {c['deliveries']} deliveries to {c['subscribers']} subscribers, "
        f"{c['owed']} owed to {c['correct_subscribers']} correct ones"
    )
    text = [judged]
    width = max(map(len, RULES))
    by_rule: dict[str, list[Anomaly]] = {}
    for anomaly in verdict.anomalies:
        by_rule.setdefault(anomaly.rule, []).append(anomaly)
    for check in verdict.checks:
        status = f"{check.status} ({check.anomalies})" if check.anomalies else check.status
        is_reason_all = check.status in (NOT_JUDGED, MEASURED)
        about = check.reason if is_reason_all else RULES[check.rule]
        extra = f"; {check.reason}" if check.reason and not is_reason_all else ""
        text.append(f"{check.rule:<{width}}  {status:<14}  {about}{extra}".rstrip())
        shown = by_rule.get(check.rule, [])
        text += [f"    {anomaly.explanation}" for anomaly in shown[:shown_per_rule]]
        if (more := check.anomalies - min(len(shown), shown_per_rule)) > 0:
            text.append(f"    ... and {more} more")
    text.append(_conclusion(verdict))
    return text


def as_dict(verdict: Verdict) -> dict[str, Any]:
    """JSON-able, every anomaly of the verdict included; `checks` count those beyond."""
    return {
        "verdict": verdict.status,
        "counts": dict(verdict.counts),
        "checks": [
            {"rule": c.rule, "status": c.status, "anomalies": c.anomalies, "reason": c.reason}
            | ({} if c.share is None else {"share": c.share})
            for c in verdict.checks
        ],
        "anomalies": [
            {
                "rule": a.rule,
                "time_us": a.time_us,
                "subscriber": a.subscriber,
                "messages": list(a.messages),
                "explanation": a.explanation,
            }
            for a in verdict.anomalies
        ],
    }


def _conclusion(verdict: Verdict) -> str:
    if verdict.violated:
        broken = [check.rule for check in verdict.checks if check.anomalies]
        return f"VIOLATED: {verdict.found} anomalies ({', '.join(broken)})"
    unjudged = [c.rule for c in verdict.checks if c.status == NOT_JUDGED]
    if verdict.reliability is not None:
        unjudged.remove("lost_told")  # it is in the figure
    left_out = missed(unjudged)
    if verdict.unfinished:
        return f"UNFINISHED: {MET_TIME_LIMIT}; no violation, as far as it was judged (not: {', '.join(left_out)})"
    clean = f"clean, as far as it was judged (not: {', '.join(left_out)})" if left_out else "clean"
    return clean if verdict.reliability is None else f"{clean}; reliability {verdict.reliability:.6f}"


class NamedLife(Protocol):
    """A subscriber as verdicts name it: `node` is the client, `name` tells its lives apart."""

    @property
    def number(self) -> int: ...
    @property
    def node(self) -> str: ...
    @property
    def name(self) -> str: ...


class Witness(Protocol):
    """Knows publications and lives by their numbers, as far as they are remembered."""

    @property
    def naming(self) -> Naming: ...
    @property
    def interest(self) -> TraceInterest: ...
    def id_of(self, number: int) -> MessageId: ...
    def life_of(self, number: int) -> NamedLife: ...
    def place(self, life: int, number: int) -> tuple[int, int]:
        """Where and when the life delivered the publication: position, and time in microseconds."""

    def tell(self, anomaly: Anomaly) -> None: ...
