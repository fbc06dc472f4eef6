"""Flooding along a tree: calm runs are clean, each publication crosses each link once, and crashes are beyond it."""

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from resprout.audit.judge import judge
from resprout.core.bundle import Bundle
from resprout.core.contract import Close, Effect, Event, Hold, LinkUp, Received, Release, Send, Writable
from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee
from resprout.edge.messages import Attend, Publish, Subscribe, Taken
from resprout.edge.requests import SessionLost
from resprout.scenario.draw import draw_scenario
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import FaultKind, FaultSpec, Scenario
from resprout.sim.run import run_scenario
from resprout.spread.messages import Interested
from resprout.stacks.stack import BrokerSeat
from resprout_lab.blocks.tree import Join, Joined
from resprout_lab.flood import FLOOD
from resprout_lab.flood.broker import FloodBroker, Flooded, FloodOptions
from tests.edge.desk import Desk
from tests.soak import cases
from tests.stacks.asking import ask

ROOM = 1 << 20


def row(options: str = "", guarantee: str = "eventual", operations: int = 30) -> Scenario:
    """Four brokers in a row; the first and the last have a client that publishes and reads `t`, the second one that
    reads `u`, which nobody publishes."""
    brokers = "".join(
        f'[[broker]]\nname = "b{no}"\nlatency = "3ms"\n' + (f'parent = "b{no - 1}"\n' if no else "") for no in range(4)
    )
    return parse_scenario(f"""
stack = "flood"
seed = 5
time_limit = "60s"
[options]
{options}
{brokers}
[[client]]
name = "c0"
broker = "b0"
subscribe = ["t"]
[[client]]
name = "c1"
broker = "b1"
subscribe = ["u"]
[[client]]
name = "c3"
broker = "b3"
subscribe = ["t"]
[[workload]]
kind = "random"
clients = ["c0", "c3"]
topics = ["t"]
operations = {operations}
mix = {{ {guarantee} = 1.0 }}
interval = "20ms"
start = "1s"
""")


def strike(*faults: FaultSpec) -> Scenario:
    return msgspec.structs.replace(row(operations=100), faults=faults)


def crash(at_us: int, name: str) -> FaultSpec:
    return FaultSpec(at_us, FaultKind.CRASH, nodes=(name,))


def recover(at_us: int, name: str) -> FaultSpec:
    return FaultSpec(at_us, FaultKind.RECOVER, nodes=(name,), disk=False)


# -- calm --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("filtered", [False, True])
def test_drawn_networks_without_faults_are_clean(filtered: bool) -> None:
    for seed in range(cases(4, 12)):
        drawn = draw_scenario(seed, stack="flood", guarantees=FLOOD.guarantees, options={"filtered": (filtered,)})
        result = run_scenario(drawn)
        verdict = judge(result.rows, promise=FLOOD.promise())
        assert result.ended == "quiescent" and not verdict.violated, f"seed {seed}: {verdict.anomalies[:3]}"


@pytest.mark.parametrize("options", ["", "filtered = true"])
def test_everything_crosses_each_link_once(options: str, monkeypatch: pytest.MonkeyPatch) -> None:
    crossed: list[tuple[str, Bundle]] = []
    step = FloodBroker.step

    def overheard(self: FloodBroker, event: Event, now_us: int) -> Sequence[Effect]:
        effects = step(self, event, now_us)
        sent = [effect for effect in effects if isinstance(effect, Send) and isinstance(effect.message, Flooded)]
        crossed.extend((effect.peer, effect.message.bundle) for effect in sent)
        return effects

    monkeypatch.setattr(FloodBroker, "step", overheard)
    result = run_scenario(row(options))
    assert sum(bundle.count for _, bundle in crossed) == 60 * 3
    assert sum(one.kind == "deliver" for one in result.rows) == 60 * 2


def test_with_filters_a_link_is_spared_what_nobody_behind_it_wants() -> None:
    filtered, plain = Network(filtered=True), Network()
    filtered.subscribe("b1", "t")
    for net in (filtered, plain):
        net.publish("t", "u")
    assert filtered.sent_to("b1") == ["t"]
    assert plain.sent_to("b1") == ["t", "u"]


# -- what is beyond it -------------------------------------------------------------------------------------------------


def test_what_a_dead_broker_should_have_passed_on_is_lost_and_the_judge_says_so() -> None:
    verdict = judge(run_scenario(strike(crash(1_500_000, "b2"))).rows, promise=FLOOD.promise())
    assert {anomaly.rule for anomaly in verdict.anomalies} == {"lost"}
    assert FLOOD.survives(FloodOptions()).faults == 0, "it never said that it would survive this"


@pytest.mark.parametrize("name", ["b0", "b1", "b2"])
def test_a_broker_that_returns_is_taken_in_and_all_goes_on(name: str) -> None:
    result = run_scenario(strike(crash(1_500_000, name), recover(1_800_000, name)))
    got = {(one.node, one.publisher, one.seq) for one in result.rows if one.kind == "deliver"}
    assert result.ended == "quiescent"
    assert ("c0", "c3", 100) in got and ("c3", "c0", 100) in got


