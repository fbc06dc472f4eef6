"""Verdicts on many runs, for people and for programs. Both forms are stable."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from resprout.audit.verdict import CLEAN, SHOWN_PER_RULE, UNFINISHED, VIOLATED, Anomaly, Verdict, as_dict, lines
from resprout.pipeline.places import RunPlace


def lines_of_many(places: Sequence[RunPlace], verdicts: Sequence[Verdict]) -> Iterator[str]:
    """One line per run, then the anomalies of each, then what it comes to."""
    judged = list(zip(places, verdicts, strict=True))
    for place, verdict in judged:
        yield f"{place.name}: {lines(verdict)[-1]}"
    violated = [(place, verdict) for place, verdict in judged if verdict.violated]
    for place, verdict in violated:
        yield f"{place.name}:"
        yield from _anomalies(verdict)
    unfinished = sum(verdict.status == UNFINISHED for verdict in verdicts)
    deliveries = sum(verdict.counts["deliveries"] for verdict in verdicts)
    clean = f"{len(judged)} runs, {deliveries} deliveries"
    rest = f"; {unfinished} did not come to rest" if unfinished else ""
    yield f"{clean}: VIOLATED in {len(violated)} of them{rest}" if violated else f"{clean}: no violation{rest}"


def worst_status(verdicts: Iterable[Verdict]) -> str:
    """VIOLATED if one is, else UNFINISHED if one is, else CLEAN."""
    found = {verdict.status for verdict in verdicts}
    return next((status for status in (VIOLATED, UNFINISHED) if status in found), CLEAN)


def _anomalies(verdict: Verdict) -> Iterator[str]:
    by_rule: dict[str, list[Anomaly]] = {}
    for anomaly in verdict.anomalies:
        by_rule.setdefault(anomaly.rule, []).append(anomaly)
    for rule, found in by_rule.items():
        for anomaly in found[:SHOWN_PER_RULE]:
            yield f"    {rule}: {anomaly.explanation}"
        if (more := verdict.check(rule).anomalies - min(len(found), SHOWN_PER_RULE)) > 0:
            yield f"    {rule}: ... and {more} more"


def many_as_dict(places: Sequence[RunPlace], verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """JSON-able; each run as a single one, after its name."""
    return {
        "verdict": worst_status(verdicts),
        "runs": [
            {"experiment": place.experiment, "run": place.run, "digest": place.info.digest, **as_dict(verdict)}
            for place, verdict in zip(places, verdicts, strict=True)
        ],
    }
