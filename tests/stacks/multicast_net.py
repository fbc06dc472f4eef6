"""Brokers of a causal multicast in hands that carry what they say: in order as links do, or in any, as no link does."""

import random
from collections.abc import Sequence
from typing import Any

import msgspec

from resprout.audit.judge import judge
from resprout.core.bundle import Bundle
from resprout.core.contract import Close, Effect, LinkUp, Received, Send
from resprout.edge.messages import Attend, Delivery, Publish, Subscribe
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import FaultKind, FaultSpec, Scenario
from resprout.sim.run import run_scenario
from resprout.spread.messages import InterestConfirmed, Interested
from resprout.stacks.stack import BrokerSeat, find_stack
from resprout_lab.blocks.causal_order import Changes
from resprout_lab.blocks.multicast.messages import MulticastMessage
from resprout_lab.blocks.tree import Join
from resprout_lab.cbcast.broker import Multicast
from tests.edge.desk import Desk
from tests.network import Streams

ROOM = 1 << 24


def row(guarantee: str = "causal", operations: int = 30, stack: str = "cbcast") -> Scenario:
    """Four brokers in a row; clients at both ends publish and read."""
    brokers = "".join(
        f'[[broker]]\nname = "b{no}"\nlatency = "3ms"\n' + (f'parent = "b{no - 1}"\n' if no else "") for no in range(4)
    )
    return parse_scenario(f"""
stack = "{stack}"
seed = 5
time_limit = "60s"
{brokers}
[[client]]
name = "c0"
broker = "b0"
subscribe = ["t/#"]
[[client]]
name = "c3"
broker = "b3"
subscribe = ["t/#"]
[[workload]]
kind = "random"
topics = ["t/1", "t/2"]
operations = {operations}
mix = {{ {guarantee} = 1.0 }}
interval = "20ms"
start = "1s"
""")


def strike(*faults: FaultSpec, stack: str = "cbcast") -> Scenario:
    return msgspec.structs.replace(row(operations=100, stack=stack), faults=faults)


def broker(stack: str, seat: BrokerSeat, **options: int) -> Any:
    found = find_stack(stack)
    return found.make_broker(seat, found.parse_options(options), random.Random(1))


def crash(stack: str, *names: str) -> Scenario:
    return strike(FaultSpec(1_500_000, FaultKind.CRASH, nodes=names), stack=stack)


def rules(scenario: Scenario) -> set[str]:
    """What the judge complains of."""
    result = run_scenario(scenario)
    found = {anomaly.rule for anomaly in judge(result.rows, promise=find_stack(scenario.stack).promise()).anomalies}
    return found | ({"stuck"} if result.ended != "quiescent" else set())


def message(publisher: str, sender: str, clocks: Changes, *skipped: int, topic: str = "t", first: int = 1) -> Multicast:
    return Multicast(Desk("cbcast").bundle(publisher, topic, first=first), 1, sender, skipped, clocks)


FIRST = message("x", "b7/1", (("t", (("b7/1", 1),)),))
SECOND = message("x", "b7/1", (("t", (("b7/1", 2),)),), first=2)
ANSWER = message("y", "b8/1", (("t", (("b7/1", 1),)), ("u", (("b8/1", 1),))), topic="u")
"""It was published where the first had been read."""


class OneBroker:
    """A root with two children, `b1` and `b2`, and two clients, `p` who publishes and `s` who reads `t` and `u`."""

    def __init__(self, room: int = ROOM, stack: str = "cbcast", **options: int) -> None:
        self.machine = broker(stack, BrokerSeat("b0", 1, None), **options)
        self.effects: list[Effect] = []
        self.bundles = Desk(stack)
        self.effects.extend(self.machine.start(0))
        for name in ("b1", "b2"):
            self.join(name, room)
        for name in ("p", "s"):
            self.step(LinkUp(name, "client", 1, ROOM))
            self.say(name, Attend(0))
        self.say("s", Subscribe(1, "t", None), Subscribe(2, "u", None))

    def join(self, name: str, room: int = ROOM) -> None:
        self.step(LinkUp(name, "broker", 1, room))
        self.say(name, Join())

    def step(self, event: Any) -> None:
        self.effects.extend(self.machine.step(event, 0))

    def say(self, name: str, *messages: Any) -> None:
        for message in messages:
            self.step(Received(name, message))

    def confirm(self, name: str) -> None:
        """This neighbour, and everybody behind it, has recorded what it was asked."""
        self.say(name, *[InterestConfirmed(ask.id) for ask in self.said(name, Interested)])

    def publish(self, topic: str = "t") -> None:
        self.say("p", Publish(self.bundles.bundle("p", topic)))

    def said(self, name: str, kind: type[Any]) -> list[Any]:
        sent = [effect.message for effect in self.effects if isinstance(effect, Send) and effect.peer == name]
        return [message for message in sent if isinstance(message, kind)]

    def shown(self, name: str = "s") -> list[tuple[str, int]]:
        return [(one.bundle.publisher, one.bundle.first) for one in self.said(name, Delivery)]

    @property
    def closed(self) -> dict[str, str]:
        return {effect.peer: effect.reason for effect in self.effects if isinstance(effect, Close)}


