"""From an address to a connected client."""

import asyncio
import random
import secrets
from collections.abc import Generator

import msgspec

from resprout.client.client import Client
from resprout.client.errors import ConnectError
from resprout.core.contract import Answer, Note
from resprout.core.names import check_name
from resprout.edge.client import ClientMachine, ClientOptions
from resprout.edge.messages import CLIENT_MESSAGES
from resprout.edge.requests import SessionBegan, SessionLost
from resprout.links.links import Links
from resprout.links.options import LinkOptions
from resprout.net.address import Address, parse_address
from resprout.net.discover import UnreachableError, who_is
from resprout.net.frames import Here, make_codec
from resprout.net.host import Host, Upward
from resprout.net.incarnation import new_incarnation
from resprout.net.sessions import random_epoch, with_signs_of_life

CONNECT_SECONDS = 10.0

_CODEC = make_codec(CLIENT_MESSAGES)
_latest_incarnation = 0
"""Of all clients of this process: no two have the same, however fast they follow each other."""


def connect(
    address: str,
    *,
    name: str | None = None,
    timeout: float = CONNECT_SECONDS,
    options: ClientOptions | None = None,
    links: LinkOptions | None = None,
) -> "Connecting":
    """A client of the broker at `HOST:PORT`; use it with `async with`, or await it and close it yourself.

    The address is only the way in: the broker tells the client where others are, should it be gone one day.

    `name` identifies the client in the whole network; without one it gets a random name. When another client has the
    same name, at any broker, the newer one takes its place and the older one is told so. `timeout` is in seconds.
    `options` bound what waits in this process, `links` tune the connection; the defaults are meant to be kept.

    Raises ConnectError with one line that says why there is no session.
    """
    checked = check_name(name, "client name") if name is not None else f"client-{secrets.token_hex(6)}"
    return Connecting(parse_address(address), checked, timeout, options, links)


class Connecting:
    """A connection about to be made."""

    def __init__(
        self,
        address: Address,
        name: str,
        timeout_s: float,
        options: ClientOptions | None,
        links: LinkOptions | None = None,
    ) -> None:
        self._address = address
        self._name = name
        self._timeout_s = timeout_s
        self._options = msgspec.structs.replace(options or ClientOptions(), takes_at_once=False)
        self._links = with_signs_of_life(links)
        self._client: Client | None = None

    def __await__(self) -> Generator[object, object, Client]:
        return self._connect().__await__()

    async def __aenter__(self) -> Client:
        self._client = await self._connect()
        return self._client

    async def __aexit__(self, *_: object) -> None:
        assert self._client is not None
        await self._client.close()

    async def _connect(self) -> Client:
        deadline = asyncio.get_running_loop().time() + self._timeout_s
        try:
            here = await who_is(self._address, self._timeout_s, self._name)
        except UnreachableError as error:
            raise ConnectError(str(error), error.hopeless) from None
        if here.role != "broker":
            raise ConnectError(f"{self._address}: {here.name}, which listens there, is a {here.role} and not a broker")
        return await self._open(here, deadline)

    async def _open(self, here: Here, deadline: float) -> Client:
        name, address = self._name, self._address
        incarnation = _next_incarnation(here.met)
        machine = ClientMachine(name, incarnation, here.name, self._options)
        links = Links(
            machine,
            name=name,
            role="client",
            incarnation=incarnation,
            rng=random.Random(secrets.randbits(64)),
            options=self._links,
            first_epoch=random_epoch(),
        )
        began: asyncio.Future[Client] = asyncio.get_running_loop().create_future()

        def first_news(effect: Upward) -> None:
            """The client hears everything from the moment at which its session begins."""
            if began.done():
                return
            if isinstance(effect, Note):
                if effect.kind == "link_refused":
                    began.set_exception(ConnectError(f"{address}: {effect.columns['detail']}"))
            elif isinstance(effect, Answer) and isinstance(effect.body, SessionBegan):
                client = Client(machine, host, effect.body)
                host.tell(client.hear)
                began.set_result(client)
            elif isinstance(effect, Answer) and isinstance(effect.body, SessionLost):
                began.set_exception(ConnectError(f"{address}: {effect.body.reason}"))

        known = {here.name: address}
        host = Host(links, _CODEC, Here(name, "client", incarnation), known.get, first_news)
        host.start()
        try:
            async with asyncio.timeout_at(deadline):
                return await began
        except BaseException as error:
            await host.close()
            if isinstance(error, TimeoutError):
                raise ConnectError(f"{address}: {here.name} did not open a session in time") from None
            raise


def _next_incarnation(met: int) -> int:
    """Higher than any that this process or the broker knows of."""
    global _latest_incarnation
    _latest_incarnation = max(new_incarnation(), met + 1, _latest_incarnation + 1)
    return _latest_incarnation
