"""A pytest plugin for the tests of programs that use Resprout. Name it in `conftest.py`:

    pytest_plugins = ["resprout.testing"]

Every test can then have a broker of its own:

    def test_a_transfer_arrives(resprout_broker):
        with resprout_broker.connect("teller") as client:
            inbox = client.subscribe("bank/#")
            ...

    async def test_a_transfer_arrives(resprout_broker):          # with whatever runs your asynchronous tests
        async with resprout_broker.connect("teller") as client:
            ...

The broker is real, listens on a private port of the loopback, runs in a thread beside the test and is gone after it.
"""

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from resprout import sync
    from resprout.client.client import Client
    from resprout.client.connect import Connecting


class Connection:
    """Use it with `with` in a test that blocks, with `async with` or `await` in an asynchronous one."""

    def __init__(self, address: str, name: str | None) -> None:
        self._address = address
        self._name = name
        self._blocking: sync.Client | None = None
        self._connecting: Connecting | None = None

    def __enter__(self) -> "sync.Client":
        from resprout import sync

        self._blocking = sync.connect(self._address, name=self._name)
        return self._blocking

    def __exit__(self, *_: object) -> None:
        assert self._blocking is not None
        self._blocking.close()

    async def __aenter__(self) -> "Client":
        self._connecting = self._connect()
        return await self._connecting.__aenter__()

    async def __aexit__(self, *_: object) -> None:
        assert self._connecting is not None
        await self._connecting.__aexit__()

    def __await__(self) -> "Generator[object, object, Client]":
        return self._connect().__await__()

    def _connect(self) -> "Connecting":
        from resprout.client.connect import connect

        return connect(self._address, name=self._name)


class Broker:
    """What the fixture gives."""

    def __init__(self, address: str) -> None:
        self.address = address
        """The `HOST:PORT` for `resprout.connect`, the `resprout` command or another process."""

    def connect(self, name: str | None = None) -> Connection:
        """A client of this broker."""
        return Connection(self.address, name)


@pytest.fixture
def resprout_broker() -> Iterator[Broker]:
    """A running broker of the default stack: `.address` and `.connect()`."""
    # Imported here: the plugin is loaded in every test run on the machine, used or not.
    from resprout.client.background import Background
    from resprout.client.local import local

    background = Background("resprout broker")
    network = local()
    try:
        background.call(network.__aenter__())
        try:
            yield Broker(network.address)
        finally:
            background.call(network.__aexit__())
    finally:
        background.stop()
