"""Scenarios in virtual time. `resprout sim`: one of them. `resprout swarm`: many, drawn from seeds and judged."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from resprout.cli.arguments import LocalPath
from resprout.cli.console import overwrite, tell, tell_lines
from resprout.cli.scenarios import RunOutcome, choose_scenario, say, scenario_arguments
from resprout.core.errors import UsageError
from resprout.scenario.source import parse_source
from resprout.scenario.write import describe, run_info, to_toml
from resprout.sim.checking import PERIOD
from resprout.sim.classes import ANY
from resprout.sim.run import run_scenario
from resprout.sim.swarm import DEFAULT_STACK, check_drawn, class_for, swarm_trial, try_seeds
from resprout.trace.store import Recorder, TraceWriter
from resprout.trace.summary import summarize

SEEDS: Final = 200


@click.command()
@scenario_arguments
def sim(
    scenario: Path | None,
    draw: int | None,
    folder: Path | None,
    stack: str | None,
    seed: int | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> int:
    """Run SCENARIO in virtual time.

    The same scenario and seed give the same trace, to the last byte, on any machine. Exit status 1 when the run did not
    come to rest before its time limit.
    """
    chosen = choose_scenario(scenario, draw, stack, seed, overrides)
    if draw is not None and not as_json:
        tell_lines(describe(chosen).split("\n"))
    writer = TraceWriter(folder) if folder is not None else None  # first: a folder that will not do is found out now
    result = run_scenario(chosen, Recorder())
    if writer is not None:
        writer.write(result.rows)
        writer.finish(run_info(chosen, result.ended, result.traffic))
    say(RunOutcome(chosen, result.ended, result.digest, folder, summarize(result.rows), "virtual"), as_json)
    return 0 if result.ended == "quiescent" else 1


@click.command()
@click.option("--seeds", type=click.IntRange(1), default=SEEDS, show_default=True, metavar="N", help="Scenarios.")
@click.option("--first", type=click.IntRange(0), default=1, show_default=True, metavar="SEED", help="The first seed.")
@click.option("--class", "wanted", default=ANY, show_default=True, metavar="NAME", help="Kind of scenario.")
@click.option("--stack", default=DEFAULT_STACK, show_default=True, metavar="NAME", help="Which protocol to try.")
@click.option(
    "--set", "overrides", multiple=True, metavar="OPTION=VALUE", help="An option of the stack that is not drawn."
)
@click.option("--workers", type=click.IntRange(1, 256), default=1, show_default=True, metavar="N", help="Processes.")
@click.option("--no-invariants", is_flag=True, help="Do not check the state of brokers on the way; a fifth less time.")
@click.option("--write", "file", type=LocalPath(), metavar="FILE", help="Write the scenario of the first seed as TOML.")
def swarm(
    seeds: int,
    first: int,
    wanted: str,
    stack: str,
    overrides: tuple[str, ...],
    workers: int,
    no_invariants: bool,
    file: Path | None,
) -> int:
    """Draw scenarios from seeds, run them in virtual time and judge them.

    A scenario has only faults that its stack declares to survive, so every promise has to hold. For a failure the
    command prints the scenario and the command that repeats it. --write writes a file for `resprout sim`; faults that
    strike after an event get the time of that event, which is nearly the same. Exit status 1 if a scenario failed.

    With the default stack, the command also checks the invariants of docs/protocol.md in every broker while it runs.
    The report names the step that breaks one.

    Classes of the default stack are faults, thin-links, in-turn, totals, doubled-clients, doubled-names, blackout,
    consumers, cut-repairs, disks, hung, kv, logs, slow-links, moved-clocks, moves, mqtt, newcomers, producers, queues,
    restarts, retained, rolling, scoped-totals, spilling and unread; any draws the class, too. Other stacks have faults
    only.
    """
    fixed = parse_source("", "--set").overridden(overrides).tree
    check_drawn(wanted, stack, fixed)
    if file is not None:
        _write(file, first, wanted, stack, fixed)
    begin, period = time.monotonic(), 0 if no_invariants else PERIOD
    failed: list[int] = []
    told: list[int] = []
    outcomes = try_seeds(range(first, first + seeds), workers, wanted, stack, period, fixed)
    for number, outcome in enumerate(outcomes, 1):
        overwrite(f"{number} of {seeds}, {len(failed)} failed")
        if outcome.told:
            told.append(outcome.told)
        if outcome.failed:
            failed.append(outcome.seed)
            overwrite("")
            tell_lines((*outcome.report.split("\n"), ""))
    overwrite("")
    named = f" ({', '.join(map(str, failed))})" if failed else ""
    if told:
        tell(f"clients missed {sum(told)} messages in {len(told)} runs, and were told")
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
