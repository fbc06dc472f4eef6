"""The runs that a sweep asks for, compared with those that its archive already holds."""

import math
import os
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from resprout.pipeline.archive.manifest import digest_if_sound
from resprout.pipeline.errors import PipelineError
from resprout.pipeline.places import info_in, run_folder, version_in
from resprout.pipeline.report.sweep_report import SweepReport, load_report
from resprout.pipeline.stores import Location
from resprout.scenario.model import Scenario
from resprout.scenario.shipped import read_shipped
from resprout.scenario.source import apply_overrides
from resprout.scenario.sweep import Axis, Point, Sweep, SweepRun, load_sweep
from resprout.scenario.write import scenario_data


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
