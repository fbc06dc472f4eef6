"""Connects a client to a broker, given addresses."""

import asyncio
import os
import random
import secrets
from collections.abc import Generator, Sequence
from pathlib import Path

import msgspec

from resprout.client.arguments import check_count, check_handler, check_kind, check_seconds, wrong
from resprout.client.client import Client
from resprout.client.errors import ConnectError, ConnectionState, OnEvent
from resprout.core import limits
from resprout.core.contract import Answer, Note
from resprout.core.errors import UsageError
from resprout.core.limits import check_name
from resprout.core.message_fields import NUMBER_MAX
from resprout.edge.client.machine import ClientMachine, ClientOptions
from resprout.edge.requests import SessionBegan, SessionLost
from resprout.links.links import Links
from resprout.links.options import LinkOptions
from resprout.net.address import Address, parse_address
from resprout.net.discover import UnreachableError, who_is
from resprout.net.door import Door
from resprout.net.event_loop import epoch_us
from resprout.net.host import Host, Upward
from resprout.net.identity.scram import read_login
from resprout.net.sessions import (
    CODEC,
    EncodedBodies,
    Here,
    incarnation_max,
    next_incarnation,
    random_epoch,
    rising_epoch,
    with_signs_of_life,
)
from resprout.net.tls import Keyring, Tls, tls_of_client

CONNECT_SECONDS = 10.0


def connect(
    address: str | Sequence[str],
    *,
    name: str | None = None,
    timeout: float | None = CONNECT_SECONDS,
    on_event: OnEvent | None = None,
    options: ClientOptions | None = None,
    links: LinkOptions | None = None,
    tls: Tls | str | os.PathLike[str] | None = None,
    login: str | None = None,
    epoch: int | None = None,
) -> "Connecting":
    """Connect to the broker at `HOST:PORT`. Use the result with `async with`, or await it and close the client.

    Several addresses, in a list or separated by commas, are tried in turn until a broker serves. The broker then tells
    the client the addresses of others, which it uses when its broker dies.

    - `name` identifies the client in the whole network; without one it gets a random name. When two clients have the
      same name, at any brokers, the newer one takes over and the session of the older one ends.
    - `timeout` is in seconds.
    - `on_event` is called in the event loop with events of the client, such as `resprout.Disconnected`.
    - `options` bounds the messages that wait in this process, `links` tunes the connection; keep the defaults.
    - `tls` is a folder made by `resprout certificates`, or a `Tls` with three files; the certificate of `name` is used
      if the folder has it. Without `tls` the connection is not encrypted.
    - `login` is `NAME:SECRET`, a token or a password, for brokers with rules. The client's name must be the identity's
      name, or begin with it and a dot, unless the rules list other names; without `name` it is derived from `login`.
    - `epoch` makes this an idempotent producer: `name` is its producer id, and retries after a crash add nothing twice.
      A program that connects with the same `name` and `epoch`, from any process and to any broker, and publishes the
      same messages in the same order, adds only those that are new. A higher epoch begins anew and fences lower ones.
      Each publication is then a bundle of its own; `publish_bundle` with `ClientOptions(same_bundles=True)` is faster,
      for programs that repeat their bundles with the same boundaries. Without `epoch` the client takes a new one from
      the clock.

    Raises UsageError for unusable certificate files, and ConnectError if the client gets no session.
    """
    addresses = parse_addresses(address)
    check_kind(login, "login", str, "NAME:SECRET, or None")
    check_kind(options, "options", ClientOptions, "a ClientOptions, or None")
    check_kind(links, "links", LinkOptions, "a LinkOptions, or None")
    check_kind(tls, "tls", (Tls, str, os.PathLike), "a Tls, the path of a folder with certificates, or None")
    check_handler(on_event, "on_event")
    timeout = check_seconds(timeout)
    if epoch is not None:
        check_count(epoch, "epoch", 1, NUMBER_MAX)
        if name is None:
            raise UsageError(f"epoch={epoch} needs a name: an idempotent producer is a name with an epoch")
    kind = f"{read_login(login)[0]}." if login is not None else "client-"
    checked = check_name(name if name is not None else f"{kind}{secrets.token_hex(6)}", "name: client name")
    door = Door(read_keyring(tls, name), login=login)
    return Connecting(addresses, checked, timeout, options, links, on_event, door, epoch)


