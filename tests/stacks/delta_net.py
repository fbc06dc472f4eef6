"""Brokers of `delta` in hands that carry what they say, connect them, and kill them; and runs of the simulator."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from resprout.audit.judge import judge
from resprout.core.contract import Close, Effect, LinkDown, LinkUp, Open, Received, Send, Silent, Timer, TimerFired
from resprout.edge.messages import Attend, Delivery, Publish, Subscribe, Subscribed, Turned, Unsubscribe
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import FaultKind, FaultSpec, Scenario
from resprout.sim.run import run_scenario
from resprout.stacks.stack import BrokerSeat
from resprout_lab.delta import DELTA
from resprout_lab.delta.broker import DeltaBroker
from resprout_lab.delta.operations import DeltaOptions
from tests.edge.desk import Desk

ROOM = 1 << 24


def row(operations: int = 30, brokers: int = 5, options: str = "", mix: str = "fifo = 1.0") -> Scenario:
    """Brokers in a row; clients at both ends and in the middle publish and read."""
    places = "".join(
        f'[[broker]]\nname = "b{no}"\nlatency = "3ms"\n' + (f'parent = "b{no - 1}"\n' if no else "")
        for no in range(brokers)
    )
    clients = "".join(
        f'[[client]]\nname = "c{no}"\nbroker = "b{no}"\nsubscribe = ["t/#"]\n' for no in (0, brokers // 2, brokers - 1)
    )
    return parse_scenario(f"""
