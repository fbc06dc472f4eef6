"""`resprout who`: who receives a publication on a topic."""

from collections.abc import Mapping, Sequence

import click
import msgspec

from resprout.cli.asking import AskingCommand, counted
from resprout.cli.console import tell_json, tell_lines
from resprout.cli.loop import run_loop
from resprout.cli.server import Access, access_arguments
from resprout.core.names import check_topic
from resprout.net.account.answering import READERS
from resprout.net.account.survey import ask_all
from resprout.net.account.values import TopicAnswer, TreeSurvey


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
    found = run_loop(_ask(topic, AskingCommand(access)))
    if as_json:
        tell_json(found)
    else:
        tell_lines(_lines(found))
    return 0 if any(one.clients or one.conditional for one in found.brokers) else 1


async def _ask(topic: str, asking: AskingCommand) -> TopicReceivers:
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


def _lines(found: TopicReceivers) -> list[str]:
    lines = [f"{found.topic}, published at {found.published_at}: {counted(found.clients, 'client')}"]
    for one in found.brokers:
        clients = ", ".join(one.clients) or "nobody"
        maybe = f"; if attributes fit: {', '.join(one.conditional)}" if one.conditional else ""
        lines.append(f"{' > '.join(one.path)}  {clients}{maybe}")
    return [*lines, *[f"not asked: {line}" for line in found.unanswered]]
