"""`resprout archive`: traces into an archive."""

import click

from resprout.cli.console import tell
from resprout.cli.paths import RunsPath
from resprout.cli.progress import shown
from resprout.cli.spark_options import spark_options
from resprout.pipeline.archive.ingest import add_runs
from resprout.pipeline.session import SparkChoice
from resprout.pipeline.stores import Location


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
    with shown("verified") as progress:
        done = add_runs(
            archive, traces, experiment=experiment, replace=replace, choice=spark, on_progress=progress.show
        )
    parts = ["1 run added" if len(done.added) == 1 else f"{len(done.added)} runs added"]
    parts += [f"{len(done.replaced)} replaced"] if done.replaced else []
    parts += [f"{len(done.there)} were there already"] if done.there else []
    tell(f"{', '.join(parts)}: {archive}")
