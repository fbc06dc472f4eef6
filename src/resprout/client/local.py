"""A broker, or a small tree of them, inside this process: for tests, notebooks and examples.

    async with resprout.local() as network:
        async with network.connect(name="teller-1") as client:
            ...

The brokers are real and are reached over TCP on this machine's loopback, each at a port that was free; they share the
event loop of the caller, and nothing is left when the block ends. Not for production: everything is lost with
the process. Where the options of the stack need a disk, the brokers have folders that are deleted at the end.
"""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from resprout.client.arguments import check_count, check_kind, wrong
from resprout.client.connect import CONNECT_SECONDS, Connecting, connect
from resprout.client.errors import OnEvent
from resprout.core.contract import Note
from resprout.core.errors import UsageError
from resprout.edge.client.machine import ClientOptions
from resprout.links.options import LinkOptions
from resprout.net.address import Address
from resprout.net.broker import RunningBroker, serve
from resprout.net.broker_to_run import BrokerToRun
from resprout.net.door import Door
from resprout.net.identity.proofs import new_network_key
from resprout.stacks.stack import RosterEntry, find_stack

BROKERS_MAX = 64
"""More belong into processes of their own."""


def local(
    *, brokers: int = 1, stack: str = "resprout", options: Mapping[str, Any] | None = None, host: str = "127.0.0.1"
) -> "Local":
    """Brokers in this process; use it with `async with`.

    With several `brokers` they form a binary tree, `b0` at its root. `options` are those of the stack
    (`faults_tolerated`, `log_bytes`, ...). Raises UsageError for options that the stack does not have.
    """
    check_count(brokers, "brokers", 1, BROKERS_MAX)
    check_kind(options, "options", Mapping, "options of the stack by name, or None")
    if not isinstance(stack, str):
        raise wrong("stack", stack, "the name of a stack, such as 'resprout'")
    if not isinstance(host, str):
        raise wrong("host", host, "the name or the address of a host")
    return Local(brokers, stack, dict(options or {}), host)


class Local:
    """Running brokers. Made by `resprout.local`."""

    def __init__(self, brokers: int, stack: str, options: dict[str, Any], host: str) -> None:
        self._count = brokers
        self._stack = find_stack(stack)
        self._options = self._stack.parse_options(options)
        self._listen = Address(host, 0)
        self._key = new_network_key()
        """Key of the network, so that no other broker on this machine can join."""
        self._disks: TemporaryDirectory[str] | None = None
        """Temporary data folders, for stacks that keep records."""
        self._roster = tuple(
            [RosterEntry(f"b{number}", parent=_parent_of(number)) for number in range(brokers)]
            if self._stack.site_brokers(self._options)
            else ()
        )
        self._running: list[RunningBroker] = []
        self._addresses: list[Address] = []

    @property
    def address(self) -> str:
        """`HOST:PORT` of the root, for `resprout.connect`."""
        return self.addresses[0]

    @property
    def addresses(self) -> tuple[str, ...]:
        """Addresses of all brokers, `b0` first."""
        if not self._addresses:
            raise UsageError("the brokers are not running: use them inside `async with resprout.local() as network`")
        return tuple(str(address) for address in self._addresses)

    @property
    def brokers(self) -> tuple[RunningBroker, ...]:
        """Running brokers, `b0` first: to inspect them, or to `close` one and see how clients continue."""
        return tuple(self._running)

    def connect(
        self,
        name: str | None = None,
        *,
        broker: int = 0,
        timeout: float | None = CONNECT_SECONDS,
        on_event: OnEvent | None = None,
        options: ClientOptions | None = None,
        links: LinkOptions | None = None,
    ) -> Connecting:
        """A client of one of the brokers, by number; otherwise as `resprout.connect`."""
        check_count(broker, "broker", 0, len(self.addresses) - 1)
        return connect(
            self.addresses[broker], name=name, timeout=timeout, on_event=on_event, options=options, links=links
        )

    async def __aenter__(self) -> "Local":
        if self._stack.keeps_records(self._options):
            self._disks = TemporaryDirectory(prefix="resprout-local-", ignore_cleanup_errors=True)
        try:
            for number in range(self._count):
                await self._start(number)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._addresses.clear()
        while self._running:
            await self._running.pop().close()
        if self._disks is not None:
            self._disks.cleanup()

    async def _start(self, number: int) -> None:
        parent = _parent_of(number)
        peers = {parent: self._addresses[(number - 1) // 2]} if parent is not None else {}
        data = Path(self._disks.name) / f"b{number}" if self._disks is not None else None
        spec = BrokerToRun(f"b{number}", 1, self._listen, parent, peers, data=data, roster=self._roster)
        door = Door(network_key=self._key)
        broker, address = await serve(spec, self._stack, self._options, LinkOptions(), _ignore, door=door)
        self._running.append(broker)
        self._addresses.append(address)


def _parent_of(number: int) -> str | None:
    """Return the parent of a broker in the binary tree."""
    return f"b{(number - 1) // 2}" if number else None


def _ignore(note: Note) -> None:
    """Ignore rows for a trace."""
