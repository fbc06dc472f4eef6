"""One run of a sweep, in a Spark task: simulated, written, sealed and moved into the archive, all by itself.

The same scenario gives the same rows here as from `resprout sim`. Rows leave memory as they come, so the length of a
run is limited by the disk.
"""

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from resprout.pipeline.archive.check import count_rows
from resprout.pipeline.archive.manifest import write_manifest
from resprout.pipeline.archive.staging import Stage
from resprout.pipeline.sweep.plan import SweepPlan, WantedRun
from resprout.scenario.model import Scenario
from resprout.scenario.run_info import run_info
from resprout.sim.run import run_scenario
from resprout.trace.store import Recorder, RunInfo, TraceWriter

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
