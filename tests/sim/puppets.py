"""A small world of puppets: machines that do what a test tells them and remember what happened to them."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from resprout.core.contract import (
    Arrived,
    Connect,
    Connected,
    Disconnected,
    Effect,
    Event,
    ProtocolMessage,
    Recovered,
    Request,
    Timer,
    TimerFired,
    Transmit,
)
from resprout.sim.faults import VirtualFaults
from resprout.sim.network import Distances
from resprout.sim.nodes import Above, Process
from resprout.sim.world import World


class Bell(Timer, frozen=True):
    """When to ring."""

    name: str


class Heartbeat(Timer, frozen=True):
    """When to show a sign of life."""

    @property
    def background(self) -> bool:
        return True


class Word(ProtocolMessage, frozen=True, tag=250):
    """Something that matters."""


class Pulse(ProtocolMessage, frozen=True, tag=251):
    """A sign of life."""

    @property
    def background(self) -> bool:
        return True


class Puppet:
    """Returns as effects whatever is requested, and keeps (time, event) of everything else."""

    def __init__(self, incarnation: int, rng: Random) -> None:
        self.incarnation = incarnation
        self.rng = rng
        self.heard: list[tuple[int, Event]] = []

    def start(self, now_us: int) -> Sequence[Effect]:
        return []

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        if isinstance(event, Request):
            effects: Sequence[Effect] = event.body
            return effects
        self.heard.append((now_us, event))
        return []


class Village:
    """Nodes `a`, `b`, ... in a row, 10 us apart unless told otherwise, and the strings of their puppets."""

    def __init__(
        self,
        names: str = "ab",
        latency_us: int = 10,
        seed: int = 1,
        size_of: Callable[[Any], int] | None = None,
        disk_latency_us: int = 0,
        **options: Any,
    ) -> None:
        self.distances = Distances()
        self.disk_latency_us = disk_latency_us
        weigh = None if size_of is None else lambda frame, load: size_of(frame)
        self.world = World(seed, self.distances, weigh=weigh, **options)
        self.told: list[tuple[str, str, str | None]] = []
        self.faults = VirtualFaults(self.world, lambda *what: self.told.append(what))
        self.lives: dict[str, list[Puppet]] = {}
        before: str | None = None
        for name in names:
            self.settle(name, before, latency_us)
            before = name

    def settle(
        self,
        name: str,
        toward: str | None,
        latency_us: int,
        bandwidth_bps: int | None = None,
        above: Above | None = None,
    ) -> None:
        self.distances.place(name, toward, latency_us)
        self.world.add(name, lambda life, rng: self.make(name, life, rng), bandwidth_bps=bandwidth_bps, above=above)
        node = self.world.nodes[name]
        node.disk_latency_us = self.disk_latency_us
        self.world.boot(node)

    def make(self, name: str, incarnation: int, rng: Random) -> Puppet:
        puppet = Puppet(incarnation, rng)
        self.lives.setdefault(name, []).append(puppet)
        return puppet

    def puppet(self, name: str) -> Puppet:
        return self.lives[name][-1]

    def process(self, name: str) -> Process:
        process = self.world.nodes[name].process
        assert process is not None
        return process

    def pull(self, name: str, *effects: Effect) -> None:
        """Let a node do something now."""
        self.world.request(self.process(name), list(effects))

    def pull_at(self, time_us: int, name: str, *effects: Effect) -> None:
        self.world.at(time_us, self._pull, name, effects)

    def _pull(self, name: str, effects: Sequence[Effect]) -> None:
        self.pull(name, *effects)

    def link(self, one: str, other: str) -> int:
        """Connect two nodes and forget how; returns the number of the connection at both."""
        self.pull(one, Connect(other))
        self.world.run(self.world.now_us + 10**9)
        numbers = [event.connection for _, event in self.puppet(one).heard if isinstance(event, Connected)]
        self.puppet(one).heard.clear()
        self.puppet(other).heard.clear()
        return numbers[-1]

    def send(self, name: str, connection: int, *frames: Any) -> None:
        self.pull(name, *(Transmit(connection, frame) for frame in frames))

    def frames(self, name: str) -> list[tuple[int, Any]]:
        return [(time, event.frame) for time, event in self.puppet(name).heard if isinstance(event, Arrived)]

    def losses(self, name: str) -> list[tuple[int, int, str]]:
        """(time, connection, reason)"""
        heard = self.puppet(name).heard
        return [(time, e.connection, e.reason) for time, e in heard if isinstance(e, Disconnected)]

    def rings(self, name: str) -> list[tuple[int, Timer]]:
        return [(time, event.timer) for time, event in self.puppet(name).heard if isinstance(event, TimerFired)]

    def recovered(self, name: str) -> list[bytes]:
        return [
            record for _, event in self.puppet(name).heard if isinstance(event, Recovered) for record in event.records
        ]
