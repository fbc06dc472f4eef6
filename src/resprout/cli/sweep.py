"""`resprout sweep`: a grid of scenarios and seeds on Spark."""

import time
from pathlib import Path
from typing import Any

import click
import msgspec

from resprout.cli.archives import write_page
from resprout.cli.arguments import LocalPath, RunsPath, spark_options
from resprout.cli.console import tell, tell_json
from resprout.cli.terminal import RunCount, count_runs
from resprout.pipeline.places import check_usable
from resprout.pipeline.report.output import GivenCommand, check_target
from resprout.pipeline.session import SparkChoice
from resprout.pipeline.stores import Location
from resprout.pipeline.sweep import (
    Finished,
    SweepOutcome,
    SweepPlan,
    SweepProgress,
    count_finished,
    load_plan,
    look,
    run_sweep,
)

FAILURES_SHOWN = 20


@click.command()
@click.argument("file", type=LocalPath())
@click.option("--out", type=RunsPath(), required=True, metavar="DIR", help="The archive for the runs.")
@click.option("--set", "settings", multiple=True, metavar="PATH=VALUE", help="Change one value in all runs.")
@click.option("--seeds", type=click.IntRange(min=1), metavar="N", help="Use only the first N seeds of the file.")
@click.option("--replace", is_flag=True, help="Run again what was finished as another scenario than FILE says now.")
@click.option("--report", "page", type=LocalPath(), metavar="FILE.html", help="Then write the page of the archive.")
@click.option("--json", "as_json", is_flag=True, help="Print all results as one JSON object.")
@spark_options
def sweep(
    file: Path,
    out: Location,
    settings: tuple[str, ...],
    seeds: int | None,
    replace: bool,
    page: Path | None,
    as_json: bool,
    spark: SparkChoice,
) -> int:
    """Run the grid of scenarios in FILE as Spark tasks, and keep their traces in an archive.

    What is finished there is not run again: after an interrupt, the same command goes on. Exit status 1 when runs
    failed; the others are finished all the same, and shown on the page if one is asked for.
    """
    if page is not None:
        check_target(page, "--report")
    plan = load_plan(file, settings, seeds)
    check_usable(out)
    standing = look(plan, out, replace)
    begin = time.monotonic()
    with count_runs("done", len(standing.done)) as bar:
        counter = _Counter(standing, bar)
        try:
            outcome = run_sweep(plan, standing, out, choice=spark, replace=replace, on_finished=counter.count)
        except KeyboardInterrupt:
            bar.hide()
            done = count_finished(plan, standing, out, counter.done)
            tell(f"{done} of {len(plan.sweep)} runs are done; the same command goes on", err=True)
            return 130
    if as_json:
        tell_json(_as_data(plan, standing, outcome, out))
    else:
        _print(plan, standing, outcome, out, time.monotonic() - begin)
    _complain(plan, outcome)
    if page is not None and outcome.rows:
        write_page(GivenCommand((out,), page), spark, "--report")
        tell(f"the page: {page}", err=as_json)
    return 1 if outcome.failed else 0


class _Counter:
    def __init__(self, standing: SweepProgress, bar: RunCount) -> None:
        self._bar = bar
        self._over = len(standing.done)
        self._all = len(standing.done) + len(standing.todo)
        self.done: set[str] = set()

    def count(self, finished: Finished) -> None:
        self._over += 1
        if not finished.failure:
            self.done.add(finished.wanted.name)
        self._bar.show(self._over, self._all)


def _print(plan: SweepPlan, standing: SweepProgress, outcome: SweepOutcome, out: Location, seconds: float) -> None:
    new = len(outcome.rows) - len(standing.done)
    before = f", {len(standing.done)} were finished before" if standing.done else ""
    tell(f"{plan.sweep.name}: {new} runs in {seconds:.0f} s{before}: {out}")
    if late := [row for row in outcome.rows if row.ended != "quiescent"]:
        tell(f"{len(late)} runs did not come to rest before their time limit, first {late[0].run}")


def _complain(plan: SweepPlan, outcome: SweepOutcome) -> None:
    for failed in outcome.failed[:FAILURES_SHOWN]:
        tell(f"resprout: {failed.wanted.name} failed: {failed.failure}", err=True)
        tell(f"    {plan.command_of(failed.wanted)}", err=True)
    if len(outcome.failed) > FAILURES_SHOWN:
        tell(f"resprout: ... and {len(outcome.failed) - FAILURES_SHOWN} more", err=True)


def _as_data(plan: SweepPlan, standing: SweepProgress, outcome: SweepOutcome, out: Location) -> dict[str, Any]:
    return {
        "sweep": plan.sweep.name,
        "archive": str(out),
        "runs": len(plan.sweep),
        "finished": len(outcome.rows),
        "finished_before": len(standing.done),
        "failed": [
            {"run": it.wanted.name, "reason": it.failure, "command": plan.command_of(it.wanted)}
            for it in outcome.failed
        ],
        "results": [msgspec.to_builtins(row) for row in outcome.rows],
    }
