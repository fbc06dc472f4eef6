"""`resprout mend`: goes on with what is intact in a damaged data folder."""

from pathlib import Path

import click

from resprout.cli.console import tell
from resprout.cli.paths import LocalPath
from resprout.net.data_folder import mend_folder


@click.command()
@click.argument("folder", type=LocalPath(), metavar="DIR")
def mend(folder: Path) -> None:
    """Keep the records that are intact in DIR, the --data folder of a broker that refuses to start with it.

    Damaged segments stay beside them under other names, and records keep their positions. What was damaged had not been
    passed on by the broker when it stopped, or had been, and nobody can tell: compare what publishers were told. Stop
    the broker first.

    Each damaged segment is written anew beside the damaged file, so DIR needs as much free room as its intact records
    take: at most the size of the damaged segments. Without it the file stays as it is, and the line says how much is
    needed.
    """
    for name, done in mend_folder(folder):
        place = folder / name
        kept = "1 record is" if done.records == 1 else f"{done.records} records are"
        if not done.asides:
            tell(f"{place}: not damaged; {kept} kept there")
            continue
        asides = ", ".join(str(place / aside) for aside in done.asides)
        gone = ", ".join(f"{begin}" if end == begin + 1 else f"{begin}-{end - 1}" for begin, end in done.missing)
        tell(
            f"{place}: {kept} kept; positions that are missing: {gone or 'none'}; damaged bytes,"
            f" {done.damaged_bytes} of them, are in {asides}"
        )
