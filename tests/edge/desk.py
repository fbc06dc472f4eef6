"""One broker of any stack, alone in its network, and the clients that talk to it message by message.

Alone, a broker calls at once safe what it has, so whatever it does not do at once is the doing of its edge.
"""

import random
from collections.abc import Sequence
from typing import Any

from resprout.core.bundle import Bundle, pack_attributes, pack_payloads
from resprout.core.contract import (
    CancelTimer,
    Close,
    Effect,
    Event,
    Hold,
    LinkUp,
    Received,
    Release,
    Send,
    SetTimer,
    TimerFired,
    Writable,
)  # fmt: skip
from resprout.core.guarantee import Guarantee
from resprout.edge.messages import Attend, Delivery, Publish, Serving
from resprout.scenario.model import OptionValue
from resprout.stacks.stack import BrokerSeat, find_stack
from tests.network import Alarms

ROOM = 1 << 20


class Desk:
    def __init__(self, stack: str, **options: OptionValue) -> None:
        self.stack = find_stack(stack)
        made = self.stack.parse_options(options)
        self.machine = self.stack.make_broker(BrokerSeat("b0", 1, None), made, random.Random(1))
        self.guarantee: Guarantee = max(g for g in self.stack.guarantees if g is not Guarantee.TOTAL)
        """The strongest that needs nobody else."""
        self.held: list[str] = []
        self.closed: dict[str, str] = {}
        self._alarms: Alarms[str] = Alarms()
        self._said: dict[str, list[Any]] = {}
        self._last: dict[str, int] = {}
        self._do(self.machine.start(0))

    @property
    def now_us(self) -> int:
        return self._alarms.now_us

    def step(self, event: Event) -> None:
        self._do(self.machine.step(event, self.now_us))

    def _do(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(peer, message):
                    self._said.setdefault(peer, []).append(message)
                case Hold(peer):
                    self.held.append(peer)
                case Release(peer):
                    self.held.remove(peer)
                case Close(peer, reason):
                    self.closed[peer] = reason
                case SetTimer(timer, at_us):
                    self._alarms.set("b0", timer, at_us)
                case CancelTimer(timer):
                    self._alarms.cancel("b0", timer)

    def wait(self, us: int) -> None:
        """Whatever is due within this time happens."""
        end = self.now_us + us
        while due := self._alarms.first(but=lambda timer, at_us: at_us > end):
            self._alarms.fire(*due)
            self.step(TimerFired(due[1]))
        self._alarms.now_us = end

    # -- clients -------------------------------------------------------------------------------------------------------

    def come(self, name: str, room: int = ROOM) -> None:
        self.step(LinkUp(name, "client", 1, room))

    def serve(self, *names: str, room: int = ROOM) -> Serving:
        for name in names:
            self.come(name, room)
            self.say(name, Attend(0))
            (serving,) = self.heard(name)
        assert isinstance(serving, Serving)
        return serving

    def say(self, name: str, *messages: Any) -> None:
        for message in messages:
            self.step(Received(name, message))

    def room(self, name: str, room: int = ROOM) -> None:
        self.step(Writable(name, room))

    def heard(self, name: str) -> list[Any]:
        """What it was told since the last time."""
        return self._said.pop(name, [])

    def given(self, name: str) -> list[int]:
        """The numbers of what it was delivered since the last time."""
        return [message.bundle.first for message in self.heard(name) if isinstance(message, Delivery)]

    def publish(self, name: str, topic: str = "t", times: int = 1) -> None:
        for _ in range(times):
            self.say(name, Publish(self.bundle(name, topic)))

    def bundle(
        self, name: str, topic: str = "t", *, first: int = 0, count: int = 1, life: int = 1, payloads: bytes = b""
    ) -> Bundle:
        """The next one of this client, unless another number is given."""
        first = first or self._last.get(name, 0) + 1
        self._last[name] = first + count - 1
        rows: list[Any] = [{} for _ in range(count)]
        return Bundle(
            name, life, first, count, 0, topic, (), self.guarantee, pack_attributes(rows),
            payloads or pack_payloads([b"x"] * count),
        )  # fmt: skip
