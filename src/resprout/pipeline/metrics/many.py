"""Measures many runs side by side.

A task takes some runs from beginning to end and reads their files itself: rows of different runs never meet, so nothing
is shuffled, and nothing but the results leaves a worker. Runs are dealt out by size.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from resprout.pipeline import results
from resprout.pipeline.archive.manifest import verify
from resprout.pipeline.errors import PipelineError
from resprout.pipeline.metrics.of_run import Measurements, measure_run
from resprout.pipeline.places import RunPlace, find_runs, is_archive, place_of
from resprout.pipeline.stores import Location, location
from resprout.pipeline.tables import MEASURED, LatencyRow, LoadRow, RepairRow, RunRow, TrafficRow
from resprout.pipeline.tasks import cores_of, run_each

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASKS_PER_CORE: Final = 4
"""More than one, because runs differ; not many more, because a task costs as much as a small run."""
RUNS_AT_ONCE: Final = 250
"""Results are kept after so many runs, so that an interruption costs little."""


class _Order(msgspec.Struct, frozen=True):
    number: int
    folder: str
    experiment: str
    run: str


def measure_runs(spark: "SparkSession | None", places: Sequence[RunPlace]) -> Measurements:
    """All tables but those of verdicts, rows in the order of the runs. Without Spark, one run after the other here."""
    if not places:
        return Measurements()
    if spark is None:
        [orders_here] = _dealt(places, 1)
        return _together((order.number, _measured(order)) for order in orders_here)
    dealt = _dealt(places, TASKS_PER_CORE * cores_of(spark))
    done = run_each(spark, lambda orders: [(order.number, _measured(order)) for order in orders], dealt, together=True)
    return _together(found for portion in done for found in portion)


def measure(
    archive: Location, spark: "SparkSession | None", progress: Callable[[int, int], None] = lambda done, total: None
) -> int:
    """Measures the runs of an archive that were never measured, or have changed since; how many those were."""
    if not is_archive(archive):
        raise PipelineError(f"{archive}: not an archive; results are kept only beside archived runs")
    places = results.missing(archive, MEASURED, find_runs([archive]))
    for begin in range(0, len(places), RUNS_AT_ONCE):
        progress(begin, len(places))
        some = places[begin : begin + RUNS_AT_ONCE]
        found = measure_runs(spark, some)
        results.append(archive, LatencyRow, found.latency, some)
        results.append(archive, RepairRow, found.repairs, some)
        results.append(archive, TrafficRow, found.traffic, some)
        results.append(archive, LoadRow, found.load, some)
        results.append(archive, RunRow, found.runs, some)
    progress(len(places), len(places))
    return len(places)


def _together(found: Iterable[tuple[int, Measurements]]) -> Measurements:
    """In the order of the numbers."""
    whole = Measurements()
    for _, one in sorted(found, key=lambda item: item[0]):
        for name in Measurements.__struct_fields__:
            getattr(whole, name).extend(getattr(one, name))
    return whole


def _measured(order: _Order) -> Measurements:
    place = place_of(location(order.folder), order.experiment, order.run)
    verify(place)
    return measure_run(place)


def _dealt(places: Sequence[RunPlace], tasks: int) -> list[list[_Order]]:
    """Each run to one task, the largest first and each to the next task in turn."""
    orders = [_Order(number, place.folder, place.experiment, place.run) for number, place in enumerate(places)]
    orders.sort(key=lambda order: -places[order.number].info.rows)
    return [orders[task::tasks] for task in range(min(tasks, len(orders)))]
