"""The outbox: one window for each peer, whoever speaks, and one order."""

import random
from collections.abc import Callable

import pytest

from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.contract import ProtocolMessage, Send
from resprout.core.guarantee import Guarantee
from resprout.order.messages import Forward, Levels, Lock, Submit
from resprout.overlay.messages import Alive, Ping
from resprout.stacks.peers import Outbox
from resprout.stacks.resprout.messages import Item, ParcelRows
from resprout.stacks.shell import Step
from resprout_lab.ginger.messages import LostMessage


def bundle(number: int, size: int = 36) -> Bundle:
    """Costs 103 bytes with the default size."""
    return Bundle("p", 1, number, 1, 1, "t", (), Guarantee.CAUSAL, b"", pack_payloads([bytes(size)]))


class Desk:
    def __init__(self, room: int) -> None:
        self.step = Step()
        self.outbox = Outbox(self.step)
        self.outbox.begin("b1", room)

    def sent(self) -> list[ProtocolMessage]:
        """Since the last look."""
        taken = [effect.message for effect in self.step.out if isinstance(effect, Send)]
        self.step.out = []
        return taken


COSTLY: dict[str, Callable[[int], ProtocolMessage]] = {
    "bundle": lambda n: Forward(bundle(n), 1, False),
    "submit": lambda n: Submit(bundle(n)),
    "lock": lambda n: Lock(0, n, bundle(n)),
    "parcel": lambda n: ParcelRows((Item(bundle(n), 0, 1, False),)),
    "lost": lambda n: LostMessage(bundle(n), 1, False),
}


@pytest.mark.parametrize("kind", COSTLY)
def test_whatever_carries_a_bundle_is_charged_to_the_same_window(kind: str) -> None:
    desk = Desk(room=1000)
    message = COSTLY[kind](1)
    assert desk.outbox.send("b1", message) == 1000 - message.cost <= 1000 - bundle(1).cost
    assert desk.outbox.send("b1", Alive("x")) == desk.outbox.room("b1") == 1000 - message.cost
    assert desk.sent() == [message, Alive("x")]


def test_without_room_the_first_that_costs_waits_and_everything_behind_it() -> None:
    desk = Desk(room=100)
    desk.outbox.send("b1", COSTLY["parcel"](1))
    assert desk.outbox.room("b1") < 0 and not desk.outbox.waiting("b1")
    desk.outbox.send("b1", Alive("x"))
    desk.outbox.send("b1", COSTLY["lock"](2))
    desk.outbox.send("b1", Alive("y"))
    assert desk.sent() == [COSTLY["parcel"](1), Alive("x")]
    assert desk.outbox.waiting("b1") == 2
    assert desk.outbox.room("b1") == 0, "whoever asks before it speaks waits behind what waits"
    desk.outbox.writable("b1", 50)
    assert desk.sent() == [COSTLY["lock"](2), Alive("y")]


def test_signs_of_life_and_what_makes_room_do_not_wait() -> None:
    desk = Desk(room=0)
    levels = Levels((1,), (), (), (), 1)
    desk.outbox.send("b1", COSTLY["bundle"](1))
    desk.outbox.send("b1", Ping(5, 1))
    desk.outbox.pass_by("b1", levels)
    assert desk.sent() == [Ping(5, 1), levels]
    with pytest.raises(AssertionError):
        desk.outbox.pass_by("b1", COSTLY["bundle"](2))


def test_a_new_session_begins_with_its_own_window_and_without_what_waited() -> None:
    desk = Desk(room=0)
    desk.outbox.send("b1", COSTLY["bundle"](1))
    desk.outbox.begin("b1", 500)
    assert desk.outbox.room("b1") == 500 and not desk.outbox.waiting("b1")
    desk.outbox.rename("b1", "b2")
    assert (desk.outbox.room("b1"), desk.outbox.room("b2")) == (0, 500)
    desk.outbox.end("b2")
    desk.outbox.writable("b2", 1000)
    assert desk.outbox.send("b2", Alive("x")) == 0
    assert desk.sent() == [], "to nobody"


@pytest.mark.parametrize("seed", range(20))
def test_the_room_that_is_left_is_the_window_less_the_cost_of_all_that_left(seed: int) -> None:
    desk, rng = Desk(room=400), random.Random(seed)
    window, gone = 400, 0
    said: list[ProtocolMessage] = []
    left: list[ProtocolMessage] = []
    for number in range(1, 80):
        message = Alive(f"b{number}") if rng.random() < 0.3 else rng.choice(list(COSTLY.values()))(number)
        said.append(message)
        desk.outbox.send("b1", message)
        news = desk.sent()
        left += news
        gone += sum(message.cost for message in news)
        if rng.random() < 0.2:
            window, gone = rng.randint(-50, 600), 0
            desk.outbox.writable("b1", window)
            news = desk.sent()
            left += news
            gone = sum(message.cost for message in news)
        assert left == said[: len(left)]
        assert desk.outbox.room("b1") == (0 if desk.outbox.waiting("b1") else window - gone)
