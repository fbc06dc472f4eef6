"""`resprout status`: the whole tree, as its brokers report it; and what `top`, `who` and `trace` share with it."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import click
import msgspec

from resprout.cli.arguments import address_of_peer
from resprout.cli.console import tell_json, tell_lines
from resprout.cli.loop import run_loop
from resprout.cli.server import Access, access_arguments, read_login_file
from resprout.client.connect import read_keyring
from resprout.core.errors import UsageError
from resprout.core.names import check_name
from resprout.net.accounts import BrokerAccount, MissingBroker, TreeSurvey
from resprout.net.discover import UnreachableError
from resprout.net.identity.proofs import LoginSecret
from resprout.net.identity.scram import read_login
from resprout.net.survey import Asker, survey

BITE: Final = 1024

LIMIT: Final = "is the limit"
"""In the reasons of refusals that a limit is the cause of."""

Node = BrokerAccount | MissingBroker


@click.command()
@access_arguments
@click.option("--json", "as_json", is_flag=True, help="Print it as one JSON object.")
def status(access: Access, as_json: bool) -> int:
    """Show the tree that a broker is in: names, addresses, lives, clients, rates, and who repairs whom.

    \b
        resprout status --server b0.example:7450
        resprout status --server b0.example:7450 --tls certs --login operator.login

    Every broker is asked by itself, so all of them must be in reach. On this machine everybody may ask; from elsewhere
    only who has a certificate, or whom the rules let `observe` or `operate`.

    A notice tells that what is called safe rests on fewer than f + 1 brokers, or that a broker once known here is in
    another network. Exit status 1 when there is a notice, or a broker that does not answer.
    """
    found = run_loop(AskingCommand(access).survey())
    if as_json:
        tell_json(found)
    else:
        tell_lines((heading(found), *tree_lines(found), *news_lines(found)))
    return 1 if found.notices or found.missing else 0


class AskingCommand:
    """Asks in the name of whoever runs the command."""

    def __init__(self, access: Access) -> None:
        self._addresses = [address_of_peer(one.strip()) for one in access.server.split(",")]
        login = read_login_file(access.login)
        known = LoginSecret(*read_login(login)) if login is not None else None
        kind = f"{known.name}." if known is not None else "operator-"
        name = check_name(access.name or f"{kind}{secrets.token_hex(6)}", "client name")
        self.asker = Asker(name, "client", read_keyring(access.tls, access.name), known)

    async def first(self) -> BrokerAccount:
        """Of the first address where somebody tells; UsageError when nobody does."""
        failures = []
        for address in self._addresses:
            try:
                return await self.asker.account(address)
            except UnreachableError as error:
                failures.append(str(error))
        raise UsageError("; ".join(failures))

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
    lines = [line for name in tops for line in _branch(name, nodes, children, "", "")]
    return (
        lines if len(lines) >= len(nodes) else [*lines, *[_line(node) for node in nodes.values()]]
    )  # a circle of parents


def news_lines(survey: TreeSurvey) -> list[str]:
    """Repairs that go on, limits that clients have come up against, and what people should know."""
    repairs = dict.fromkeys(
        [
            f"{repair.by or 'nobody yet'} repairs {', '.join(repair.dead)}"
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
    return [*repairs, *silent, *limits, *survey.notices]


def _branch(
    name: str, nodes: Mapping[str, Node], children: Mapping[str | None, Sequence[str]], first: str, rest: str
) -> Iterator[str]:
    yield first + _line(nodes[name])
    below = sorted(children.get(name, ()))
    for place, child in enumerate(below):
        last = place == len(below) - 1
        yield from _branch(child, nodes, children, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))


def _line(node: Node) -> str:
    if isinstance(node, MissingBroker):
        return f"{node.name}  {'dead' if node.dead else 'no answer'}: {node.reason}"
    parts = [
        node.name, node.address, f"life {node.life}", counted(node.clients_count, "client"),
        f"{node.rates.publications:.1f}/s in", f"{node.rates.deliveries:.1f}/s out",
        f"{node.rates.carried + node.rates.passed_on:.1f}/s through",
    ]  # fmt: skip
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
