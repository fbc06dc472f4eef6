"""Runs of sweeps, made here and now: simulated, judged and measured without an archive."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from resprout.pipeline.metrics import measure_run
from resprout.pipeline.places import place_of
from resprout.pipeline.python_judge import anomaly_rows, judge_here, verdict_row
from resprout.pipeline.report.facts import RunFacts
from resprout.pipeline.sweep import load_plan
from resprout.scenario.load import SweepRun
from resprout.scenario.write import run_info
from resprout.sim.run import run_scenario
from resprout.trace.store import write_trace


def runs_of(name: str, changes: Sequence[str] = (), **labels: tuple[str, ...]) -> Iterator[SweepRun]:
    """Of the first seed: those whose labels are among these, with changes that come after all others."""
    for run in load_plan(name, changes, seeds=1).sweep.runs():
        if all(run.labels[axis] in wanted for axis, wanted in labels.items()):
            yield run


def play(experiment: str, run: SweepRun) -> RunFacts:
    result = run_scenario(run.scenario)
    with TemporaryDirectory() as folder:
        write_trace(Path(folder) / "t", result.rows, run_info(run.scenario, result.ended))
        place = place_of(Path(folder) / "t", experiment, run.name)
        found, (verdict,) = measure_run(place), judge_here([place])
        return RunFacts(
            run=found.runs[0],
            verdict=verdict_row(place, verdict),
            traffic=found.traffic[0],
            anomalies=tuple(anomaly_rows(place, verdict)),
            latency=tuple(found.latency),
            repairs=tuple(found.repairs),
            load=tuple(found.load),
        )
