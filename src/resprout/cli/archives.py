"""Commands that fill and show archives.

`resprout archive`: traces into an archive. `resprout report`: figures and verdicts as one page. `resprout conclude`:
both, for one run that is over. `resprout sweep`: a grid of scenarios and seeds on Spark, into an archive.
"""

import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
import msgspec

from resprout.audit.judge import judge
from resprout.audit.verdict import CLEAN, lines
from resprout.cli.arguments import LocalPath, RunsPath, spark_options
from resprout.cli.console import RunCount, count_runs, tell, tell_json, tell_lines
from resprout.core.errors import UsageError
from resprout.pipeline.errors import NoSparkError
from resprout.pipeline.ingest import add_runs
from resprout.pipeline.places import check_usable, find_runs, is_archive
from resprout.pipeline.report.facts import find_all, gather, unknown
from resprout.pipeline.report.output import GivenCommand, check_drawer, check_target, write_whole
from resprout.pipeline.report.sweep_report import known_reports
from resprout.pipeline.session import SparkChoice, check_installed, is_worth_spark, session
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
from resprout.trace.store import read_trace


@click.command()
@click.argument("archive", type=RunsPath())
@click.argument("traces", type=RunsPath(), nargs=-1, required=True, metavar="TRACE...")
@click.option("--experiment", metavar="NAME", help="Name of the experiment. Default: the name of the scenario.")
@click.option("--replace", is_flag=True, help="Replace runs of the same name that have another digest.")
@spark_options
def archive(
    archive: Location, traces: "tuple[Location, ...]", experiment: str | None, replace: bool, spark: SparkChoice
) -> None:
    """Add traces to ARCHIVE, and create it if it does not exist.

    Each TRACE is the folder of a trace, a folder of such folders, or another archive. The command verifies
    every row first, and adds all runs or none. It skips runs that the archive has.
    """
    with count_runs("verified") as progress:
        done = add_runs(
            archive, traces, experiment=experiment, replace=replace, choice=spark, on_progress=progress.show
        )
    parts = ["1 run added" if len(done.added) == 1 else f"{len(done.added)} runs added"]
    parts += [f"{len(done.replaced)} replaced"] if done.replaced else []
    parts += [f"{len(done.there)} were there already"] if done.there else []
    tell(f"{', '.join(parts)}: {archive}")


@click.command()
@click.argument("folders", type=RunsPath(), nargs=-1, required=True, metavar="DIR...")
@click.option("--out", type=LocalPath(), required=True, metavar="FILE.html", help="The page to write.")
@click.option(
    "--sweep",
    "sweeps",
    type=LocalPath(),
    multiple=True,
    metavar="FILE",
    help="Draw the figures of this sweep file.",
)
@spark_options
def report(folders: "tuple[Location, ...]", out: Path, sweeps: tuple[Path, ...], spark: SparkChoice) -> None:
    """Write a page about the runs in DIR, traces or archives. The page needs no other files.

    Verdicts come first, then figures with their numbers. Results about the runs of an archive are stored in it, so
    the next report judges and measures only new runs. Spark starts for more than a million rows, or with --master or
    --conf.
    """
    runs = write_page(GivenCommand(folders, out, sweeps), spark)
    tell(f"{'1 run' if runs == 1 else f'{runs} runs'}: {out}")


@click.command()
@click.argument("trace", type=LocalPath())
@click.option("--archive", type=RunsPath(), required=True, metavar="DIR", help="Where it is kept.")
@click.option("--out", type=LocalPath(), required=True, metavar="FILE.html", help="The page to write.")
@spark_options
def conclude(trace: Path, archive: Location, out: Path, spark: SparkChoice) -> int:
    """Archive the run in TRACE, judge it, measure it and draw it, with one session of Spark.

    A machine that cannot start Spark gets the verdict all the same, from the judge in Python; then nothing is archived
    and no page is written. Exit status 1 when a promise was broken, or the run met its time limit before it came to
    rest.
    """
    try:
        return _on_spark(trace, archive, out, spark)
    except NoSparkError as error:
        tell(f"resprout: {error}; judged without it, no page", err=True)
    verdict = judge(read_trace(trace))
    tell_lines(lines(verdict))
    return 0 if verdict.status == CLEAN else 1


def _on_spark(trace: Path, archive: Location, out: Path, choice: SparkChoice) -> int:
    from resprout.pipeline.judging import judge_runs
    from resprout.pipeline.report.facts import keep_verdicts

    check_target(out)
    check_drawer()
    _check_one_run(trace)
    from resprout.pipeline.report.page import page_of

    with session(choice) as running:
        added = add_runs(archive, [trace], replace=True)
        [name] = (*added.added, *added.replaced, *added.there)
        tell(f"archived as {name}: {archive}")
        places = [place for place in find_runs([archive]) if place.name == name]
        [verdict] = judge_runs(running, places)
        keep_verdicts(archive, places, [verdict])
        tell_lines(lines(verdict))
        gathered = gather(running, find_all([archive]), lambda done, of: None)
    asked = GivenCommand((archive,), out)
    write_whole(out, page_of(gathered.facts, gathered.trails, asked, known_reports(asked.folders)))
    tell(f"the page: {out}")
    return 0 if verdict.status == CLEAN else 1


def _check_one_run(trace: Path) -> None:
    if is_archive(trace):
        raise UsageError(f"{trace}: an archive; this is for a single trace. `resprout report {trace}` draws an archive")
    find_runs([trace])


def write_page(asked: GivenCommand, spark: SparkChoice, option: str = "--out") -> int:
    """How many runs are on it. Spark is started when there is much to look at, or when an option says how."""
    check_target(asked.out, option)
    found = find_all(asked.folders)
    reports = known_reports(asked.folders, asked.sweeps)
    check_drawer()
    needs_spark = is_worth_spark(unknown(found), spark)
    if needs_spark:
        check_installed()
    with count_runs("looked at") as bar, session(spark) if needs_spark else nullcontext() as running:
        gathered = gather(running, found, bar.show)
    from resprout.pipeline.report.page import page_of  # brings the drawer, which a folder without runs does not need

    write_whole(asked.out, page_of(gathered.facts, gathered.trails, asked, reports), option)
    return len(gathered.facts)


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

    Runs that the archive has are not repeated: after an interrupt, the same command continues. Exit status 1 if runs
    failed; the others are finished, and are on the page of --report.
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
