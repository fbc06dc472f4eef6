"""`resprout run`: a scenario with real processes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from resprout.cli.arguments import LocalPath
from resprout.cli.console import tell, tell_lines
from resprout.cli.loop import run_loop, stopped_by_signals, unless_stopped
from resprout.cli.scenarios import RunOutcome, choose_scenario, say, scenario_arguments
from resprout.cli.terminal import progress_line
from resprout.cli.up import Story
from resprout.core.errors import ResproutError
from resprout.net.process import ProcessError
from resprout.net.run.coordinator import OnProgress, ProcessRunResult, RealRun
from resprout.net.run.exchange import ClientsProgress
from resprout.scenario.model import Scenario
from resprout.scenario.write import describe, run_info
from resprout.trace.schema import Row
from resprout.trace.store import LiveFolder, TraceWriter
from resprout.trace.summary import summarize

ENDS = ("quiescent", "timeout")


@click.command()
@scenario_arguments
@click.option(
    "--live",
    "live_folder",
    type=LocalPath(),
    metavar="FOLDER",
    help="Write the rows into this empty folder as they happen, for `resprout watch`.",
)
@click.option("--tls", type=LocalPath(), metavar="DIR", help="Speak TLS, with the certificates in this folder.")
def run(
    scenario: Path | None,
    draw: int | None,
    folder: Path | None,
    stack: str | None,
    seed: int | None,
    overrides: tuple[str, ...],
    as_json: bool,
    live_folder: Path | None,
    tls: Path | None,
) -> int:
    """Run SCENARIO with real processes over TCP on this machine, in real time.

    Each broker is a process, and so is each client (16 processes at most: then several clients share one). Latencies
    and cuts are emulated, bandwidths are not; crashes and freezes are signals. Faults and repairs are told as they
    happen. Exit status 1 when the run did not come to rest before its time limit, or when a process died that nobody
    killed.
    """
    chosen = choose_scenario(scenario, draw, stack, seed, overrides)
    if draw is not None and not as_json:
        tell_lines(describe(chosen).split("\n"))
    writer = TraceWriter(folder) if folder is not None else None
    live = LiveFolder(live_folder) if live_folder is not None else None
    result, trouble = run_loop(_run(chosen, not as_json, live, tls))
    if result is None:
        return 130
    if writer is not None:
        writer.write(result.rows)
        writer.finish(run_info(chosen, result.ended))
    if result.ended not in ENDS:
        raise ProcessError(result.ended)
    if trouble is not None:
        raise trouble
    say(RunOutcome(chosen, result.ended, result.digest, folder, summarize(result.rows), "real"), as_json)
    return 0 if result.ended == "quiescent" else 1


async def _run(
    scenario: Scenario, tells: bool, live: LiveFolder | None, tls: Path | None
) -> tuple[ProcessRunResult | None, ResproutError | None]:
    """The result, unless it was interrupted; and what is wrong with the live rows."""
    stop = stopped_by_signals()
    with _shown(scenario) as on_progress:

        def on_row(row: Row) -> None:
            if tells:
                story.hear(row.time_us, row.node, row.kind, row.detail)

        real = RealRun(scenario, on_progress, on_row=on_row, live=live, tls=tls)
        story = Story(scenario, tell, real.pid_of)
        return await unless_stopped(real.finish(), stop), real.live_trouble


@contextmanager
def _shown(scenario: Scenario) -> Iterator[OnProgress | None]:
    """How far the run is, on a terminal; nothing in a pipe, and nothing is left of it afterwards."""
    with progress_line(f"starting {len(scenario.brokers)} brokers and {len(scenario.clients)} clients") as line:

        def show(time_us: int, progress: ClientsProgress) -> None:
            assert line is not None
            line(
                f"{max(0, time_us) / 1e6:.1f} s: {progress.published} published, {progress.delivered} delivered,"
                f" {progress.pending} under way"
            )

        yield None if line is None else show
