"""Questions to all brokers of a tree.

`resprout status`: the whole tree, as its brokers report it. `resprout who`: which clients receive a publication on a
topic. `resprout trace`: where one publication went. `top` shares the lines about brokers.
"""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import click
import msgspec

from resprout.cli.arguments import address_of_peer
from resprout.cli.console import tell_json, tell_lines
from resprout.cli.loop import run_loop
from resprout.cli.server import Access, access_arguments, read_login_file
from resprout.client.connect import read_keyring
from resprout.core.errors import NoBrokerError, UsageError, needed_for
from resprout.core.limits import check_name, check_topic
from resprout.core.message import MessageId
from resprout.net.accounts import BrokerAccount, MissingBroker, PassageAnswer, TopicAnswer, TreeSurvey
from resprout.net.discover import UnreachableError
from resprout.net.identity.proofs import LoginSecret
from resprout.net.identity.scram import read_login
from resprout.net.survey import PASSAGE, READERS, Asker, PublicationWay, ask_all, parse_id, survey

BITE: Final = 1024
INDENT_MAX: Final = 300
"""Letters before a broker that is far below the root: deeper ones stand on one level."""
NEWS_MAX: Final = 1_000
"""Lines about the tree, besides those of its brokers."""

LIMIT: Final = "is the limit"
"""In the reasons of refusals that a limit is the cause of."""

Node = BrokerAccount | MissingBroker


@click.command()
@access_arguments
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def status(access: Access, as_json: bool) -> int:
    """Show the tree that a broker is in: names, addresses, lives, clients, rates and repairs.

    \b
        resprout status
        resprout status --tls certs --login teller.login

    The command asks every broker, so all of them must be reachable. On the broker's own machine every process may ask.
    From elsewhere the caller needs a certificate, or an identity that may `observe` or `operate`.

    Notices follow the tree: `safe` means fewer than f + 1 copies, a broker of this network is in another one, a log has
    no leader, or a replica is behind. Exit status 1 if there is a notice, or a broker does not answer.
    """
    found = run_loop(AskingCommand(access).survey())
    if as_json:
        tell_json(found)
    else:
        from resprout.cli.logs import log_line, log_views  # it asks with what is here

        logs = [log_line(view) for view in log_views(found)]
        tell_lines((heading(found), *tree_lines(found), *logs, *news_lines(found)))
    return 1 if found.notices or found.missing else 0


class AskingCommand:
    """A command that queries brokers under the name of its user."""

    def __init__(self, access: Access) -> None:
        self._addresses = [address_of_peer(one.strip()) for one in access.server.split(",")]
        login = read_login_file(access.login)
        known = LoginSecret(*read_login(login)) if login is not None else None
        kind = f"{known.name}." if known is not None else "operator-"
        name = check_name(access.name or f"{kind}{secrets.token_hex(6)}", "client name")
        self.asker = Asker(name, "client", read_keyring(access.tls, access.name), known)

    async def first(self) -> BrokerAccount:
        """Return the account of the first address that answers; NoBrokerError when none does."""
        failures = []
        for address in self._addresses:
            try:
                return await self.asker.account(address)
            except UnreachableError as error:
                failures.append(str(error))
        raise NoBrokerError("; ".join(failures))

    async def survey(self) -> TreeSurvey:
        return await survey(self.asker, await self.first())


