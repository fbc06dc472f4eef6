"""`resprout who`: which clients receive a publication on a topic. `resprout trace`: where one publication went."""

import time
from collections.abc import Callable, Mapping, Sequence

import click
import msgspec

from resprout.cli.console import tell_json, tell_lines
from resprout.cli.loop import run_loop
from resprout.cli.server import Access, access_arguments
from resprout.cli.status import AskingCommand, counted
from resprout.core.errors import UsageError
from resprout.core.names import check_topic
from resprout.net.accounts import PassageAnswer, TopicAnswer, TreeSurvey
from resprout.net.survey import PASSAGE, READERS, PublicationId, PublicationWay, ask_all, parse_id


class ReceivingBroker(msgspec.Struct, frozen=True):
    """A broker that a publication comes to."""

    broker: str
    path: tuple[str, ...]
    """From the broker where it would be published, both included."""
    clients: tuple[str, ...]
    conditional: tuple[str, ...]
    """Clients that get it if its attributes fit."""


class TopicReceivers(msgspec.Struct, frozen=True):
    topic: str
    published_at: str
    brokers: tuple[ReceivingBroker, ...]
    clients: int
    unanswered: tuple[str, ...]
    """Brokers that were not asked, or did not answer, and why."""


@click.command()
@click.argument("topic")
@access_arguments
@click.option("--json", "as_json", is_flag=True, help="Print it as one JSON object.")
def who(topic: str, access: Access, as_json: bool) -> int:
    """Show who receives a publication on TOPIC that is published at --server: clients, and the brokers on the way.

    \b
        resprout who bank/accounts/7 --server b0.example:7450

    Clients whose subscription has a condition are shown as such: whether they get it depends on its attributes. Nothing
    is published. Exit status 1 when nobody receives it.
    """
    check_topic(topic)
    found = run_loop(_ask_readers(topic, AskingCommand(access)))
    if as_json:
        tell_json(found)
    else:
        tell_lines(_reader_lines(found))
    return 0 if any(one.clients or one.conditional for one in found.brokers) else 1


async def _ask_readers(topic: str, asking: AskingCommand) -> TopicReceivers:
    found = await asking.survey()
    unanswered = [f"{one.name}: {one.reason}" for one in found.missing]
    told = await ask_all(asking.asker, found.brokers, TopicAnswer, READERS, topic, unanswered.append)
    answers = {one.broker: one for one in told}
    receivers = tuple(
        [
            ReceivingBroker(path[-1], tuple(path), answers[path[-1]].clients, answers[path[-1]].conditional)
            for path in _paths(found, answers)
        ]
    )
    return TopicReceivers(topic, found.name, receivers, sum(len(one.clients) for one in receivers), tuple(unanswered))


def _paths(found: TreeSurvey, answers: Mapping[str, TopicAnswer]) -> list[Sequence[str]]:
    """To every broker that a publication comes to, and has readers or passes it on. Where the stack does not say whom
    it would pass it to, it is the way through neighbours to each that has readers."""
    beside = {one.name: [peer.name for peer in one.neighbours if peer.neighbour] for one in found.brokers}
    paths: dict[str, tuple[str, ...]] = {found.name: (found.name,)}
    line = [found.name]
    for name in line:
        answer = answers.get(name)
        onward = answer.onward if answer is not None else msgspec.UNSET
        for other in beside.get(name, []) if onward is msgspec.UNSET else onward:
            if other not in paths and other in answers:
                paths[other] = (*paths[name], other)
                line.append(other)
    wanted = {name for name in paths if name in answers and (answers[name].clients or answers[name].conditional)}
    on_the_way = {name for target in wanted for name in paths[target]}
    return [paths[name] for name in line if name in on_the_way and name in answers]


def _reader_lines(found: TopicReceivers) -> list[str]:
    lines = [f"{found.topic}, published at {found.published_at}: {counted(found.clients, 'client')}"]
    for one in found.brokers:
        clients = ", ".join(one.clients) or "nobody"
        maybe = f"; if attributes fit: {', '.join(one.conditional)}" if one.conditional else ""
        lines.append(f"{' > '.join(one.path)}  {clients}{maybe}")
    return [*lines, *[f"not asked: {line}" for line in found.unanswered]]


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
    found = run_loop(_ask_passages(parse_id(id), AskingCommand(access)))
    if as_json:
        tell_json(found)
    else:
        tell_lines(_passage_lines(found))
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
        from resprout.telemetry import endpoint_of, read_traceparent, send, spans_of
    except ModuleNotFoundError:
        raise UsageError("--otlp needs OpenTelemetry: pip install 'resprout[otel]'") from None
    endpoint = endpoint_of(otlp)
    if traceparent is not None:
        read_traceparent(traceparent)
    return lambda way: send(spans_of(way, traceparent), endpoint)


async def _ask_passages(id: PublicationId, asking: AskingCommand) -> PublicationWay:
    found = await asking.survey()
    unanswered = [f"{one.name}: {one.reason}" for one in found.missing]
    about = msgspec.json.encode(id).decode()
    told = await ask_all(asking.asker, found.brokers, PassageAnswer, PASSAGE, about, unanswered.append)
    seen = sorted((one for one in told if one.found), key=_first_seen)
    return PublicationWay(id, tuple(seen), tuple(unanswered))


def _first_seen(one: PassageAnswer) -> float:
    return one.time if isinstance(one.time, float) else 0.0


def _passage_lines(found: PublicationWay) -> list[str]:
    if not found.brokers:
        return [f"{found.name} is not remembered by anybody", *_unasked(found)]
    first = found.brokers[0]
    return [f"{found.name} on {first.topic}, {first.guarantee}", *map(_passage_line, found.brokers), *_unasked(found)]


def _unasked(found: PublicationWay) -> list[str]:
    return [f"not asked: {line}" for line in found.unanswered]


def _passage_line(one: PassageAnswer) -> str:
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