class Carried:
    """Brokers in a random tree, with a client each that reads everything and publishes. Each publication is remembered
    with what its publisher had read before it."""

    def __init__(self, seed: int, brokers: int = 6, stack: str = "cbcast") -> None:
        self.rng = random.Random(seed)
        self.names = [f"b{no}" for no in range(brokers)]
        parents = {name: self.names[self.rng.randrange(no)] if no else None for no, name in enumerate(self.names)}
        self.machines = {name: broker(stack, BrokerSeat(name, 1, parents[name])) for name in self.names}
        self._streams: Streams[Any] = Streams()
        self.read: dict[str, list[tuple[str, int]]] = {name: [] for name in self.names}
        self.past: dict[tuple[str, int], tuple[tuple[str, int], ...]] = {}
        self._bundles = Desk(stack)
        for name in self.names:
            self.do(name, self.machines[name].start(0))
        for name, parent in parents.items():
            if parent is not None:
                self.step(parent, LinkUp(name, "broker", 1, ROOM))
                self.step(name, LinkUp(parent, "broker", 1, ROOM))
            self.settle()
            self.step(name, LinkUp(f"c{name}", "client", 1, ROOM))
            for message in (Attend(0), Subscribe(1, "#", None)):
                self.step(name, Received(f"c{name}", message))
        self.settle()

    def step(self, name: str, event: Any) -> None:
        self.do(name, self.machines[name].step(event, 0))

    def do(self, name: str, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send) and effect.peer in self.machines:
                self._streams.put(name, effect.peer, effect.message)
            elif isinstance(effect, Send) and isinstance(effect.message, Delivery):
                self.read[name].append(_key(effect.message.bundle))
            assert not isinstance(effect, Close), effect

    def publish(self, name: str, topic: str) -> None:
        bundle = self._bundles.bundle(f"c{name}", topic)
        self.past[_key(bundle)] = (*self.read[name], *[key for key in self.past if key[0] == f"c{name}"])
        self.step(name, Received(f"c{name}", Publish(bundle)))

    def carry_any(self) -> None:
        """Publications in any order, whatever else is said in the order of its link."""
        sender, receiver = self.rng.choice(self._streams.busy())
        under_way = self._streams.between(sender, receiver)
        place = self.rng.randrange(len(under_way))
        if not isinstance(under_way[place], MulticastMessage):
            place = next(place for place, one in enumerate(under_way) if not isinstance(one, MulticastMessage))
        self.step(receiver, Received(sender, self._streams.take(sender, receiver, place)))

    def settle(self) -> None:
        while busy := self._streams.busy():
            sender, receiver = busy[0]
            self.step(receiver, Received(sender, self._streams.take(sender, receiver)))

    def run_out_of_order(self, operations: int = 40) -> None:
        for _ in range(operations):
            self.publish(self.rng.choice(self.names), self.rng.choice(("t", "u", "v")))
            while self._streams.busy() and self.rng.random() < 0.8:
                self.carry_any()
        while self._streams.busy():
            self.carry_any()

    def too_early(self) -> list[tuple[tuple[str, int], tuple[str, int]]]:
        """(what was read, what should have been read before it), at any reader."""
        found = []
        for order in self.read.values():
            places = {key: place for place, key in enumerate(order)}
            for key, place in places.items():
                found += [(key, before) for before in self.past[key] if places.get(before, 1 << 60) > place]
        return found


def _key(bundle: Bundle) -> tuple[str, int]:
    return bundle.publisher, bundle.first
