"""A stack that hangs above links that go on, and scenarios that ask for it."""

import random

import pytest

from resprout.core.contract import (
    Arrived,
    Connected,
    Effect,
    Event,
    LinkDown,
    LinkUp,
    Received,
    Send,
    Transmit,
    Writable,
)
from resprout.core.errors import UsageError
from resprout.links.frames import Data, Goodbye, Hello
from resprout.links.links import Links
from resprout.net.run.schedule import check_runnable
from resprout.overlay.messages import Probe, Probed
from resprout.scenario.load import parse_scenario
from resprout.scenario.source import ScenarioError
from resprout.sim.faults import HungStack
from resprout.sim.swarm import try_seeds
from tests.soak import cases

BLOCK = 5
TREE = '[[broker]]\nname = "b0"\n[[broker]]\nname = "b1"\nparent = "b0"\n[[client]]\nname = "c"\nbroker = "b1"\n'


class Echo:
    """Answers every message."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def start(self, now_us: int) -> list[Effect]:
        return []

    def step(self, event: Event, now_us: int) -> list[Effect]:
        self.events.append(event)
        return [Send(event.peer, Probed(event.message.number))] if isinstance(event, Received) else []


class Stage:
    """One node, and a peer `p` that talks to it."""

    def __init__(self) -> None:
        self.stack = Echo()
        self.links = Links(self.stack, name="b", role="broker", incarnation=1, rng=random.Random(1))
        self.links.start(0)
        self.connection = 0
        self.said = 0

    def call(self, incarnation: int = 1) -> None:
        self.connection += 1
        self.said = 0
        self.links.step(Connected(self.connection, None), 0)
        self.hear(Hello(1, "p", "broker", incarnation, "b", None, incarnation, 0, 1 << 20))

    def say(self, number: int) -> list[object]:
        self.said += 1
        return self.hear(Data(self.said, 0, 1 << 20, (Probe(number),)))

    def hear(self, frame: object) -> list[object]:
        out = self.links.step(Arrived(self.connection, frame), 0)
        return [message for effect in out if isinstance(effect, Transmit) for message in _messages(effect.frame)]

    def go_on(self, hung: HungStack) -> list[object]:
        out = [effect for event in hung.replay() for effect in self.links.step(event, 0)]
        return [message for effect in out if isinstance(effect, Transmit) for message in _messages(effect.frame)]


def _messages(frame: object) -> tuple[object, ...]:
    return tuple(getattr(frame, "messages", ()))


def test_what_comes_to_a_stack_that_hangs_is_acknowledged_and_handled_in_order_when_it_goes_on() -> None:
    stage = Stage()
    stage.call()
    assert stage.say(1) == [Probed(1)]
    hung = HungStack(stage.links)
    assert stage.say(2) == stage.say(3) == []
    assert [status.received for status in stage.links.sessions()] == [3]
    assert stage.go_on(hung) == [Probed(2), Probed(3)]
    assert stage.say(4) == [Probed(4)]
    assert stage.links.machine is stage.stack


def test_what_a_stack_says_late_does_not_get_into_a_session_that_began_meanwhile() -> None:
    stage = Stage()
    stage.call()
    hung = HungStack(stage.links)
    stage.say(1)
    stage.hear(Goodbye("declared dead", 0))
    stage.call(incarnation=2)
    stage.say(2)
    assert stage.go_on(hung) == [Probed(2)]
    kinds = [type(event) for event in stage.stack.events]
    assert kinds == [LinkUp, Received, LinkDown, LinkUp, Received]


def test_a_stack_that_goes_on_is_told_the_room_that_is_left_then() -> None:
    """`Writable` replaces the number known before. The stack answers what came first, and uses room that was counted
    when it hung: the invariant on windows found it (seed 4 of `hung`)."""
    stage = Stage()
    stage.call()
    hung = HungStack(stage.links)
    hung.step(Writable("p", 1 << 30), 0)
    stage.go_on(hung)
    began, told = stage.stack.events
    assert isinstance(began, LinkUp) and told == Writable("p", began.room)


def test_only_a_broker_that_is_up_can_hang_and_only_one_that_hangs_goes_on() -> None:
    def refusal(*faults: tuple[int, str, str]) -> str:
        rows = [f'[[fault]]\nat = "{at}s"\nkind = "{kind}"\nnodes = ["{name}"]\n' for at, kind, name in faults]
        with pytest.raises(ScenarioError) as refused:
            parse_scenario(TREE + "".join(rows))
        return str(refused.value)

    assert "only a broker can hang, and 'c' is a client" in refusal((1, "hang", "c"))
    assert "'b1' cannot unhang: it is up by then" in refusal((1, "unhang", "b1"))
    assert "'b1' cannot hang: it is hung by then" in refusal((1, "hang", "b1"), (2, "hang", "b1"))
    assert "'b1' cannot freeze: it is hung by then" in refusal((1, "hang", "b1"), (2, "freeze", "b1"))
    assert "'b1' cannot leave: it is hung by then" in refusal((1, "hang", "b1"), (2, "leave", "b1"))


def test_a_hang_is_refused_where_brokers_are_processes() -> None:
    scenario = parse_scenario(f'{TREE}[[fault]]\nat = "1s"\nkind = "hang"\nnodes = ["b1"]\n')
    with pytest.raises(UsageError, match="b1 hangs: no signal does that to a process"):
        check_runnable(scenario)


@pytest.mark.parametrize("first", range(1, cases(6, 31), BLOCK))
def test_drawn_brokers_that_hang_cost_nobody_anything(first: int) -> None:
    failures = [outcome.report for outcome in try_seeds(range(first, first + BLOCK), wanted="hung") if outcome.failed]
    assert not failures, "\n\n".join(failures)
