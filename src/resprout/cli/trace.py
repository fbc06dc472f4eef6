"""`resprout trace`: where a publication went."""

import time
from collections.abc import Callable

import click
import msgspec

from resprout.cli.asking import AskingCommand
from resprout.cli.console import tell_json, tell_lines
from resprout.cli.loop import run_loop
from resprout.cli.server import Access, access_arguments
from resprout.core.errors import UsageError
from resprout.net.account.answering import PASSAGE, PublicationId, parse_id
from resprout.net.account.survey import ask_all
from resprout.net.account.values import PassageAnswer
from resprout.net.account.way import PublicationWay


@click.command()
@click.argument("id", metavar="ID")
@access_arguments
@click.option("--json", "as_json", is_flag=True, help="Print it as one JSON object.")
@click.option(
    "--otlp", metavar="URL", help="Send it as spans to a collector of OpenTelemetry, as http://localhost:4318."
)
@click.option("--traceparent", metavar="TEXT", help="With --otlp: the trace that they join, as its attribute says.")
def trace(id: str, access: Access, as_json: bool, otlp: str | None, traceparent: str | None) -> int:
    """Show where the publication ID went: at which brokers it was seen, when, and to whom it was given.

    \b
        resprout trace "('teller', 1234, 'ordered', 7)" --server b0.example:7450
        resprout trace teller.1234/ordered:7

    ID is what `resprout pub --verbose` prints, the `id` of a line of `resprout sub --json`, and what `receipt.id` and
    `message.id` are in a program. Each broker remembers the latest 4096 bundles that passed
    it, while there were less than some thousand in a second. Times are those of each broker's own clock. Exit status 1
    when nobody remembers it, or the collector does not take it.
    """
    send = _sender(otlp, traceparent)
    found = run_loop(_ask(parse_id(id), AskingCommand(access)))
    if as_json:
        tell_json(found)
    else:
        tell_lines(_lines(found))
    if found.brokers:
        send(found)
    return 0 if found.brokers else 1


def _sender(otlp: str | None, traceparent: str | None) -> Callable[[PublicationWay], None]:
    """UsageError for what cannot be sent, before anybody is asked."""
    if otlp is None:
        if traceparent is not None:
            raise UsageError("--traceparent says which trace spans join: give --otlp URL, where they go")
        return lambda way: None
    try:
        from resprout.telemetry import read_traceparent, send, spans_of
        from resprout.telemetry.otlp import endpoint_of
    except ModuleNotFoundError:
        raise UsageError("--otlp needs OpenTelemetry: pip install 'resprout[otel]'") from None
    endpoint = endpoint_of(otlp)
    if traceparent is not None:
        read_traceparent(traceparent)
    return lambda way: send(spans_of(way, traceparent), endpoint)


async def _ask(id: PublicationId, asking: AskingCommand) -> PublicationWay:
    found = await asking.survey()
    unanswered = [f"{one.name}: {one.reason}" for one in found.missing]
    about = msgspec.json.encode(id).decode()
    told = await ask_all(asking.asker, found.brokers, PassageAnswer, PASSAGE, about, unanswered.append)
    seen = sorted((one for one in told if one.found), key=_first_seen)
    return PublicationWay(id, tuple(seen), tuple(unanswered))


def _first_seen(one: PassageAnswer) -> float:
    return one.time if isinstance(one.time, float) else 0.0


def _lines(found: PublicationWay) -> list[str]:
    if not found.brokers:
        return [f"{found.name} is not remembered by anybody", *_unasked(found)]
    first = found.brokers[0]
    return [f"{found.name} on {first.topic}, {first.guarantee}", *map(_line, found.brokers), *_unasked(found)]


def _unasked(found: PublicationWay) -> list[str]:
    return [f"not asked: {line}" for line in found.unanswered]


def _line(one: PassageAnswer) -> str:
    since = _first_seen(one)
    at = f"{time.strftime('%H:%M:%S', time.localtime(since))}.{int(since % 1 * 1_000_000):06d}"
    parts = [f"from {'its publisher ' if one.published_here else ''}{one.came_from}"]
    if one.passed_to:
        parts.append(f"to {', '.join(one.passed_to)}{_after(one.passed_time, since)}")
    if one.given:
        more = f" and {one.given - len(one.readers)} more" if one.given > len(one.readers) else ""
        parts.append(f"given to {', '.join(one.readers)}{more}{_after(one.shown_time, since)}")
    if one.safe_time is not msgspec.UNSET:
        parts.append(f"safe{_after(one.safe_time, since)}")
    if one.delivered_time is not msgspec.UNSET:
        parts.append(f"delivered{_after(one.delivered_time, since)}")
    return f"{one.broker}  {at}  {'; '.join(parts)}"


def _after(then: float | msgspec.UnsetType, since: float) -> str:
    return f" after {max(0.0, (then - since) * 1000):.1f} ms" if isinstance(then, float) else ""
