"""Machines that do what a test says, behind real sockets: a driver is tested without any protocol."""

import asyncio
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from resprout.core.contract import Effect, Event, Note
from resprout.edge.messages import CLIENT_MESSAGES
from resprout.links.options import LinkOptions
from resprout.net.address import Address
from resprout.net.broker import RunningBroker, serve
from resprout.net.broker_to_run import BrokerToRun
from resprout.net.host import Host
from resprout.net.sessions import Here, make_codec
from resprout.stacks.stack import BrokerSeat, Stack
from tests.net.stage import LOOPBACK, until

CODEC = make_codec(CLIENT_MESSAGES)

QUICK = LinkOptions(reconnect_us_min=1_000, reconnect_us_max=20_000)


class Puppet:
    """Writes down what it is told; answers with what `react` says, or with nothing."""

    def __init__(self, at_start: Sequence[Effect] = ()) -> None:
        self.told: list[Event] = []
        self.react: Callable[[Event], Sequence[Effect]] = lambda event: ()
        self._at_start = at_start

    def start(self, now_us: int) -> Sequence[Effect]:
        return self._at_start

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        self.told.append(event)
        return self.react(event)

    def heard(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.told if type(event) is kind]

    async def hears(self, kind: type[Event], count: int = 1) -> Any:
        """The latest of so many events of a kind."""
        await until(lambda: len(self.heard(kind)) >= count)
        return self.heard(kind)[count - 1]


def host_of(puppet: Puppet, name: str = "b0", places: dict[str, Address] | None = None, **more: Any) -> Host:
    return Host(puppet, CODEC, Here(name, "broker", 1), (places or {}).get, lambda _: None, **more)


async def free_address() -> Address:
    """Somebody listened there a moment ago."""
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    address = Address(*server.sockets[0].getsockname()[:2])
    server.close()
    await server.wait_closed()
    return address


class PuppetOptions(msgspec.Struct, frozen=True):
    durable: bool = False


class Theatre:
    """A stack of puppets that remembers every life."""

    def __init__(self) -> None:
        self.seats: list[BrokerSeat] = []
        self.puppets: list[Puppet] = []
        self.notes: list[Note] = []
        self.at_start: Sequence[Effect] = ()
        self.stack = Stack(
            "puppet", (), PuppetOptions, CLIENT_MESSAGES, self._make, keeps_records=lambda options: options.durable
        )

    @property
    def puppet(self) -> Puppet:
        """Of the latest life."""
        return self.puppets[-1]

    @property
    def remarks(self) -> list[str]:
        return [note.columns["detail"] for note in self.notes]

    async def play(
        self,
        name: str = "b1",
        *,
        incarnation: int = 5,
        listen: Address = LOOPBACK,
        durable: bool = False,
        data: Path | None = None,
        **more: Any,
    ) -> RunningBroker:
        spec = BrokerToRun(name, incarnation, listen, data=data, **more)
        broker, _ = await serve(spec, self.stack, PuppetOptions(durable), QUICK, self.notes.append)
        return broker

    def _make(self, seat: BrokerSeat, options: PuppetOptions, rng: random.Random) -> Puppet:
        self.seats.append(seat)
        self.puppets.append(Puppet(self.at_start))
        return self.puppet
