"""`resprout sim`: a scenario in virtual time."""

from pathlib import Path

import click

from resprout.cli.console import tell_lines
from resprout.cli.outcome import RunOutcome, say
from resprout.cli.scenarios import choose_scenario, scenario_arguments
from resprout.scenario.describe import describe
from resprout.scenario.run_info import run_info
from resprout.sim.run import run_scenario
from resprout.trace.store import Recorder, TraceWriter
from resprout.trace.summary import summarize


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
