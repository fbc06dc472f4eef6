"""From addresses to a connected client."""

import asyncio
import os
import random
import secrets
from collections.abc import Generator, Sequence
from pathlib import Path

import msgspec

from resprout.client.client import Client
from resprout.client.errors import ConnectError
from resprout.client.events import OnEvent
from resprout.core.contract import Answer, Note
from resprout.core.errors import UsageError
from resprout.core.names import check_name
from resprout.edge.client.machine import ClientMachine, ClientOptions
from resprout.edge.requests import SessionBegan, SessionLost
from resprout.links.links import Links
from resprout.links.options import LinkOptions
from resprout.net.address import Address, parse_address
from resprout.net.discover import UnreachableError, who_is
from resprout.net.door import Door
from resprout.net.frames import Here
from resprout.net.host import Host, Upward
from resprout.net.identity.scram import read_login
from resprout.net.keyring import Keyring, Tls, tls_of_client
from resprout.net.sessions import (
    CODEC,
    EncodedBodies,
    incarnation_max,
    next_incarnation,
    random_epoch,
    rising_epoch,
    with_signs_of_life,
)

CONNECT_SECONDS = 10.0


def connect(
    address: str | Sequence[str],
    *,
    name: str | None = None,
    timeout: float = CONNECT_SECONDS,
    on_event: OnEvent | None = None,
    options: ClientOptions | None = None,
    links: LinkOptions | None = None,
    tls: Tls | str | os.PathLike[str] | None = None,
    login: str | None = None,
    life: int | None = None,
) -> "Connecting":
    """A client of the broker at `HOST:PORT`; use it with `async with`, or await it and close it yourself.

    Several addresses, in a list or with commas between them, are tried in turn until a broker serves. They are only the
    way in: the broker tells the client where others are, should it be gone one day.

    `name` identifies the client in the whole network; without one it gets a random name. When another client has the
    same name, at any broker, the newer one takes its place and the older one is told so. `timeout` is in seconds.
    `on_event` is called in the event loop with what happens to the client unasked (`resprout.client.events`).
    `options` bound what waits in this process, `links` tune the connection; the defaults are meant to be kept.
    `tls` are the files with which to speak TLS, or a folder as `resprout certificates` makes it, of which the
    certificate of this `name` is used, if it is there; without it, no TLS is spoken. UsageError when they are not good.
    `login` is `NAME:SECRET`, a token or a password, for brokers that have rules; without a `name` the client is then
    called after it.
    `life` makes retries after a crash idempotent: a publisher that connects with the same `name` and number, from any
    process and to any broker, and publishes the same messages in the same order, adds only those that are new. Each
    publication is then a bundle of its own; `publish_bundle` with `ClientOptions(same_bundles=True)` is faster, for
    programs that repeat their bundles with the same boundaries. A later life has a higher number. Without it
    every client begins a new life.

    Raises ConnectError with one line that says why there is no session.
    """
    kind = f"{read_login(login)[0]}." if login is not None else "client-"
    checked = check_name(name if name is not None else f"{kind}{secrets.token_hex(6)}", "client name")
    door = Door(read_keyring(tls, name), login=login)
    if life is not None and life < 1:
        raise UsageError(f"lives are numbered from 1, not {life}")
    return Connecting(parse_addresses(address), checked, timeout, options, links, on_event, door, life)


def read_keyring(tls: Tls | str | os.PathLike[str] | None, name: str | None) -> Keyring | None:
    """Of a client of this name. UsageError when the files are not good, or prove another one's name."""
    if tls is None:
        return None
    files = tls if isinstance(tls, Tls) else tls_of_client(Path(tls), name)
    if files.certificate is not None and name is None:
        raise UsageError("a client with a certificate has the name that it says: give this name")
    return Keyring(files)


def parse_addresses(text: str | Sequence[str]) -> tuple[Address, ...]:
    """Each once, in order."""
    texts = text.split(",") if isinstance(text, str) else text
    addresses = tuple(dict.fromkeys(parse_address(one.strip()) for one in texts))
    if not addresses:
        raise UsageError("no address to connect to")
    return addresses


class Connecting:
    """A connection about to be made."""

    def __init__(
        self,
        addresses: Sequence[Address],
        name: str,
        timeout_s: float,
        options: ClientOptions | None,
        links: LinkOptions | None = None,
        on_event: OnEvent | None = None,
        door: Door | None = None,
        life: int | None = None,
    ) -> None:
        self._life = life
        self._addresses = addresses
        self._name = name
        self._timeout_s = timeout_s
        self._options = msgspec.structs.replace(
            options or ClientOptions(), takes_at_once=False, returns=life is not None
        )
        self._links = with_signs_of_life(links)
        self._on_event = on_event
        self._door = door or Door()
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
        """Each address has its share of the time that is left."""
        if len(self._addresses) == 1:
            return await self._connect_to(self._addresses[0], self._timeout_s)
        time = asyncio.get_running_loop().time
        end = time() + self._timeout_s
        failures: list[ConnectError] = []
        for tried, address in enumerate(self._addresses):
            share_s = max(0.0, end - time()) / (len(self._addresses) - tried)
            try:
                return await self._connect_to(address, share_s)
            except ConnectError as error:
                failures.append(error)
        raise ConnectError("; ".join(map(str, failures)), all(error.hopeless for error in failures))

    async def _connect_to(self, address: Address, timeout_s: float) -> Client:
        deadline = asyncio.get_running_loop().time() + timeout_s
        try:
            here = await who_is(address, timeout_s, self._name, keyring=self._door.keyring)
        except UnreachableError as error:
            raise ConnectError(str(error), error.hopeless) from None
        if here.role != "broker":
            raise ConnectError(f"{address}: {here.name}, which listens there, is a {here.role} and not a broker")
        return await self._open(here, address, deadline)

    async def _open(self, here: Here, address: Address, deadline: float) -> Client:
        name = self._name
        incarnation = self._life or next_incarnation(here.met)
        machine = ClientMachine(name, incarnation, here.name, self._options)
        links = Links(
            machine,
            name=name,
            role="client",
            incarnation=incarnation,
            rng=random.Random(secrets.randbits(64)),
            options=self._links,
            first_epoch=random_epoch() if self._life is None else rising_epoch(),
            bodies=EncodedBodies(CODEC),
            incarnation_max=incarnation_max,
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
                client = Client(machine, host, effect.body, self._on_event, self._links)
                host.tell(client.hear)
                began.set_result(client)
            elif isinstance(effect, Answer) and isinstance(effect.body, SessionLost):
                began.set_exception(ConnectError(f"{address}: {effect.body.reason}"))

        known = {here.name: address}
        host = Host(links, CODEC, Here(name, "client", incarnation), known.get, first_news, door=self._door)
        host.start()
        try:
            async with asyncio.timeout_at(deadline):
                return await began
        except BaseException as error:
            await host.close()
            if isinstance(error, TimeoutError):
                raise ConnectError(f"{address}: {here.name} did not open a session in time") from None
            raise
