"""What the commands that talk to a broker have in common: where it is, who asks, and what its refusals mean."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import click

from resprout.cli.addresses import address_of_peer
from resprout.client.client import Client
from resprout.client.connect import connect
from resprout.client.errors import ConnectError
from resprout.core.errors import UsageError
from resprout.net.address import DEFAULT_PORT

F = TypeVar("F", bound=Callable[..., Any])

CONNECT_SECONDS: Final = 10.0

server_option: Final = click.option(
    "--server", metavar="HOST:PORT[,...]", default=f"localhost:{DEFAULT_PORT}", envvar="RESPROUT_SERVER",
    show_default=True, show_envvar=True, help="The broker to talk to; several are tried in turn.",
)  # fmt: skip

_DECORATORS: Final = (
    server_option,
    click.option("--name", metavar="NAME", help="Be known by this name in the network.  [default: a random one]"),
    click.option("--verbose", "-v", is_flag=True, help="Say on standard error what happens."),
)  # fmt: skip


def server_arguments(function: F) -> F:
    for decorator in reversed(_DECORATORS):
        function = decorator(function)
    return function


@asynccontextmanager
async def connected(server: str, name: str | None) -> AsyncIterator[Client]:
    """A client of the first broker that serves; UsageError when none does: then the addresses were wrong."""
    addresses = [str(address_of_peer(one.strip())) for one in server.split(",")]
    try:
        client = await connect(addresses, name=name, timeout=CONNECT_SECONDS)
    except ConnectError as error:
        raise UsageError(f"cannot connect to {error}") from None
    try:
        yield client
    finally:
        await client.close()