def test_clients_of_a_dead_broker_go_on_at_a_neighbour_and_are_told() -> None:
    told = ask(strike(crash(1_500_000, "b3")), (), ())
    assert told.news(SessionLost, "c3")
    last = [one.seq for one in told.rows if one.kind == "deliver" and one.node == "c0" and one.publisher == "c3"]
    assert last[-1] == 100 and len(last) == len(set(last)), "what it publishes comes, once"


# -- what it refuses ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("guarantee", ["fifo", "causal", "total"])
def test_other_guarantees_are_refused_in_one_line(guarantee: str) -> None:
    with pytest.raises(UsageError) as error:
        row(guarantee=guarantee)
    assert str(error.value).endswith(f"does not offer '{guarantee}'; it offers eventual")
    assert "\n" not in str(error.value)


def test_a_client_that_publishes_what_is_not_offered_is_cut_off() -> None:
    desk = Desk("flood")
    desk.serve("c")
    desk.guarantee = Guarantee.CAUSAL
    desk.publish("c")
    assert desk.closed == {"c": "the stack 'flood' does not offer 'causal'; it offers eventual"}


def test_options_that_cannot_be_are_refused() -> None:
    for bad in ({"buffer": 0}, {"filtered": 1}, {"faults_tolerated": 1}):
        with pytest.raises(UsageError):
            FLOOD.parse_options(bad)


# -- one broker, and hands on its links --------------------------------------------------------------------------------


class Network:
    """A root with a child `b1` and two clients, `p` who publishes and `s` who reads."""

    def __init__(self, filtered: bool = False, room: int = ROOM, buffer: int = 100) -> None:
        self.machine = FloodBroker(BrokerSeat("b0", 1, None), FloodOptions(filtered, buffer), random.Random(1))
        self.effects: list[Effect] = []
        self._desk = Desk("flood")
        self.do(self.machine.start(0))
        self.step(LinkUp("b1", "broker", 1, room))
        self.say("b1", Join())
        for name in ("p", "s"):
            self.step(LinkUp(name, "client", 1, ROOM))
            self.say(name, Attend(0))

    def do(self, effects: Sequence[Effect]) -> None:
        self.effects.extend(effects)

    def step(self, event: Any) -> None:
        self.do(self.machine.step(event, 0))

    def say(self, name: str, *messages: Any) -> None:
        for message in messages:
            self.step(Received(name, message))

    def subscribe(self, name: str, topic: str) -> None:
        self.say(name, Interested(1, topic, None) if name == "b1" else Subscribe(1, topic, None))

    def publish(self, *topics: str) -> None:
        for topic in topics:
            self.say("p", Publish(self._desk.bundle("p", topic)))

    def sent_to(self, name: str) -> list[str]:
        said = [effect.message for effect in self.effects if isinstance(effect, Send) and effect.peer == name]
        return [message.bundle.topic for message in said if isinstance(message, Flooded)]

    def of(self, kind: type) -> list[str]:
        return [effect.peer for effect in self.effects if isinstance(effect, kind)]  # type: ignore[attr-defined]


def test_a_link_without_room_holds_the_publisher_back_and_loses_nothing() -> None:
    net = Network(room=1, buffer=3)
    net.publish(*["t"] * 5)
    assert net.sent_to("b1") == ["t"], "the others wait"
    assert net.of(Hold) == ["p"]
    net.step(Writable("b1", ROOM))
    assert net.sent_to("b1") == ["t"] * 5 and net.of(Release) == ["p"]


def test_a_neighbour_is_held_back_by_readers_and_released_when_they_have_all() -> None:
    net = Network(buffer=3)
    net.subscribe("s", "t")
    desk = Desk("flood")
    net.say("b1", *(Flooded(desk.bundle("x"), 1) for _ in range(4)))
    assert net.of(Hold) == ["b1"]
    net.say("s", Taken(4))
    assert net.of(Release) == ["b1"]


def test_what_comes_a_second_time_is_dropped() -> None:
    net = Network()
    net.subscribe("s", "t")
    bundle = Desk("flood").bundle("x")
    net.say("b1", Flooded(bundle, 1), Flooded(bundle, 1))
    deliveries = [e for e in net.effects if isinstance(e, Send) and type(e.message).__name__ == "Delivery"]
    assert len(deliveries) == 1


@pytest.mark.parametrize("wrong", [Joined(), Join(), Interested(1, "t", None), Attend(0)])
def test_a_neighbour_that_breaks_the_rules_is_cut_off(wrong: Any) -> None:
    net = Network()
    net.say("b1", wrong)
    assert net.of(Close) == ["b1"]
    net.publish("t")
    assert net.sent_to("b1") == []


def test_nobody_is_served_before_the_broker_is_in_the_tree() -> None:
    machine = FloodBroker(BrokerSeat("b1", 1, "b0"), FloodOptions(), random.Random(1))
    machine.start(0)
    machine.step(LinkUp("c", "client", 1, ROOM), 0)
    machine.step(LinkUp("b2", "broker", 1, ROOM), 0)
    assert not [*machine.step(Received("c", Attend(0)), 0), *machine.step(Received("b2", Join()), 0)]
    assert list(machine.step(LinkUp("b0", "broker", 1, ROOM), 0)) == [Send("b0", Join())]
    effects = machine.step(Received("b0", Joined()), 0)
    assert [(e.peer, type(e.message).__name__) for e in effects if isinstance(e, Send)] == [
        ("b2", "Joined"),
        ("c", "Serving"),
    ]