def read_keyring(tls: Tls | str | os.PathLike[str] | None, name: str | None) -> Keyring | None:
    """Return the keyring of a client with this name. Raises UsageError if the files are invalid or prove another
    name."""
    if tls is None:
        return None
    files = tls if isinstance(tls, Tls) else tls_of_client(Path(tls), name)
    if files.certificate is not None and name is None:
        raise UsageError("a client with a certificate has the name that it says: give this name")
    return Keyring(files)


def parse_addresses(text: str | Sequence[str]) -> tuple[Address, ...]:
    """Return each address once, in order. UsageError for anything else than HOST:PORT, or several of these."""
    texts = text.split(",") if isinstance(text, str) else text
    if not isinstance(texts, Sequence) or not texts or not all(isinstance(one, str) for one in texts):
        raise wrong("address", text, "HOST:PORT, several with commas between them, or a list of them")
    return tuple(dict.fromkeys(parse_address(one.strip()) for one in texts))


class Connecting:
    """A connection about to be made."""

    def __init__(
        self,
        addresses: Sequence[Address],
        name: str,
        timeout_s: float | None,
        options: ClientOptions | None,
        links: LinkOptions | None = None,
        on_event: OnEvent | None = None,
        door: Door | None = None,
        epoch: int | None = None,
    ) -> None:
        self._epoch = epoch
        self._addresses = addresses
        self._name = name
        self._timeout_s = timeout_s
        self._options = msgspec.structs.replace(
            options or ClientOptions(),
            takes_at_once=False,
            tells_connection=True,
            returns=epoch is not None,
            epoch_us=epoch_us(),
        )
        self._links = with_signs_of_life(links)
        self._on_event = on_event
        self._door = door or Door()
        self._client: Client | None = None

    @property
    def state(self) -> ConnectionState:
        """That of the client, once it is connected."""
        return ConnectionState.CONNECTING if self._client is None else self._client.state

    def __await__(self) -> Generator[object, object, Client]:
        return self.__aenter__().__await__()

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
        end = time() + self._timeout_s if self._timeout_s is not None else None
        failures: list[ConnectError] = []
        for tried, address in enumerate(self._addresses):
            share_s = max(0.0, end - time()) / (len(self._addresses) - tried) if end is not None else None
            try:
                return await self._connect_to(address, share_s)
            except ConnectError as error:
                failures.append(error)
        raise ConnectError("; ".join(map(str, failures)), any(error.retryable for error in failures))

    async def _connect_to(self, address: Address, timeout_s: float | None) -> Client:
        deadline = asyncio.get_running_loop().time() + timeout_s if timeout_s is not None else None
        try:
            here = await who_is(address, timeout_s, self._name, keyring=self._door.keyring)
        except UnreachableError as error:
            raise ConnectError(str(error), error.retryable) from None
        if here.role != "broker":
            raise ConnectError(f"{address}: {here.name}, which listens there, is a {here.role} and not a broker")
        return await self._open(here, address, deadline)

    async def _open(self, here: Here, address: Address, deadline: float | None) -> Client:
        name = self._name
        incarnation = self._epoch or next_incarnation(here.met)
        machine = ClientMachine(name, incarnation, here.name, self._options)
        links = Links(
            machine,
            name=name,
            role="client",
            incarnation=incarnation,
            rng=random.Random(secrets.randbits(64)),
            options=self._links,
            first_epoch=random_epoch() if self._epoch is None else rising_epoch(),
            bodies=EncodedBodies(CODEC, limits.PAYLOAD_BYTES_MAX),
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
        host = Host(
            links,
            CODEC,
            Here(name, "client", incarnation, max_payload=limits.PAYLOAD_BYTES_MAX),
            known.get,
            first_news,
            door=self._door,
        )
        host.start()
        try:
            async with asyncio.timeout_at(deadline):
                return await began
        except BaseException as error:
            await host.close()
            if isinstance(error, TimeoutError):
                raise ConnectError(f"{address}: {here.name} did not open a session in time") from None
            raise