def size(count: int) -> str:
    """Of so many bytes, short."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB"):
        if amount < BITE:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= BITE
    return f"{amount:.1f} GiB"


def counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def heading(survey: TreeSurvey) -> str:
    brokers = survey.brokers
    is_serving = any(one.ready for one in brokers)  # only the default stack gives its networks names
    network = f"network {survey.network}, " if survey.network else "" if is_serving else "no network yet, "
    silent = f", {len(survey.missing)} without an answer" if survey.missing else ""
    return (
        f"{network}stack {brokers[0].stack}: {counted(len(brokers), 'broker')}{silent},"
        f" {counted(sum(one.clients_count for one in brokers), 'client')},"
        f" {sum(one.rates.publications for one in brokers):.1f} publications/s,"
        f" {sum(one.rates.deliveries for one in brokers):.1f} deliveries/s"
    )


def tree_lines(survey: TreeSurvey) -> list[str]:
    """Children below their parents; all on one level where there is no tree."""
    nodes: dict[str, Node] = {one.name: one for one in survey.brokers}
    nodes.update({one.name: one for one in survey.missing})
    children: dict[str | None, list[str]] = {}
    for name, node in nodes.items():
        parent = node.parent
        above = parent if isinstance(parent, str) and parent in nodes and parent != name else None
        children.setdefault(above, []).append(name)
    tops = sorted(children.get(None, []))
    lines = [line for name in tops for line in _branch(name, nodes, children)]
    return (
        lines if len(lines) >= len(nodes) else [*lines, *[_line(node) for node in nodes.values()]]
    )  # a circle of parents


def news_lines(survey: TreeSurvey) -> list[str]:
    """Repairs that go on, limits that clients have come up against, and what people should know."""
    repairs = dict.fromkeys(
        [
            f"{repair.by or 'no broker yet'} repairs {', '.join(repair.dead)}"
            for one in survey.brokers
            for repair in one.repairs
        ]
    )
    silent = [
        f"{one.name} does not hear {', '.join(names)}"
        for one in survey.brokers
        if (names := [other.name for other in one.neighbours if other.silent])
    ]
    limits = [
        f"{one.name} has refused {counted(count, 'request')}: {reason}"
        for one in survey.brokers
        for reason, count in sorted(one.counters.refusals.items())
        if LIMIT in reason
    ]
    lines = [*repairs, *silent, *limits, *survey.notices]
    more = [f"and {len(lines) - NEWS_MAX} more lines, which --json shows"] if len(lines) > NEWS_MAX else []
    return [*lines[:NEWS_MAX], *more]


def _branch(top: str, nodes: Mapping[str, Node], children: Mapping[str | None, Sequence[str]]) -> Iterator[str]:
    """The lines of a broker and of all below it, however deep."""
    rest = [(top, "", "")]
    while rest:
        name, first, indent = rest.pop()
        yield first + _line(nodes[name])
        indent = indent[:INDENT_MAX]
        below = sorted(children.get(name, ()), reverse=True)
        rest += [
            (child, indent + ("├─ " if place else "└─ "), indent + ("│  " if place else "   "))
            for place, child in enumerate(below)
        ]


def _line(node: Node) -> str:
    if isinstance(node, MissingBroker):
        return f"{node.name}  {'dead' if node.dead else 'no answer'}: {node.reason}"
    parts = [
        node.name, node.address, f"life {node.life}", counted(node.clients_count, "client"),
        f"{node.rates.publications:.1f}/s in", f"{node.rates.deliveries:.1f}/s out",
        f"{node.rates.carried + node.rates.passed_on:.1f}/s through",
    ]  # fmt: skip
    if node.mqtt is not msgspec.UNSET and node.mqtt.sessions:
        parts.append(f"{node.mqtt.sessions} of them MQTT")
    if node.queue_bytes:
        parts.append(f"queue {size(node.queue_bytes)}")
    if node.log_bytes is not msgspec.UNSET and node.log_bytes:
        parts.append(f"log {size(node.log_bytes)}")
    if node.spill is not msgspec.UNSET and node.spill.bytes:
        parts.append(f"on disk {size(node.spill.bytes)}")
    parts += [
        f"{store.name} disk {store.state}, {size(max(0, store.free_bytes))} free"
        for store in node.stores
        if store.state != "ok" and store.name != "spill"
    ]
    if node.site is not msgspec.UNSET:
        parts.append(f"site {node.site}")
    parts += node.roles
    if not node.ready:
        parts.append("not ready")
    return "  ".join(parts)


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
    roles: dict[str, tuple[str, ...]] = {}
    """Where topics have them: the brokers that are its `owner`, its `leader`, and `holder` of its log."""
    protocols: dict[str, str] = {}
    """Of clients that speak another protocol than that of this package, such as "MQTT 5"."""


@click.command()
@click.argument("topic")
@access_arguments
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def who(topic: str, access: Access, as_json: bool) -> int:
    """Show who receives a publication on TOPIC that is published at --server: clients, and the brokers on the way.

    \b
        resprout who bank/accounts/7

    Where topics have an owner, a leader and holders of their logs, as in the stack `scribe`, these are named.
    Clients whose subscription has a condition are marked: whether they receive it depends on its attributes. Nothing is
    published. Exit status 1 when no client receives it.
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
    roles = {role: tuple([one.broker for one in told if role in one.roles]) for one in told for role in one.roles}
    count = sum(len(one.clients) for one in receivers)
    named = {name for one in receivers for name in (*one.clients, *one.conditional)}
    protocols = {
        client.name: client.protocol
        for broker in found.brokers
        for client in broker.clients
        if client.protocol and client.name in named
    }
    return TopicReceivers(topic, found.name, receivers, count, tuple(unanswered), roles, protocols)


