"""Runs what is left of a sweep.

Interrupting it at any moment, by any means, loses no finished run, and going on repeats none: a run is finished when
its folder is in the archive, and tasks put it there themselves. Everything else is made from these folders.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from resprout.pipeline.archive.head import check_usable, make_archive
from resprout.pipeline.archive.staging import staging_in
from resprout.pipeline.report.sweep_report import keep_report
from resprout.pipeline.session import SparkChoice, session
from resprout.pipeline.stores import Location
from resprout.pipeline.sweep.plan import SweepPlan, SweepProgress, WantedRun
from resprout.pipeline.sweep.rows import SweepRow, store_rows
from resprout.pipeline.sweep.task import Finished, Simulate, run_one, simulate
from resprout.pipeline.tasks import run_each

STORE_SECONDS: Final = 30
"""Rows of results are put into the table this often; each time makes a file."""


class SweepOutcome(msgspec.Struct, frozen=True):
    rows: list[SweepRow]
    """Of all runs that are finished, now or before, in the order of the sweep."""
    failed: list[Finished]


def run_sweep(
    plan: SweepPlan,
    standing: SweepProgress,
    archive: Location,
    *,
    choice: SparkChoice = SparkChoice(),  # noqa: B008 (it is frozen)
    replace: bool = False,
    on_finished: Callable[[Finished], None] = lambda finished: None,
    simulate: Simulate = simulate,
) -> SweepOutcome:
    """`standing` is what `look` found. Starts Spark only when something is left to run."""
    check_usable(archive)
    rows = store_rows(plan, archive, standing.done)
    failed: list[Finished] = []
    if not standing.todo:
        keep_report(archive, plan.report)
        return SweepOutcome(rows, failed)
    fresh: list[WantedRun] = []
    with session(choice) as spark, staging_in(make_archive(archive)) as stage:
        keep_report(archive, plan.report)
        work = partial(run_one, plan, stage, replace, simulate)
        stored_at = time.monotonic()
        try:
            for finished in run_each(spark, work, standing.todo):
                if finished.failure:
                    failed.append(finished)
                else:
                    fresh.append(finished.wanted)
                on_finished(finished)
                if time.monotonic() - stored_at > STORE_SECONDS:
                    rows += store_rows(plan, archive, fresh)
                    fresh, stored_at = [], time.monotonic()
        finally:
            rows += store_rows(plan, archive, fresh)
    return _in_order(standing, rows, failed)


def _in_order(standing: SweepProgress, rows: list[SweepRow], failed: list[Finished]) -> SweepOutcome:
    number = {wanted.name: wanted.number for wanted in (*standing.done, *standing.todo)}
    rows.sort(key=lambda row: number[row.run])
    failed.sort(key=lambda it: it.wanted.number)
    return SweepOutcome(rows, failed)