stack = "delta"
seed = 5
time_limit = "60s"
{f"[options]{chr(10)}{options}" if options else ""}
{places}
{clients}
[[workload]]
kind = "random"
topics = ["t/1", "t/2"]
operations = {operations}
mix = {{ {mix} }}
interval = "20ms"
start = "1s"
""")


def strike(scenario: Scenario, *faults: FaultSpec) -> Scenario:
    return msgspec.structs.replace(scenario, faults=faults)


def crash(*names: str, at_us: int = 1_200_000) -> FaultSpec:
    return FaultSpec(at_us, FaultKind.CRASH, nodes=names)


def recover(*names: str, at_us: int = 1_350_000) -> FaultSpec:
    return FaultSpec(at_us, FaultKind.RECOVER, nodes=names)


def rules(scenario: Scenario) -> set[str]:
    """What the judge complains of, and whether the run waits for ever."""
    result = run_scenario(scenario)
    found = {anomaly.rule for anomaly in judge(result.rows, promise=DELTA.promise()).anomalies}
    return found | ({"stuck"} if result.ended != "quiescent" else set())


class DeltaNet:
    """A tree of brokers, `{name: parent}`. A session is there as soon as one side wants it and both live."""

    def __init__(self, parents: dict[str, str | None], **options: int) -> None:
        self._options = DeltaOptions(**options)
        self._parents = parents
        self._lives = dict.fromkeys(parents, 0)
        self._opened: dict[tuple[str, str], None] = {}
        self._sessions: dict[frozenset[str], None] = {}
        self._homes: dict[str, str] = {}
        self._bundles = Desk("delta")
        self.brokers: dict[str, DeltaBroker] = {}
        self.on_the_way: list[tuple[str, str, Any]] = []
        self.said: list[tuple[str, str, Any]] = []
        self.told: dict[str, list[Any]] = {}
        """By client."""
        self.closed: list[tuple[str, str, str]] = []
        self.stopped: dict[tuple[str, str], None] = {}
        """(sender, receiver) between whom nothing moves at the moment."""
        for name in parents:
            self.start(name)
            self.settle()

    # -- brokers -------------------------------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """For the first time, or again."""
        self._lives[name] += 1
        contacts = tuple(other for other in self._parents if other != name) if self._lives[name] > 1 else ()
        seat = BrokerSeat(name, self._lives[name], self._parents[name], contacts)
        self.brokers[name] = DeltaBroker(seat, self._options, random.Random(1))
        self._do(name, self.brokers[name].start(0))
        for one, other in list(self._opened):
            if name == other and one in self.brokers:
                self._connect(one, other)

    def add(self, name: str, parent: str) -> None:
        self._parents[name], self._lives[name] = parent, 0
        self.start(name)

    def crash(self, *names: str) -> None:
        """Nothing that they have said and that is still on its way comes."""
        for name in names:
            del self.brokers[name]
            self.on_the_way = [one for one in self.on_the_way if name not in one[:2]]
            self._opened = {pair: None for pair in self._opened if pair[0] != name}
        for name in names:
            for pair in [pair for pair in self._sessions if name in pair]:
                del self._sessions[pair]
                (other,) = pair - {name}
                if other in self.brokers:
                    self.step(other, Silent(name, refused=True))

    def step(self, name: str, event: Any) -> None:
        if name in self.brokers:
            self._do(name, self.brokers[name].step(event, 0))

    def fire(self, name: str, timer: Timer) -> None:
        self.step(name, TimerFired(timer))

    def _do(self, name: str, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Open):
                self._opened[name, effect.peer] = None
                self._connect(name, effect.peer)
            elif isinstance(effect, Close):
                self.closed.append((name, effect.peer, effect.reason))
                self._opened.pop((name, effect.peer), None)
                if self._sessions.pop(frozenset((name, effect.peer)), 0) is None:
                    self.on_the_way = [one for one in self.on_the_way if {*one[:2]} != {name, effect.peer}]
                    self.step(effect.peer, LinkDown(name, effect.reason))
            elif isinstance(effect, Send) and effect.peer in self._parents:
                if frozenset((name, effect.peer)) in self._sessions:
                    self.said.append((name, effect.peer, effect.message))
                    self.on_the_way.append((name, effect.peer, effect.message))
            elif isinstance(effect, Send):
                self.told.setdefault(effect.peer, []).append(effect.message)

    def _connect(self, name: str, peer: str) -> None:
        if peer not in self.brokers:
            self.step(name, Silent(peer, refused=True))
        elif frozenset((name, peer)) not in self._sessions:
            self._sessions[frozenset((name, peer))] = None
            self.step(name, LinkUp(peer, "broker", self._lives[peer], ROOM))
            self.step(peer, LinkUp(name, "broker", self._lives[name], ROOM))

    def settle(self, until: Callable[[], bool] = lambda: False) -> None:
        """Everything comes, but for what is stopped."""
        while (
            not until()
            and (taken := next((one for one in self.on_the_way if one[:2] not in self.stopped), None)) is not None
        ):
            self.on_the_way.remove(taken)
            sender, receiver, message = taken
            self.step(receiver, Received(sender, message))

    def stop(self, sender: str, receiver: str) -> None:
        self.stopped[sender, receiver] = None

    # -- clients -------------------------------------------------------------------------------------------------------

    def attach(self, client: str, broker: str, **attend: Any) -> None:
        self._homes[client] = broker
        self.step(broker, LinkUp(client, "client", 1, ROOM))
        self.step(broker, Received(client, Attend(0, **attend)))

    def subscribe(self, client: str, filter: str = "t", where: str | None = None, id: int = 1) -> None:
        self.step(self._homes[client], Received(client, Subscribe(id, filter, where)))

    def unsubscribe(self, client: str, id: int = 1) -> None:
        self.step(self._homes[client], Received(client, Unsubscribe(id)))

    def publish(self, client: str, topic: str = "t", first: int | None = None) -> None:
        bundle = (
            self._bundles.bundle(client, topic) if first is None else self._bundles.bundle(client, topic, first=first)
        )
        self.step(self._homes[client], Received(client, Publish(bundle)))

    def read(self, client: str) -> list[tuple[str, int]]:
        return [(one.bundle.publisher, one.bundle.first) for one in self._told(client, Delivery)]

    def is_subscribed(self, client: str) -> bool:
        return bool(self._told(client, Subscribed))

    def safe(self, client: str) -> int:
        """Up to which of its publications."""
        return max((one.seq for one in self._told(client, Turned) if one.receipt.label == "safe"), default=0)

    def _told(self, client: str, kind: type[Any]) -> list[Any]:
        return [one for one in self.told.get(client, []) if isinstance(one, kind)]

    # -- what was said -------------------------------------------------------------------------------------------------

    def between(self, sender: str, receiver: str, kind: type[Any]) -> list[Any]:
        return [
            message for one, other, message in self.said if (one, other) == (sender, receiver) and type(message) is kind
        ]


def chain(*names: str) -> dict[str, str | None]:
    return dict(zip(names, (None, *names), strict=False))


def reading(*names: str, **options: int) -> DeltaNet:
    """In a row, with a publisher `p` at the first and a reader at each."""
    net = DeltaNet(chain(*names), **options)
    net.attach("p", names[0])
    for name in names:
        net.attach(f"c{name}", name)
        net.subscribe(f"c{name}")
    net.settle()
    return net
