"""`resprout audit`: judges traces and archives; prints the verdicts for people or as JSON. Both forms are stable."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

from resprout.audit.verdict import CLEAN, SHOWN_PER_RULE, UNFINISHED, VIOLATED, Anomaly, Verdict, as_dict, lines
from resprout.cli.arguments import RunsPath, spark_options
from resprout.cli.console import tell, tell_json, tell_lines
from resprout.cli.terminal import shown
from resprout.core.errors import UsageError
from resprout.pipeline.errors import NoSparkError
from resprout.pipeline.places import RunPlace, check_not_empty, find_runs, is_archive
from resprout.pipeline.python_judge import judge_here
from resprout.pipeline.session import SparkChoice, is_worth_spark, session
from resprout.pipeline.stores import Location

ENGINES = ("python", "spark")


@click.command()
@click.argument("folders", type=RunsPath(), nargs=-1, required=True, metavar="DIR...")
@click.option(
    "--engine", metavar="NAME", help="What does the judging: python or spark. Default: by the number of rows."
)
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as one JSON object.")
@spark_options
def audit(folders: "tuple[Location, ...]", engine: str | None, as_json: bool, spark: SparkChoice) -> int:
    """Judge the trace in DIR, or all runs of the archive in DIR: every promise checked, every violation explained.

    Both engines give the same verdicts; spark is for what is too much for one core, and takes seconds to start. Exit
    status 1 when a promise was broken, or a run met its time limit before it came to rest.
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
    with shown("judged") as bar:
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