def _paths(found: TreeSurvey, answers: Mapping[str, TopicAnswer]) -> list[Sequence[str]]:
    """To every broker that a publication comes to, and has readers or passes it on. Where the stack does not say whom
    it would pass it to, it is the way through neighbours to each that has readers. Where the topic has a leader, a
    publication goes there first."""
    beside = {one.name: [peer.name for peer in one.neighbours if peer.neighbour] for one in found.brokers}
    paths: dict[str, tuple[str, ...]] = {found.name: (found.name,)}
    line = [found.name]
    leaders = [name for name, answer in answers.items() if "leader" in answer.roles]
    if leaders:
        line = leaders[:1]
        paths = {name: (name,) if name == found.name else (found.name, name) for name in line}
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
    if found.roles:
        lines.append("; ".join([f"{role} {', '.join(names)}" for role, names in sorted(found.roles.items())]))
    for one in found.brokers:
        clients = ", ".join([_called(name, found) for name in one.clients]) or "no client"
        conditional = ", ".join([_called(name, found) for name in one.conditional])
        maybe = f"; if attributes fit: {conditional}" if one.conditional else ""
        lines.append(f"{' > '.join(one.path)}  {clients}{maybe}")
    return [*lines, *[f"not asked: {line}" for line in found.unanswered]]


def _called(client: str, found: TopicReceivers) -> str:
    protocol = found.protocols.get(client)
    return f"{client} ({protocol})" if protocol else client


@click.command()
@click.argument("id", metavar="ID")
@access_arguments
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--otlp", metavar="URL", help="Send it as spans to a collector of OpenTelemetry, as http://localhost:4318."
)
@click.option("--traceparent", metavar="TEXT", help="With --otlp: the trace that they join, as its attribute says.")
def trace(id: str, access: Access, as_json: bool, otlp: str | None, traceparent: str | None) -> int:
    """Show the path of the publication ID: the brokers that saw it, when, and the clients that got it.

    \b
        resprout pub news/today 'it rains' --verbose
        resprout trace teller.1234/ordered:7

    `resprout pub --verbose` prints the ID; it is also `id` in the output of `resprout sub --json`, and
    `str(receipt.id)` or `str(message.id)` in a program. Each broker remembers the latest 4096 bundles, and fewer
    above 4,000 steps in a second. Times come from the clock of each broker. Exit status 1 if no broker remembers the
    publication, or the collector refuses it.
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
    with needed_for("--otlp"):
        from resprout.telemetry import endpoint_of, read_traceparent, send, spans_of
    endpoint = endpoint_of(otlp)
    if traceparent is not None:
        read_traceparent(traceparent)
    return lambda way: send(spans_of(way, traceparent), endpoint)


async def _ask_passages(id: MessageId, asking: AskingCommand) -> PublicationWay:
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
