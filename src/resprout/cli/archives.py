"""Commands that fill and show archives.

`resprout archive`: traces into an archive. `resprout report`: figures and verdicts as one page. `resprout conclude`:
both, for one run that is over.
"""

from contextlib import nullcontext
from pathlib import Path

import click

from resprout.audit.judge import judge
from resprout.audit.verdict import CLEAN, lines
from resprout.cli.arguments import LocalPath, RunsPath, spark_options
from resprout.cli.console import tell, tell_lines
from resprout.cli.terminal import count_runs
from resprout.core.errors import UsageError
from resprout.pipeline.errors import NoSparkError
from resprout.pipeline.ingest import add_runs
from resprout.pipeline.places import find_runs, is_archive
from resprout.pipeline.report.gather import find_all, gather, unknown
from resprout.pipeline.report.output import GivenCommand, check_drawer, check_target, write_whole
from resprout.pipeline.report.sweep_report import known_reports
from resprout.pipeline.session import SparkChoice, check_installed, is_worth_spark, session
from resprout.pipeline.stores import Location
from resprout.trace.store import read_trace


@click.command()
@click.argument("archive", type=RunsPath())
@click.argument("traces", type=RunsPath(), nargs=-1, required=True, metavar="TRACE...")
@click.option("--experiment", metavar="NAME", help="What the runs belong to. Default: the name of their scenario.")
@click.option("--replace", is_flag=True, help="Exchange runs that are there under the same name with another digest.")
@spark_options
def archive(
    archive: Location, traces: "tuple[Location, ...]", experiment: str | None, replace: bool, spark: SparkChoice
) -> None:
    """Add traces to ARCHIVE, which is made when it is not there.

    Each TRACE is the folder of a trace, a folder of such folders, or another archive. Every row is verified first;
    either all runs come in, or none. Runs that are there already are left alone.
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
    help="Take the figures of a sweep from its file as it is now.",
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
    from resprout.pipeline.report.gather import keep_verdicts

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
