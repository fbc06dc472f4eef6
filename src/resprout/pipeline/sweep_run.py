"""Sweeps: many simulations as Spark tasks, straight into an archive.

Interrupting a sweep at any moment, by any means, loses no finished run, and going on repeats none: a run is finished
when its folder is in the archive, and tasks put it there themselves. Everything else is made from these folders, also
the table `sweep` with one row for each run.

The same scenario gives the same rows in a task as from `resprout sim`. Rows leave memory as they come, so the length of
a run is limited by the disk.
"""

import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

import msgspec

from resprout.pipeline import results
from resprout.pipeline.archive.format import check_usable, make_archive, read_manifest
from resprout.pipeline.archive.manifest import count_rows, write_manifest
from resprout.pipeline.archive.staging import Stage, staging_in
from resprout.pipeline.places import RunPlace, place_of, run_folder, version_in
from resprout.pipeline.report.sweep_report import keep_report
from resprout.pipeline.session import SparkChoice, session
from resprout.pipeline.stores import Location, location
from resprout.pipeline.sweep_plan import SweepPlan, SweepProgress, WantedRun
from resprout.pipeline.tables import ResultRow
from resprout.pipeline.tasks import run_each
from resprout.scenario.model import Scenario
from resprout.scenario.write import run_info
from resprout.sim.run import run_scenario
from resprout.trace.store import Recorder, RunInfo, TraceWriter

STORE_SECONDS: Final = 30
"""Rows of results are put into the table this often; each time makes a file."""

Simulate = Callable[[Scenario, Recorder], RunInfo]
"""Runs a scenario into a recorder, and says how it ended."""


class Finished(msgspec.Struct, frozen=True):
    wanted: WantedRun
    failure: str = ""
    """Why there is no trace of it, when there is none."""


def simulate(scenario: Scenario, recorder: Recorder) -> RunInfo:
    result = run_scenario(scenario, recorder)
    return run_info(scenario, result.ended, result.traffic)


def run_one(plan: SweepPlan, stage: Stage, replace: bool, simulate: Simulate, wanted: WantedRun) -> Finished:
    """Whatever goes wrong is the failure of this run, and no reason for others to stop."""
    folder: Path | None = None
    try:
        begin = time.perf_counter()
        scenario = plan.scenario_of(wanted)
        folder = stage.new_folder()
        recorder = Recorder(TraceWriter(folder))
        info = recorder.finish(simulate(scenario, recorder))
        write_manifest(folder, info, count_rows(folder), time.perf_counter() - begin)
        brought = stage.bring(folder, plan.sweep.name, wanted.name)
        stage.publish(brought, plan.sweep.name, wanted.name, replace)
    except Exception as error:
        if folder is not None:
            stage.drop(folder)
        return Finished(wanted, " ".join(f"{type(error).__name__}: {error}".split()))
    return Finished(wanted)


class SweepRow(ResultRow, kw_only=True, frozen=True):
    TABLE: ClassVar[str] = "sweep"

    labels: dict[str, str]
    seed: int
    stack: str
    ended: str
    rows: int
    publications: int | None
    deliveries: int | None
    wall_s: float | None
    """How long it took to simulate and to write."""
    command: str
    """Makes the same run once more."""


def places_of(plan: SweepPlan, archive: Location, runs: Iterable[WantedRun]) -> list[RunPlace]:
    experiment = plan.sweep.name
    found = ((run.name, version_in(run_folder(archive, experiment, run.name))) for run in runs)
    return [place_of(folder, experiment, name) for name, folder in found if folder is not None]


def store_rows(plan: SweepPlan, archive: Location, runs: list[WantedRun]) -> list[SweepRow]:
    """The rows of finished runs; those that were not in the table are added to it."""
    if not runs:
        return []
    places = places_of(plan, archive, runs)
    made = {place.run: row_of(plan, place, wanted) for place, wanted in zip(places, runs, strict=True)}
    missing = results.missing(archive, [SweepRow], places)
    results.append(archive, SweepRow, [made[place.run] for place in missing])
    return list(made.values())


def row_of(plan: SweepPlan, place: RunPlace, wanted: WantedRun) -> SweepRow:
    manifest = read_manifest(location(place.folder))
    return SweepRow(
        experiment=place.experiment,
        run=place.run,
        digest=place.info.digest,
        labels=wanted.labels,
        seed=place.info.seed,
        stack=str(place.info.scenario.get("stack", "")),
        ended=place.info.ended,
        rows=place.info.rows,
        publications=manifest.publications if manifest else None,
        deliveries=manifest.deliveries if manifest else None,
        wall_s=manifest.wall_s if manifest else None,
        command=plan.command_of(wanted),
    )


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
