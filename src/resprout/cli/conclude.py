"""`resprout conclude`: all that is done with a run when it is over, in one go."""

from pathlib import Path

import click

from resprout.audit.judge import judge
from resprout.audit.verdict import CLEAN, lines
from resprout.cli.console import tell, tell_lines
from resprout.cli.paths import LocalPath, RunsPath
from resprout.cli.spark_options import spark_options
from resprout.core.errors import UsageError
from resprout.pipeline.archive.ingest import add_runs
from resprout.pipeline.errors import NoSparkError
from resprout.pipeline.places import find_runs, is_archive
from resprout.pipeline.session import SparkChoice, session
from resprout.pipeline.stores import Location
from resprout.trace.store import read_trace


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
    from resprout.pipeline.report.command import GivenCommand
    from resprout.pipeline.report.gather import find_all, gather, keep_verdicts
    from resprout.pipeline.report.output import check_drawer, check_target, write_whole
    from resprout.pipeline.report.sweep_report import known_reports

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
