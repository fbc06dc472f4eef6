"""`resprout swarm`: scenarios by chance, run in virtual time and judged."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from resprout.cli.console import overwrite, tell, tell_lines
from resprout.cli.paths import LocalPath
from resprout.core.errors import UsageError
from resprout.scenario.source import parse_source
from resprout.scenario.write import to_toml
from resprout.sim.classes import ANY
from resprout.sim.swarm import DEFAULT_STACK, check_drawn, class_for, swarm_trial, try_seeds

SEEDS: Final = 200


@click.command()
@click.option("--seeds", type=click.IntRange(1), default=SEEDS, show_default=True, metavar="N", help="How many to try.")
@click.option(
    "--first", type=click.IntRange(0), default=1, show_default=True, metavar="SEED", help="The first of them."
)
@click.option("--class", "wanted", default=ANY, show_default=True, metavar="NAME", help="What to draw; see below.")
@click.option("--stack", default=DEFAULT_STACK, show_default=True, metavar="NAME", help="Which protocol to try.")
@click.option(
    "--set", "overrides", multiple=True, metavar="OPTION=VALUE", help="An option of the stack that is not drawn."
)
@click.option("--workers", type=click.IntRange(1, 256), default=1, show_default=True, metavar="N", help="Processes.")
@click.option("--write", "file", type=LocalPath(), metavar="FILE", help="Write the scenario of the first seed as TOML.")
def swarm(
    seeds: int, first: int, wanted: str, stack: str, overrides: tuple[str, ...], workers: int, file: Path | None
) -> int:
    """Draw scenarios from seeds, run them in virtual time and judge them.

    Faults are drawn within what the stack says that it survives, so every promise has to be kept. A failure tells what
    was drawn and the command that shows it again. What --write writes is for `resprout sim`; a fault that strikes
    after an event is written with the time of that event, which is nearly the same. Exit status 1 when one failed.

    Classes of the default stack are faults, thin-links, in-turn, totals, doubled-clients, doubled-names, blackout,
    consumers, cut-repairs, disks, hung, moved-clocks, newcomers, producers, restarts, rolling, slow-links, spilling and
    unread; any draws the class, too. Other stacks have faults only.
    """
    fixed = parse_source("", "--set").overridden(overrides).tree
    check_drawn(wanted, stack, fixed)
    if file is not None:
        _write(file, first, wanted, stack, fixed)
    begin = time.monotonic()
    failed: list[int] = []
    for number, outcome in enumerate(try_seeds(range(first, first + seeds), workers, wanted, stack, fixed), 1):
        overwrite(f"{number} of {seeds}, {len(failed)} failed")
        if outcome.failed:
            failed.append(outcome.seed)
            overwrite("")
            tell_lines((*outcome.report.split("\n"), ""))
    overwrite("")
    named = f" ({', '.join(map(str, failed))})" if failed else ""
    tell(f"seeds {first} to {first + seeds - 1}: {len(failed)} failed{named}, {time.monotonic() - begin:.1f} s")
    return 1 if failed else 0


def _write(file: Path, seed: int, wanted: str, stack: str, fixed: Mapping[str, Any]) -> None:
    try:
        scenario = swarm_trial(seed, class_for(seed, wanted, stack), stack, fixed).timed
    except Exception:  # there is nothing to write; what went wrong is told when the seed is tried
        return
    try:
        file.write_text(to_toml(scenario))
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror or error}") from None
