"""A broker as a program: a stack's machine behind a listening socket."""

import random
import secrets
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from resprout.core.contract import Note
from resprout.links.links import Links
from resprout.links.options import LinkOptions
from resprout.net.address import Address
from resprout.net.frames import Here, make_codec
from resprout.net.host import Host, Upward
from resprout.net.sessions import random_epoch, with_signs_of_life
from resprout.stacks.stack import BrokerSeat, Stack


class BrokerSpec(msgspec.Struct, frozen=True):
    """One broker to run."""

    name: str
    incarnation: int
    listen: Address
    parent: str | None = None
    peers: Mapping[str, Address] = {}
    """Where its peers listen, its parent above all."""
    delays_s: Mapping[str, float] = {}
    """Emulated one-way latencies, by peer."""


async def serve(
    spec: BrokerSpec, stack: Stack[Any], options: Any, links: LinkOptions, heard: Callable[[Note], None]
) -> tuple[Host, Address]:
    """Start a broker; returns its host and the address it really listens on. ListenError when it cannot."""
    seed = secrets.randbits(64)
    machine = stack.make_broker(BrokerSeat(spec.name, spec.incarnation, spec.parent), options, random.Random(seed))
    node = Links(
        machine,
        name=spec.name,
        role="broker",
        incarnation=spec.incarnation,
        rng=random.Random(seed + 1),
        options=with_signs_of_life(links),
        first_epoch=random_epoch(),
    )

    def upward(effect: Upward) -> None:
        if isinstance(effect, Note):
            heard(effect)

    host = Host(
        node,
        make_codec(stack.messages),
        Here(spec.name, "broker", spec.incarnation),
        spec.peers.get,
        upward,
        delays_s=dict(spec.delays_s),
        latest_incarnation=node.latest_incarnation,
    )
    address = await host.listen(spec.listen)
    host.start()
    return host, address
