"""`resprout report`: figures and verdicts as one page."""

from pathlib import Path

import click

from resprout.cli.console import tell
from resprout.cli.pages import write_page
from resprout.cli.paths import LocalPath, RunsPath
from resprout.cli.spark_options import spark_options
from resprout.pipeline.report.command import GivenCommand
from resprout.pipeline.session import SparkChoice
from resprout.pipeline.stores import Location


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
    """Show what the runs in DIR came to, traces or archives, as one page that needs nothing else.

    Verdicts come first, then figures with their numbers. What is found out about the runs of an archive is kept in it,
    so the next report judges and measures only what is new. Spark is started when that is much, or when an option says
    how.
    """
    runs = write_page(GivenCommand(folders, out, sweeps), spark)
    tell(f"{'1 run' if runs == 1 else f'{runs} runs'}: {out}")
