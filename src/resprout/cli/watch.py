"""`resprout watch`: judges a run while it happens."""

import contextlib
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from resprout.audit.live.judge import as_dict, lines, was_judged
from resprout.audit.live.memory import LiveOptions
from resprout.audit.verdict import Anomaly
from resprout.cli.arguments import LocalPath, spark_options
from resprout.cli.console import tell, tell_json, tell_lines
from resprout.cli.loop import asked_to_end
from resprout.cli.terminal import TerminalConsole
from resprout.core.errors import UsageError
from resprout.pipeline import live_findings
from resprout.pipeline.live_findings import Finding, JudgeProgress, Violation, has_rows, wait_for_rows
from resprout.pipeline.live_stream import check_followable, follow
from resprout.pipeline.places import is_archive
from resprout.pipeline.session import SparkChoice, check_startable, session
from resprout.trace import kinds
from resprout.trace.store import INFO_NAME

SECONDS_MAX: Final = 1_000_000_000
"""Some thirty years: far from what a time in microseconds can hold."""


@click.command()
@click.argument("folder", type=LocalPath())
@click.option("--json", "as_json", is_flag=True, help="Print violations and the summary as JSON, one object a line.")
@click.option("--out", type=LocalPath(), metavar="DIR", help="Write violations here too, as JSON lines.")
@click.option("--checkpoint", type=LocalPath(), metavar="DIR", help="Keep what was judged here, to go on.")
@click.option("--lateness", type=click.FloatRange(min=0), default=2.0, show_default=True, metavar="SECONDS",
              help="Wait so long for rows of other processes.")  # fmt: skip
@click.option("--horizon", type=click.FloatRange(min=1), default=60.0, show_default=True, metavar="SECONDS",
              help="Remember so much of the run.")  # fmt: skip
@spark_options
def watch(
    folder: Path,
    as_json: bool,
    out: Path | None,
    checkpoint: Path | None,
    lateness: float,
    horizon: float,
    spark: SparkChoice,
) -> int:
    """Judge a run while it happens, from the rows that `resprout run --live FOLDER` writes.

    Each violation is printed as it shows, seconds after it happened, and a summary when the run is over or Ctrl-C is
    pressed. With a checkpoint, watching can be ended and taken up again. Exit status 1 when a promise was broken, 2
    when nothing came that could be judged.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder; `resprout run --live {folder}` makes it")
    _check_places(folder, {"--checkpoint": checkpoint, "--out": out})
    check_followable(folder)
    if not (lateness <= SECONDS_MAX and horizon <= SECONDS_MAX):  # also what is no number at all
        raise UsageError(f"--lateness and --horizon are numbers of seconds, at most {SECONDS_MAX}")
    horizon_us = round(horizon * 1e6)
    options = LiveOptions(
        lateness_us=round(lateness * 1e6), horizon_us=horizon_us, linger_us=min(LiveOptions().linger_us, horizon_us)
    )
    with _place_for(checkpoint) as place:
        teller = Teller(
            live_findings.Record(place, folder), live_findings.ViolationFiles(out) if out is not None else None, as_json
        )
        if not teller.over.is_set():
            check_startable(spark)
            if _rows_come(folder, teller.over):
                with _shown() as teller.show, session(spark) as running, asked_to_end(teller.over):
                    teller.show(f"reading {folder}")
                    follow(running, folder, place, teller.hear, options, teller.over)
                    teller.show("ending Spark")
    return teller.conclude()


def _rows_come(folder: Path, over: threading.Event) -> bool:
    """Not, when somebody has had enough of waiting for them."""
    with asked_to_end(over):
        if not has_rows(folder):
            waits = f"waiting for rows in {folder}: `resprout run --live {folder}` writes them, Ctrl-C ends"
            tell(waits, err=True)
        return wait_for_rows(folder, over)


def _check_places(folder: Path, others: Mapping[str, Path | None]) -> None:
    if (folder / INFO_NAME).exists() or is_archive(folder):
        raise UsageError(f"{folder}: no live rows, but runs that are over; `resprout audit {folder}` judges them")
    for option, place in others.items():
        if place is not None and place.resolve() == folder.resolve():
            raise UsageError(f"{option} {place}: the live rows are there; choose another folder")


class Teller:
    """Tells findings as they come; called on Spark's thread."""

    def __init__(self, told: live_findings.Record, files: live_findings.ViolationFiles | None, as_json: bool) -> None:
        self._record = told
        self._files = files
        self._as_json = as_json
        self._standing = told.told.standing
        self.over = threading.Event()
        """Set when there is nothing more to come."""
        self.show: Callable[[str], None] = lambda text: None
        if self._standing is not None and self._standing.ended:
            self.over.set()

    def hear(self, batch: int, findings: Sequence[Finding]) -> None:
        if not self._record.is_news(batch):
            return
        found = [finding.anomaly for finding in findings if isinstance(finding, Violation)]
        standing = next((finding for finding in findings if isinstance(finding, JudgeProgress)), None)
        for anomaly in found:
            self._say(anomaly)
        if self._files is not None:
            self._files.write(batch, found)
        self._record.tell(batch, standing)
        if standing is not None:
            self._standing = standing
            count = sum(standing.found.values())
            self.show(f"{standing.judged_us / 1e6:.1f} s judged: {standing.rows} rows, {count or 'no'} violations")
            if standing.ended:
                self.over.set()

    def conclude(self) -> int:
        """Prints the summary; the exit status."""
        standing = self._standing or JudgeProgress(0, 0, 0, 0, {"rows": 0}, {})
        if self._as_json:
            tell_json(as_dict(standing.counts, standing.found, standing.ended))
        else:
            tell_lines(lines(standing.counts, standing.found, standing.ended))
        if any(standing.found.values()) or standing.ended == kinds.TIMEOUT:
            return 1
        return 0 if was_judged(standing.counts, standing.found, standing.ended) else 2

    def _say(self, anomaly: Anomaly) -> None:
        line = f"{anomaly.time_us / 1e6:9.3f} s  {anomaly.rule}: {anomaly.explanation}"
        try:
            if self._as_json:
                tell_json(live_findings.as_dict(anomaly))
            else:
                tell(line)
        except BrokenPipeError:  # whoever read it has enough; the summary will notice too, where that can be handled
            self.over.set()


@contextlib.contextmanager
def _place_for(checkpoint: Path | None) -> Iterator[Path]:
    if checkpoint is None:
        with tempfile.TemporaryDirectory(prefix="resprout-watch-", ignore_cleanup_errors=True) as temporary:
            yield Path(temporary)
        return
    try:
        checkpoint.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--checkpoint {checkpoint}: {(error.strerror or str(error)).lower()}") from None
    yield checkpoint


@contextlib.contextmanager
def _shown() -> Iterator[Callable[[str], None]]:
    """A line that says how far the judge is, on a terminal only."""
    console = TerminalConsole(stderr=True, highlight=False)
    if not console.is_terminal or not sys.stderr.isatty():
        yield lambda text: None
        return
    with console.status("starting Spark") as status:
        yield status.update
