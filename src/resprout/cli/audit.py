"""`resprout audit`: judges traces and archives. `resprout watch`: judges a run while it happens.

Verdicts are printed for people or as JSON. Both forms are stable.
"""

import contextlib
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from resprout.audit.live.judge import live_as_dict, live_lines, was_judged
from resprout.audit.live.memory import LiveOptions
from resprout.audit.verdict import CLEAN, SHOWN_PER_RULE, UNFINISHED, VIOLATED, Anomaly, Verdict, as_dict, lines
from resprout.cli.arguments import LocalPath, RunsPath, spark_options
from resprout.cli.console import count_runs, progress_line, tell, tell_json, tell_lines
from resprout.cli.loop import asked_to_end
from resprout.core.errors import UsageError
from resprout.pipeline import live
from resprout.pipeline.errors import NoSparkError
from resprout.pipeline.live import Finding, JudgeProgress, Violation, check_followable, follow, has_rows, wait_for_rows
from resprout.pipeline.places import RunPlace, check_not_empty, find_runs, is_archive
from resprout.pipeline.python_judge import judge_here
from resprout.pipeline.session import SparkChoice, check_startable, is_worth_spark, session
from resprout.pipeline.stores import Location
from resprout.trace import kinds
from resprout.trace.store import INFO_NAME

ENGINES = ("python", "spark")

SECONDS_MAX: Final = 1_000_000_000
"""Some thirty years: far from what a time in microseconds can hold."""


@click.command()
@click.argument("folders", type=RunsPath(), nargs=-1, required=True, metavar="DIR...")
@click.option("--engine", metavar="NAME", help="The engine, python or spark. Default: by the number of rows.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as one JSON object.")
@spark_options
def audit(folders: "tuple[Location, ...]", engine: str | None, as_json: bool, spark: SparkChoice) -> int:
    """Judge the trace in DIR, or all runs of the archive in DIR, and explain every violation.

    Both engines give the same verdicts. `spark` uses several cores, and takes seconds to start. Exit status 1 if a run
    broke a promise, or met its time limit before it came to rest.
    """
    if engine is not None and engine not in ENGINES:
        raise UsageError(f"engine {engine!r} is not there; choose one of {', '.join(ENGINES)}")
    if engine == "python" and spark != SparkChoice():
        raise UsageError("--master and --conf are for --engine spark")
    places = find_runs(folders)
    check_not_empty(places, folders)
    verdicts = _judge(places, engine, spark)
    if len(folders) == 1 and not is_archive(folders[0]):
        _print(as_dict(verdicts[0]) if as_json else lines(verdicts[0]))
    else:
        _print(many_as_dict(places, verdicts) if as_json else lines_of_many(places, verdicts))
    return 0 if worst_status(verdicts) == CLEAN else 1


def _print(found: dict[str, Any] | Iterable[str]) -> None:
    if isinstance(found, dict):
        tell_json(found)
    else:
        tell_lines(found)


def _judge(places: Sequence[RunPlace], engine: str | None, choice: SparkChoice) -> list[Verdict]:
    if engine == "spark" or (engine is None and is_worth_spark(places, choice)):
        try:
            return _judge_on_spark(places, choice)
        except NoSparkError as error:
            if engine is not None or choice != SparkChoice():  # it was asked for
                raise
            tell(f"resprout: {error}; judged without it", err=True)
    with count_runs("judged") as bar:
        return judge_here(places, bar.show)


def _judge_on_spark(places: Sequence[RunPlace], choice: SparkChoice) -> list[Verdict]:
    from resprout.pipeline.judging import judge_runs  # here: it needs what only Spark needs

    with session(choice) as spark:
        return judge_runs(spark, places)


def lines_of_many(places: Sequence[RunPlace], verdicts: Sequence[Verdict]) -> Iterator[str]:
    """One line per run, then the anomalies of each, then what it comes to."""
    judged = list(zip(places, verdicts, strict=True))
    for place, verdict in judged:
        yield f"{place.name}: {lines(verdict)[-1]}"
    violated = [(place, verdict) for place, verdict in judged if verdict.violated]
    for place, verdict in violated:
        yield f"{place.name}:"
        yield from _anomalies(verdict)
    unfinished = sum(verdict.status == UNFINISHED for verdict in verdicts)
    deliveries = sum(verdict.counts["deliveries"] for verdict in verdicts)
    clean = f"{len(judged)} runs, {deliveries} deliveries"
    rest = f"; {unfinished} did not come to rest" if unfinished else ""
    yield f"{clean}: VIOLATED in {len(violated)} of them{rest}" if violated else f"{clean}: no violation{rest}"


