"""A verdict for people and for programs. Both forms are stable."""

from typing import Any, Final

from resprout.audit.verdict import MEASURED, MET_TIME_LIMIT, NOT_JUDGED, RULES, Anomaly, Verdict, missed

SHOWN_PER_RULE: Final = 10
"""Anomalies of one rule that are written out for people; the rest are counted. Programs get those of the verdict."""


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
