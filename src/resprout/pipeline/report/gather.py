"""Brings together what is known of runs: judges and measures those that nobody has judged and measured yet.

What is found out about the runs of an archive is kept there, so a second report costs a fraction of the first. Traces
that lie by themselves are looked at each time. What needs more than a plain installation is imported where it is used:
that a folder holds no runs is said on any machine.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from resprout.audit.verdict import Verdict
from resprout.pipeline import results
from resprout.pipeline.errors import PipelineError
from resprout.pipeline.places import RunPlace, check_archive, check_not_empty, find_runs, is_archive
from resprout.pipeline.python_judge import anomaly_rows, judge_here, verdict_row
from resprout.pipeline.report.facts import RunFacts, by_experiment, facts_of
from resprout.pipeline.report.trail import Trails
from resprout.pipeline.results import JUDGED, MEASURED, AnomalyRow, ResultRow, VerdictRow
from resprout.pipeline.stores import Location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNS_AT_ONCE: Final = 200
"""Verdicts are kept after so many runs, so that an interruption costs little."""

Found = tuple[Location, list[RunPlace]]
"""A trace or an archive, and the runs in it."""
Progress = Callable[[int, int], None]
"""How much is done, and of how much."""


class Gathered(msgspec.Struct, frozen=True):
    facts: list[RunFacts]
    trails: Trails
    """Of the runs that are the only one of their experiment."""


def find_all(folders: Sequence[Location]) -> list[Found]:
    """The runs in each of these traces and archives; a run that is found twice counts where it is found first."""
    known: dict[tuple[str, str], RunPlace] = {}
    found = []
    for folder in folders:
        if is_archive(folder):
            check_archive(folder)
        places = []
        for place in find_runs([folder]):
            other = known.setdefault((place.experiment, place.run), place)
            if other is place:
                places.append(place)
            elif other.info.digest != place.info.digest:
                raise PipelineError(f"{place.folder} and {other.folder} are different runs with the same name")
        found.append((folder, places))
    check_not_empty(list(known.values()), folders)
    return found


def unknown(found: Sequence[Found]) -> list[RunPlace]:
    """The runs that have to be judged or measured, before there can be a page."""
    return [
        place
        for folder, places in found
        for place in (results.missing(folder, (*MEASURED, *JUDGED), places) if is_archive(folder) else places)
    ]


def gather(spark: "SparkSession | None", found: Sequence[Found], progress: Progress) -> Gathered:
    """Without Spark, what is not known yet is found out in this process, one run after the other."""
    tables: dict[str, list[ResultRow]] = {table.TABLE: [] for table in (*MEASURED, *JUDGED)}
    loose = [place for folder, places in found if not is_archive(folder) for place in places]
    for archive, places in ((folder, places) for folder, places in found if is_archive(folder)):
        _complete(spark, archive, places, progress)
        for table in (*MEASURED, *JUDGED):
            tables[table.TABLE] += results.read(archive, table, places)
    if loose:
        _look_at(spark, loose, tables)
    facts = facts_of(tables)
    return Gathered(facts, _trails(facts, found))


def keep_verdicts(archive: Location, places: Sequence[RunPlace], verdicts: Sequence[Verdict]) -> None:
    """Nobody needs to judge these runs again, as long as they do not change."""
    judged = list(zip(places, verdicts, strict=True))
    results.append(archive, AnomalyRow, [row for one in judged for row in anomaly_rows(*one)], places)
    results.append(archive, VerdictRow, [verdict_row(*one) for one in judged], places)


def _complete(spark: "SparkSession | None", archive: Location, places: Sequence[RunPlace], progress: Progress) -> None:
    from resprout.pipeline.metrics import measure

    unmeasured, unjudged = (results.missing(archive, tables, places) for tables in (MEASURED, JUDGED))
    total = len(unmeasured) + len(unjudged)
    measure(archive, spark, lambda done, _: progress(done, total))
    for begin in range(0, len(unjudged), RUNS_AT_ONCE):
        progress(len(unmeasured) + begin, total)
        some = unjudged[begin : begin + RUNS_AT_ONCE]
        keep_verdicts(archive, some, _judged(spark, some))


def _judged(spark: "SparkSession | None", places: Sequence[RunPlace]) -> list[Verdict]:
    if spark is None:
        return judge_here(places)
    from resprout.pipeline.judging import judge_runs

    return judge_runs(spark, places)


def _look_at(spark: "SparkSession | None", places: Sequence[RunPlace], tables: dict[str, list[ResultRow]]) -> None:
    from resprout.pipeline.metrics import measure_runs

    measured = measure_runs(spark, places)
    for table in MEASURED:
        tables[table.TABLE] += getattr(measured, table.TABLE)
    for place, verdict in zip(places, _judged(spark, places), strict=True):
        tables[VerdictRow.TABLE].append(verdict_row(place, verdict))
        tables[AnomalyRow.TABLE] += anomaly_rows(place, verdict)


def _trails(facts: Sequence[RunFacts], found: Sequence[Found]) -> Trails:
    from resprout.pipeline.report.trail import trail_of

    places = {(place.experiment, place.run): place for _, some in found for place in some}
    alone = [(some[0].run.experiment, some[0].run.run) for some in by_experiment(facts).values() if len(some) == 1]
    return {name: trail_of(places[name]) for name in alone}
