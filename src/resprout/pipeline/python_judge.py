"""Runs, one after the other, each read whole and judged by the judge in Python; and verdicts as rows of the result
tables.

An error gets the name of the run, which may be one of thousands.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from resprout.audit.judge import judge
from resprout.audit.verdict import MEASURED, NOT_JUDGED, VIOLATED, Anomaly, Verdict
from resprout.pipeline.archive import verify
from resprout.pipeline.places import RunPlace
from resprout.pipeline.results import ANOMALIES_MAX, AnomalyRow, VerdictRow
from resprout.pipeline.stores import StorePath, fetch, location
from resprout.trace.schema import TraceError
from resprout.trace.store import INFO_NAME, Trace, check_judgeable, read_trace

FIRST_OF_A_RULE: Final = 5


def judge_run(place: RunPlace) -> Verdict:
    check_place(place)
    trace = trace_of(place)
    try:
        return judge(trace)
    except TraceError as error:
        raise TraceError(f"{place.folder}: {error}") from None


def trace_of(place: RunPlace, is_verified: bool = False) -> Trace:
    """All its rows; of a run in an object store, from a copy here, which is gone afterwards."""
    folder = location(place.folder)
    if not isinstance(folder, StorePath):
        return read_trace(folder, is_verified)
    with tempfile.TemporaryDirectory(prefix="resprout-run-") as copy:
        for there in (*(location(part.path) for part in place.parts), folder / INFO_NAME):
            fetch(there, Path(copy) / there.name)
        return read_trace(copy, is_verified)


def check_place(place: RunPlace) -> None:
    """TraceError for a run that cannot be judged, before anybody reads it."""
    try:
        check_judgeable(place.info)
    except TraceError as error:
        raise TraceError(f"{place.folder}: {error}") from None


def judge_here(
    places: Sequence[RunPlace], on_progress: Callable[[int, int], None] = lambda done, of: None
) -> list[Verdict]:
    """In this process, without Spark."""
    verdicts = []
    for place in places:
        verify(place)
        verdicts.append(judge_run(place))
        on_progress(len(verdicts), len(places))
    return verdicts


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
