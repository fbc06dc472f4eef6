"""Sweeps: many simulations as Spark tasks, straight into an archive.

`look` compares the runs that a sweep asks for with those that its archive already holds. `run_sweep` runs the rest.

A sweep can be interrupted at any moment: no finished run is lost, and resuming repeats none. A run is finished when its
folder is in the archive, and tasks put it there themselves. Everything else is made from these folders, also the table
`sweep` with one row for each run.

The same scenario gives the same rows in a task as from `resprout sim`. Rows leave memory as they come, so the length of
a run is limited by the disk.
"""

import math
import os
import shlex
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from resprout.pipeline import results
from resprout.pipeline.archive import Stage, count_rows, digest_if_sound, staging_in, write_manifest
from resprout.pipeline.errors import PipelineError
from resprout.pipeline.places import (
    RunPlace,
    check_usable,
    info_in,
    make_archive,
    place_of,
    read_manifest,
    run_folder,
    version_in,
)
from resprout.pipeline.report.sweep_report import SweepReport, keep_report, load_report
from resprout.pipeline.results import ResultRow
from resprout.pipeline.session import SparkChoice, session
from resprout.pipeline.stores import Location, location
from resprout.pipeline.tasks import run_each
from resprout.scenario.load import Axis, Point, Sweep, SweepRun, load_sweep
from resprout.scenario.model import Scenario
from resprout.scenario.source import apply_overrides, read_shipped
from resprout.scenario.write import run_info, scenario_data
from resprout.sim.run import run_scenario
from resprout.trace.store import Recorder, RunInfo, TraceWriter

STORE_SECONDS: Final = 30
"""Rows of results are put into the table this often; each time makes a file."""

Simulate = Callable[[Scenario, Recorder], RunInfo]
"""Runs a scenario into a recorder, and says how it ended."""


class WantedRun(msgspec.Struct, frozen=True):
    """One run, by what tells it from the others: small, for there may be many."""

    number: int
    """Its place in the sweep."""
    name: str
    labels: dict[str, str]
    seed: int


class SweepPlan(msgspec.Struct, frozen=True):
    sweep: Sweep
    shared: tuple[str, ...]
    """The settings of all runs that come first; those of the axes follow."""
    report: SweepReport

    def scenario_of(self, wanted: WantedRun) -> Scenario:
        """A sweep that has only one run knows what it is called and what it is made of."""
        axes = tuple(
            Axis(axis.name, tuple(point for point in axis.points if point.label == wanted.labels[axis.name]))
            for axis in self.sweep.axes
        )
        (run,) = msgspec.structs.replace(self.sweep, axes=axes, seeds=(wanted.seed,)).runs()
        return run.scenario

    def command_of(self, wanted: WantedRun) -> str:
        """The command that makes the same run once more, by itself."""
        settings = list(self.shared)
        for axis in self.sweep.axes:
            settings += next(point.settings for point in axis.points if point.label == wanted.labels[axis.name])
        words = ["resprout", "sim", os.path.normpath(self.sweep.base.name)]
        words += [word for setting in settings for word in ("--set", setting)]
        words += ["--seed", str(wanted.seed), "--trace", "DIR"]
        return shlex.join(words)


class SweepProgress(msgspec.Struct, frozen=True):
    """How far a sweep has come."""

    todo: list[WantedRun]
    """Those with most to do first, so that none of them is left over for a single core at the end."""
    done: list[WantedRun]
    changed: dict[str, str]
    """What is to be run again, because it was another scenario then: its name, and what is different."""


def load_plan(path: str | Path, settings: Sequence[str] = (), seeds: int | None = None) -> SweepPlan:
    """`settings` come after those of the file and its axes; `seeds`: only so many of them, the first."""
    sweep, report = load_sweep(path), load_report(path)
    shared = tuple(read_shipped(path, "sweeps").tree.get("set", ()))
    if seeds is not None:
        sweep = msgspec.structs.replace(sweep, seeds=sweep.seeds[:seeds])
    if not settings:
        return SweepPlan(sweep, shared, report)
    if not sweep.axes:
        base = apply_overrides(sweep.base, settings)
        return SweepPlan(msgspec.structs.replace(sweep, base=base), (*shared, *settings), report)
    *others, last = sweep.axes
    points = tuple(Point(point.label, (*point.settings, *settings)) for point in last.points)
    return SweepPlan(msgspec.structs.replace(sweep, axes=(*others, Axis(last.name, points))), shared, report)


def look(plan: SweepPlan, archive: Location, replace: bool = False) -> SweepProgress:
    """Builds every scenario, so what cannot be run is found before anything is. PipelineError when a finished run was
    another scenario than the file says now, unless it is to be replaced."""
    todo: list[tuple[int, WantedRun]] = []
    done: list[WantedRun] = []
    changed: dict[str, str] = {}
    for number, run in enumerate(plan.sweep.runs()):
        wanted = WantedRun(number, run.name, run.labels, run.seed)
        folder = version_in(run_folder(archive, plan.sweep.name, run.name))
        difference = None if folder is None else _difference(folder, run, replace)
        if difference is not None:
            changed[run.name] = difference
        if difference is not None or folder is None:
            todo.append((_work(run.scenario), wanted))
        else:
            done.append(wanted)
    if changed and not replace:
        name, difference = next(iter(changed.items()))
        raise PipelineError(
            f"{archive}: {len(changed)} finished runs were other scenarios than the sweep's now, first {name}:"
            f" {difference}; run them again with --replace, or choose another --out"
        )
    todo.sort(key=lambda item: -item[0])
    return SweepProgress([wanted for _, wanted in todo], done, changed)


def count_finished(plan: SweepPlan, standing: SweepProgress, archive: Location, told: Collection[str]) -> int:
    """How many runs are in the archive now, `told` among them. After an interrupt there may be more than were told of:
    tasks put them there before they say so."""
    there = {
        wanted.name
        for wanted in standing.todo
        if wanted.name not in standing.changed
        and version_in(run_folder(archive, plan.sweep.name, wanted.name)) is not None
    }
    return len(standing.done) + len(there.union(told))


def _difference(folder: Location, run: SweepRun, replace: bool) -> str | None:
    if replace and digest_if_sound(folder) is None:
        return "it is damaged"
    was = info_in(folder).scenario
    return next(differences(was, scenario_data(run.scenario)), None)


def differences(was: Any, now: Any, path: str = "") -> Iterator[str]:
    """Where two trees of plain values differ, in words."""
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        for key in [*was, *(key for key in now if key not in was)]:
            yield from differences(was.get(key), now.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        for number, (old, new) in enumerate(zip(was, now, strict=True)):
            yield from differences(old, new, f"{path}.{number}")
    elif was != now:
        yield f"{path} was {_short(was)}, is {_short(now)}"


def _short(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}..."


def _work(scenario: Scenario) -> int:
    """About how much there is to do, to compare runs by: what is published, and how many nodes it may reach."""
    published = sum(workload.operations * len(workload.clients) for workload in scenario.workloads)
    return math.prod((published, len(scenario.brokers) + len(scenario.clients)))


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
