"""What the commands that talk to a broker have in common: where it is, who asks, and what its refusals mean."""

import functools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from resprout.cli.arguments import LocalPath, address_of_peer
from resprout.client.client import Client
from resprout.client.connect import connect
from resprout.client.errors import ConnectError, OnEvent
from resprout.core.errors import NoBrokerError, UsageError
from resprout.net.address import DEFAULT_PORT
from resprout.net.identity.scram import read_login

CONNECT_SECONDS: Final = 10.0

server_option: Final = click.option(
    "--server", "-s", metavar="HOST:PORT[,...]", default=[f"localhost:{DEFAULT_PORT}"], envvar="RESPROUT_SERVER",
    multiple=True, callback=lambda context, parameter, given: ",".join(given),
    show_default=True, show_envvar=True, help="The broker to talk to; several are tried in turn.",
)  # fmt: skip

tls_option: Final = click.option(
    "--tls", type=LocalPath(), metavar="DIR", envvar="RESPROUT_TLS", show_envvar=True,
    help="Speak TLS: a folder with ca.pem, and with the certificate of --name if it has one.",
)  # fmt: skip


def count_option(text: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    return click.option("--count", "-n", type=click.IntRange(1), metavar="N", help=text)


verbose_option: Final = click.option("--verbose", "-v", is_flag=True, help="Report progress on standard error.")

_DECORATORS: Final = (
    server_option,
    tls_option,
    click.option(
        "--login", type=LocalPath(), metavar="FILE", envvar="RESPROUT_LOGIN", show_envvar=True,
        help="A file with NAME:SECRET, for brokers that have rules.",
    ),
    click.option("--name", metavar="NAME", help="Name of this client in the network.  [default: a random one]"),
)  # fmt: skip


class Access(msgspec.Struct, frozen=True):
    """Where to go, and as whom."""

    server: str
    tls: Path | None
    login: Path | None
    name: str | None


def access_arguments(function: Callable[..., int]) -> Callable[..., int]:
    """The command is given them as one, `access`."""

    @functools.wraps(function)
    def gathered(*, server: str, tls: Path | None, login: Path | None, name: str | None, **others: Any) -> int:
        return function(access=Access(server, tls, login, name), **others)

    for decorator in reversed(_DECORATORS):
        gathered = decorator(gathered)
    return gathered


@asynccontextmanager
async def connected(access: Access, on_event: OnEvent | None = None) -> AsyncIterator[Client]:
    """Connect to the first broker that serves; NoBrokerError when none does."""
    addresses = [str(address_of_peer(one.strip())) for one in access.server.split(",")]
    try:
        client = await connect(
            addresses, name=access.name, timeout=CONNECT_SECONDS, tls=access.tls, login=read_login_file(access.login),
            on_event=on_event,
        )  # fmt: skip
    except ConnectError as error:
        raise NoBrokerError(f"cannot connect to {error}") from None
    try:
        yield client
    finally:
        await client.close()


def read_login_file(login: Path | None) -> str | None:
    if login is None:
        return None
    try:
        text = login.read_text()
        read_login(text)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"--login {login}: {getattr(error, 'strerror', None) or 'it is no text'}") from None
    except UsageError as error:
        raise UsageError(f"--login {login}: {error}") from None
    return text