def worst_status(verdicts: Iterable[Verdict]) -> str:
    """VIOLATED if one is, else UNFINISHED if one is, else CLEAN."""
    found = {verdict.status for verdict in verdicts}
    return next((status for status in (VIOLATED, UNFINISHED) if status in found), CLEAN)


def _anomalies(verdict: Verdict) -> Iterator[str]:
    by_rule: dict[str, list[Anomaly]] = {}
    for anomaly in verdict.anomalies:
        by_rule.setdefault(anomaly.rule, []).append(anomaly)
    for rule, found in by_rule.items():
        for anomaly in found[:SHOWN_PER_RULE]:
            yield f"    {rule}: {anomaly.explanation}"
        if (more := verdict.check(rule).anomalies - min(len(found), SHOWN_PER_RULE)) > 0:
            yield f"    {rule}: ... and {more} more"


def many_as_dict(places: Sequence[RunPlace], verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """JSON-able; each run as a single one, after its name."""
    return {
        "verdict": worst_status(verdicts),
        "runs": [
            {"experiment": place.experiment, "run": place.run, "digest": place.info.digest, **as_dict(verdict)}
            for place, verdict in zip(places, verdicts, strict=True)
        ],
    }


@click.command()
@click.argument("folder", type=LocalPath())
@click.option("--json", "as_json", is_flag=True, help="Print violations and the summary as JSON, one object a line.")
@click.option("--out", type=LocalPath(), metavar="DIR", help="Write violations here too, as JSON lines.")
@click.option("--checkpoint", type=LocalPath(), metavar="DIR", help="Store progress in this folder, to continue later.")
@click.option("--lateness", type=click.FloatRange(min=0), default=2.0, show_default=True, metavar="SECONDS",
              help="Longest delay of rows of other processes.")  # fmt: skip
@click.option("--horizon", type=click.FloatRange(min=1), default=60.0, show_default=True, metavar="SECONDS",
              help="Judge across this much of the run.")  # fmt: skip
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

    The command prints each violation within seconds, and a summary when the run ends or you press Ctrl-C. With
    --checkpoint, the same command continues after an interrupt. Exit status 1 if the run broke a promise, 2 if no row
    could be judged.
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
        teller = Teller(live.Record(place, folder), live.ViolationFiles(out) if out is not None else None, as_json)
        if not teller.over.is_set():
            check_startable(spark)
            if _rows_come(folder, teller.over):
                with progress_line("starting Spark") as line, session(spark) as running, asked_to_end(teller.over):
                    teller.show = line or teller.show
                    teller.show(f"reading {folder}")
                    follow(running, folder, place, teller.hear, options, teller.over)
                    teller.show("ending Spark")
    return teller.conclude()


def _rows_come(folder: Path, over: threading.Event) -> bool:
    """Wait for the first rows in a folder. Return False after an interrupt."""
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

    def __init__(self, told: live.Record, files: live.ViolationFiles | None, as_json: bool) -> None:
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
            tell_json(live_as_dict(standing.counts, standing.found, standing.ended))
        else:
            tell_lines(live_lines(standing.counts, standing.found, standing.ended))
        if any(standing.found.values()) or standing.ended == kinds.TIMEOUT:
            return 1
        return 0 if was_judged(standing.counts, standing.found, standing.ended) else 2

    def _say(self, anomaly: Anomaly) -> None:
        line = f"{anomaly.time_us / 1e6:9.3f} s  {anomaly.rule}: {anomaly.explanation}"
        try:
            if self._as_json:
                tell_json(live.as_dict(anomaly))
            else:
                tell(line)
        except BrokenPipeError:  # the reader has closed it; printing the summary fails, too, where that is handled
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
