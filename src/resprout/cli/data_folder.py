"""Data folders of brokers that do not run.

`resprout journal`: what the journal of a broker keeps, and whether all of it is intact. `resprout mend`: keeps what is
intact in a damaged folder.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from resprout.cli.arguments import LocalPath
from resprout.cli.console import tell, tell_json
from resprout.journal.reading import JournalReader
from resprout.net.data_folder import EVENTS, JOURNAL, look_into, mend_folder


@click.command()
@click.argument("folder", type=LocalPath(), metavar="DIR")
@click.option("--events", is_flag=True, help="Tell of the journal of events instead of the log.")
@click.option("--verify", is_flag=True, help="Read everything, and compare it with its checksums.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def journal(folder: Path, events: bool, verify: bool, as_json: bool) -> None:
    """Tell what is kept in DIR, the --data folder of a broker, which may be running.

    Damage is told with its file, byte and position, and exit status 2; `resprout mend DIR` goes on with what is intact.
    """
    reader = look_into(folder, EVENTS if events else JOURNAL)
    facts = _facts(reader)
    if verify:
        facts["verified"] = sum(1 for _ in reader.all_from(reader.first))
    if as_json:
        tell_json(facts)
        return
    tell(
        f"{folder}: positions {facts['first']} to {facts['next']} in {facts['segments']} segments,"
        f" {facts['bytes']} bytes; written {_when(facts['first_us'])} to {_when(facts['last_us'])}"
    )
    if verify:
        tell(f"{folder}: {facts['verified']} records are intact")


def _facts(reader: JournalReader) -> dict[str, Any]:
    indexes = reader.indexes
    return {
        "first": reader.first,
        "next": reader.end,
        "segments": len(indexes),
        "bytes": sum(index.size for index in indexes),
        "first_us": indexes[0].first_us,
        "last_us": indexes[-1].last_us,
    }


def _when(time_us: int) -> str:
    return datetime.fromtimestamp(time_us / 1_000_000, UTC).isoformat(sep=" ", timespec="seconds")


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
