"""Many runs, judged at once, and the verdicts in order.

Each run is looked at on arrays (`detect`): that finds out whether anything is broken, in bounded memory and in a small
part of the time that an explanation takes. Only where something is broken, or rows make no sense, the judge in Python
reads the run and says what, so that both engines tell the same in the same words; it looks only at the rules that are
broken.

A task is given as many runs as make it worth its start. Nothing is shuffled: a run is read where it is judged, unless
it is too large for one task (`detect_large`).
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from resprout.audit.verdict import Verdict
from resprout.pipeline.archive.manifest import verify
from resprout.pipeline.judging.detect import Limits, detect, detect_large
from resprout.pipeline.judging.detected import Detected
from resprout.pipeline.places import RunPlace
from resprout.pipeline.python_judge import check_place, judge_run, trace_of
from resprout.pipeline.tasks import cores_of, run_each
from resprout.trace.schema import TraceError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = tuple[int, RunPlace]
"""A run and its number among those asked for."""
Judged = tuple[int, Verdict | str | Detected]
"""The number of a run, and the verdict, or why there is none, or what is still to be explained."""


def judge_runs(
    spark: "SparkSession",
    places: Sequence[RunPlace],
    limits: Limits = Limits(),  # noqa: B008 (it is frozen)
) -> list[Verdict]:
    """The verdict on each run, in the order of places. TraceError for the first one whose rows do not make sense."""
    runs = list(enumerate(places))
    whole = [run for run in runs if run[1].info.rows <= limits.run_rows]
    found = dict(_in_tasks(spark, lambda run: _judged(run, limits), whole, limits))
    for number, place in runs:
        if place.info.rows > limits.run_rows:
            found[number] = _told(lambda place: _judge_large(spark, place, limits), place)
        if isinstance(detected := found[number], Detected):  # one at a time, which may need all the memory there is
            [(_, found[number])] = _in_tasks(spark, partial(_explained, detected), [(number, place)], limits)
    verdicts = []
    for number, _ in runs:
        told = found[number]
        if not isinstance(told, Verdict):
            raise TraceError(str(told))
        verdicts.append(told)
    return verdicts


def _in_tasks(
    spark: "SparkSession", work: Callable[[Run], Judged], runs: Sequence[Run], limits: Limits
) -> Iterable[Judged]:
    if not runs:
        return []
    portions = _portions(runs, cores_of(spark), limits.task_rows)
    done = run_each(spark, lambda portion: list(map(work, portion)), portions, together=True)
    return [judged for portion in done for judged in portion]


def _portions(runs: Sequence[Run], cores: int, rows: int) -> list[list[Run]]:
    """What each task does: the largest runs first, small ones together until they are worth a task."""
    worth = max(1, min(rows, sum(place.info.rows for _, place in runs) // (4 * cores)))
    portions: list[list[Run]] = []
    room = 0
    for number, place in sorted(runs, key=lambda run: -run[1].info.rows):
        if room <= 0:
            portions.append([])
            room = worth
        portions[-1].append((number, place))
        room -= place.info.rows
    return portions


def _judged(run: Run, limits: Limits) -> Judged:
    number, place = run
    return number, _told(lambda place: _judge(place, limits), place)


def _explained(detected: Detected, run: Run) -> Judged:
    number, place = run
    return number, _told(lambda place: _explain(place, detected), place)


def _told(work: Callable[[RunPlace], Verdict | Detected], place: RunPlace) -> Verdict | str | Detected:
    try:
        return work(place)
    except TraceError as error:
        return str(error)


def _judge(place: RunPlace, limits: Limits) -> Verdict | Detected:
    check_place(place)
    detected = detect(place, is_sealed=verify(place))
    if not detected.needs_explanation:
        return detected.verdict()
    return _explain(place, detected) if place.info.rows <= limits.explained_rows else detected


def _judge_large(spark: "SparkSession", place: RunPlace, limits: Limits) -> Verdict | Detected:
    check_place(place)
    detected = detect_large(spark, place, verify(place), limits)
    return detected if detected.needs_explanation else detected.verdict()


def _explain(place: RunPlace, detected: Detected) -> Verdict:
    """In the words of the judge in Python."""
    if detected.odd:
        return judge_run(place)
    return detected.explained(trace_of(place, is_verified=True)) or judge_run(place)
