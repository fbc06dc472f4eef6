"""`resprout mend`: goes on with what is intact in a damaged data folder."""

from pathlib import Path

import click

from resprout.cli.paths import LocalPath
from resprout.net.data_folder import mend_folder


@click.command()
@click.argument("folder", type=LocalPath(), metavar="DIR")
def mend(folder: Path) -> None:
    """Keep the records that are intact in DIR, the --data folder of a broker that refuses to start with it.

    The damaged file stays beside them under another name. What was damaged had not been passed on by the broker when it
    stopped, or had been, and nobody can tell: compare what publishers were told. Stop the broker first.
    """
    done = mend_folder(folder)
    kept = "1 record is" if done.records == 1 else f"{done.records} records are"
    if done.aside is None:
        click.echo(f"{folder}: not damaged; {kept} kept there")
    else:
        click.echo(f"{folder}: {kept} kept; the file with {done.damaged_bytes} damaged bytes is {done.aside}")
