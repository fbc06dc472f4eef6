"""A verdict as rows of the result tables."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from resprout.audit.verdict import MEASURED, NOT_JUDGED, VIOLATED, Anomaly, Verdict
from resprout.pipeline.places import RunPlace
from resprout.pipeline.tables import ANOMALIES_MAX, AnomalyRow, VerdictRow

FIRST_OF_A_RULE: Final = 5


def verdict_row(place: RunPlace, verdict: Verdict) -> VerdictRow:
    judged = [check for check in verdict.checks if check.status not in (NOT_JUDGED, MEASURED)]
    return VerdictRow(
        experiment=place.experiment,
        run=place.run,
        digest=place.info.digest,
        status=verdict.status if judged else NOT_JUDGED,
        rules_violated=tuple(check.rule for check in judged if check.status == VIOLATED),
        anomalies=verdict.found,
        **_deliveries(verdict),
        notes={check.rule: check.reason for check in judged if check.reason},
        skipped={check.rule: check.reason for check in verdict.checks if check not in judged},
    )


def _deliveries(verdict: Verdict) -> dict[str, int | None]:
    """What is missing in a run that did not come to rest may still be under way."""
    is_over = verdict.check("lost").status != NOT_JUDGED
    return {name: verdict.counts.get(name) if is_over else None for name in ("owed", "came", "told")}


def anomaly_rows(place: RunPlace, verdict: Verdict) -> list[AnomalyRow]:
    """As many as are kept of a run: the first of every rule, so that none crowds out the others, then more of them."""
    return [
        AnomalyRow(
            experiment=place.experiment,
            run=place.run,
            digest=place.info.digest,
            rule=anomaly.rule,
            time_us=anomaly.time_us,
            node=anomaly.subscriber,
            messages=anomaly.messages,
            text=anomaly.explanation,
        )
        for anomaly in _kept(verdict.anomalies)
    ]


def _kept(anomalies: Sequence[Anomaly]) -> list[Anomaly]:
    seen: Counter[str] = Counter()
    ranks = []
    for number, anomaly in enumerate(anomalies):
        seen[anomaly.rule] += 1
        ranks.append((seen[anomaly.rule] > FIRST_OF_A_RULE, number))
    return [anomalies[number] for number in sorted(number for _, number in sorted(ranks)[:ANOMALIES_MAX])]
