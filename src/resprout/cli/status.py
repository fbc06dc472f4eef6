"""`resprout status`: what a broker says of itself."""

from pathlib import Path

import click
import msgspec

from resprout.cli.addresses import address_of_peer
from resprout.cli.loop import run_loop
from resprout.cli.server import server_option, tls_option
from resprout.client.connect import read_keyring
from resprout.core.errors import UsageError
from resprout.net.discover import UnreachableError, who_is
from resprout.net.frames import Here
from resprout.net.tls.keyring import Keyring

ANSWER_SECONDS = 5.0
ASKER = "resprout-status"


class Status(msgspec.Struct, frozen=True):
    name: str
    incarnation: int
    network: str
    notices: tuple[str, ...]


@click.command()
@server_option
@tls_option
@click.option("--json", "as_json", is_flag=True, help="Print it as one JSON object.")
def status(server: str, tls: Path | None, as_json: bool) -> int:
    """Ask a broker who it is, which network it is in, and what people should know about it.

    \b
        resprout status --server b0.example:7450

    A notice tells that what is called safe rests on fewer than f + 1 brokers, or that a broker once known here is in
    another network. Exit status 1 when there is a notice.
    """
    here = run_loop(_ask(server, read_keyring(tls, None)))
    told = Status(here.name, here.incarnation, here.network, here.notices)
    if as_json:
        click.echo(msgspec.json.encode(told))
    else:
        click.echo(f"{told.name}, life {told.incarnation}, {_network(told)}")
        for line in told.notices:
            click.echo(line)
    return 1 if told.notices else 0


def _network(told: Status) -> str:
    return f"in the network {told.network}" if told.network else "which has no place in a network yet"


async def _ask(server: str, keyring: Keyring | None) -> Here:
    try:
        here = await who_is(address_of_peer(server), ANSWER_SECONDS, ASKER, keyring=keyring)
    except UnreachableError as error:
        raise UsageError(str(error)) from None
    if here.role != "broker":
        raise UsageError(f"{server}: {here.name} is a {here.role}, not a broker")
    return here
