"""An hour with a subscriber whose code takes nothing: what brokers keep meanwhile, and whether it comes through.

The client itself is alive, so its session stands; only its application does not take. A frozen client is another
matter: nothing is heard of it, so its session is given up after a while, and what was kept for it goes.
"""

from collections.abc import Sequence
from random import Random
from typing import Any, Final

import msgspec

from resprout.core.contract import Deliver, Effect, Event, Machine, Request
from resprout.edge.client.machine import ClientMachine
from resprout.edge.client.options import ClientOptions
from resprout.edge.durable_messages import WhenFull
from resprout.edge.requests import FlushRequest, TakeRequest
from resprout.links.options import LinkOptions
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import ClientSpec, Scenario
from resprout.sim.clients import ClientSide
from resprout.sim.run import Run
from resprout.trace import kinds

LOG_BYTES: Final = 1 << 20
UNTAKEN_BYTES: Final = 1 << 20
WINDOW_BYTES: Final = LinkOptions().window_bytes
STALL_BEGINS_US: Final = 10_000_000
HOUR_US: Final = 3_600_000_000
SAMPLE_US: Final = 10_000_000

_SCENARIO: Final = """
name = "a subscriber that takes nothing for an hour"
time_limit = "20000s"

[options]
log_bytes = {log_bytes}
subscriber_bytes = {log_bytes}

[topology]
kind = "chain"
brokers = 3
latency = "20ms"
clients_per_broker = 0

[[client]]
when_full = "block"
name = "writer"
broker = "b0"

[[client]]
when_full = "block"
name = "reader"
broker = "b1"
subscribe = ["t"]

[[client]]
when_full = "block"
name = "stalled"
broker = "b2"
subscribe = ["t"]

[[workload]]
kind = "random"
clients = ["writer"]
topics = ["t"]
operations = {operations}
mix = {{ eventual = 0.5, causal = 0.5 }}
interval = "{interval}"
payload = {payload}
window = 32
start = "5s"
"""


def stalled_scenario(payload: int = 64_000, interval: str = "2s", operations: int = 2_000) -> Scenario:
    """More than an hour of publications, and more than everybody together may keep."""
    text = _SCENARIO.format(log_bytes=LOG_BYTES, payload=payload, interval=interval, operations=operations)
    return parse_scenario(text, "<memory>")


class Reader:
    """A client whose application takes what it is given only while it is told to."""

    def __init__(self, machine: ClientMachine) -> None:
        self._machine = machine
        self._untaken = 0
        self.takes = True

    def start(self, now_us: int) -> Sequence[Effect]:
        return self._machine.start(now_us)

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        effects = [*self._machine.step(event, now_us)]
        self._untaken += sum(isinstance(effect, Deliver) for effect in effects)
        if self.takes and self._untaken:
            count, self._untaken = self._untaken, 0
            effects += self._machine.step(Request(TakeRequest(count), 0), now_us)
        return effects


class Kept(msgspec.Struct, frozen=True):
    """The most that any broker had at once in its log."""

    bytes: int
    entries: int


class Stall(msgspec.Struct, frozen=True):
    kept: Kept
    kept_in_calm: Kept
    """Before the stall."""
    kept_at_end: Kept
    writer_bytes: int
    """The most that waited at the publisher."""
    published_before_end: int
    """Of the operations, those that the writer could make until the stall was over."""
    delivered: int
    """To the one that had stalled, in all."""
    ended: str


class _Watch:
    def __init__(self, run: Run, brokers: Sequence[str]) -> None:
        self._run = run
        self._brokers = brokers
        self.peak = Kept(0, 0)

    def sample(self, *_: None) -> None:
        for name in self._brokers:
            now = broker_keeps(self._run, name)
            self.peak = Kept(max(self.peak.bytes, now.bytes), max(self.peak.entries, now.entries))


def broker_keeps(run: Run, name: str) -> Kept:
    process = run.world.nodes[name].process
    assert process is not None
    machine: Any = process.machine
    broker = machine.machine
    if hasattr(broker, "dissemination"):  # ginger
        sessions = broker.state.sessions.all.values()
        entries = {id(one): one for session in sessions for one in session.unfinished()}
        entries.update({id(one): one for one in broker.state.buffer.values()})
        return Kept(sum(entry.bundle.cost for entry in entries.values()), len(entries))
    core = broker.parts if hasattr(broker, "parts") else broker.core
    return Kept(core.log.bytes_held, len(core.log.entries))


def stall(scenario: Scenario, stall_us: int = HOUR_US) -> Stall:
    """Let it run; from `STALL_BEGINS_US` on the client `stalled` takes nothing for so long."""
    run = Run(scenario, None, ())
    world = run.world
    readers: list[Reader] = []
    machines: dict[str, ClientMachine] = {}
    cast: Any = run._cast

    def make(client: ClientSpec, above: ClientSide, incarnation: int, rng: Random) -> Machine:
        options = ClientOptions(takes_at_once=client.name != "stalled", untaken_bytes_max=UNTAKEN_BYTES)
        machine = above.machine = ClientMachine(client.name, incarnation, client.broker, options)
        machine.when_full = WhenFull.BLOCK
        machines[client.name] = machine
        if client.name != "stalled":
            return cast._link(machine, client.name, "client", incarnation, rng)  # type: ignore[no-any-return]
        readers.append(Reader(machine))
        return cast._link(readers[0], client.name, "client", incarnation, rng)  # type: ignore[no-any-return]

    cast._make_client = make
    names = [broker.name for broker in scenario.brokers]
    watch, calm = _Watch(run, names), _Watch(run, names)
    waiting = [0]
    resume_us = STALL_BEGINS_US + stall_us

    def set_taking(takes: bool, _: None) -> None:
        readers[0].takes = takes
        process = world.nodes["stalled"].process
        assert process is not None
        world.request(process, FlushRequest())

    def look(*_: None) -> None:
        watch.sample()
        publishing = machines["writer"].publishing
        waiting[0] = max(waiting[0], publishing.outgoing.bytes_waiting + publishing.unconfirmed.bytes)

    for at_us in range(5_000_000, STALL_BEGINS_US, 100_000):
        world.at(at_us, calm.sample)
    world.at(STALL_BEGINS_US, set_taking, False)
    for at_us in range(STALL_BEGINS_US, resume_us, SAMPLE_US):
        world.at(at_us, look)
    world.at(resume_us, set_taking, True)
    result = run.finish()
    last = _Watch(run, names)
    last.sample()
    published = sum(row.kind == kinds.PUBLISH and row.time_us < resume_us for row in result.rows)
    delivered = sum(row.kind == kinds.DELIVER and row.node == "stalled" for row in result.rows)
    return Stall(watch.peak, calm.peak, last.peak, waiting[0], published, delivered, result.ended)
