"""`resprout report`: figures and verdicts as one page."""

from contextlib import nullcontext
from pathlib import Path

import click

from resprout.cli.paths import LocalPath
from resprout.cli.progress import shown
from resprout.cli.spark_options import spark_options
from resprout.pipeline.report.gather import find_all, gather, unknown
from resprout.pipeline.report.output import check_target, write_whole
from resprout.pipeline.report.page import page_of
from resprout.pipeline.report.sections import GivenCommand
from resprout.pipeline.session import SparkChoice, check_installed, session
from resprout.pipeline.worth import is_worth_spark


@click.command()
@click.argument("folders", type=LocalPath(), nargs=-1, required=True, metavar="DIR...")
@click.option("--out", type=LocalPath(), required=True, metavar="FILE.html", help="The page to write.")
@spark_options
def report(folders: tuple[Path, ...], out: Path, spark: SparkChoice) -> None:
    """Show what the runs in DIR came to, traces or archives, as one page that needs nothing else.

    Verdicts come first, then figures with their numbers. What is found out about the runs of an archive is kept in it,
    so the next report judges and measures only what is new. Spark is started when that is much, or when an option says
    how.
    """
    check_target(out)
    found = find_all(folders)
    check_installed()
    needs_spark = is_worth_spark(unknown(found), spark)
    with shown("looked at") as bar, session(spark) if needs_spark else nullcontext() as running:
        gathered = gather(running, found, bar.show)
    write_whole(out, page_of(gathered.facts, gathered.trails, GivenCommand(folders, out)))
    runs = len(gathered.facts)
    click.echo(f"{'1 run' if runs == 1 else f'{runs} runs'}: {out}")
