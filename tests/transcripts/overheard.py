"""Listens to the brokers of a run: every message that one of them sends, or hears from a client, and what is observed
meanwhile, in the order in which it happens."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import msgspec

from resprout.core.contract import Effect, Event, Received, Send
from resprout.scenario.model import Scenario
from resprout.sim.run import run_scenario
from resprout.stacks.resprout import RESPROUT, ResproutBroker, ResproutOptions
from resprout.stacks.stack import REPLACED, BrokerSeat
from resprout.trace.schema import Row
from resprout.trace.store import Recorder


class Said(msgspec.Struct, frozen=True):
    """A message; its time is that of its sender, but for what a client said, which is heard at its broker."""

    time_us: int
    sender: str
    receiver: str
    message: Any


Heard = Said | Row


class _Ear(Recorder):
    def __init__(self) -> None:
        super().__init__()
        self.heard: list[Heard] = []

    def record(self, row: Row) -> None:
        super().record(row)
        self.heard.append(row)


def overhear(scenario: Scenario) -> list[Heard]:
    """Runs a scenario of the default stack."""
    ear = _Ear()
    clients = {client.name for client in scenario.clients}
    with _brokers_that_are_heard(ear.heard, clients):
        result = run_scenario(scenario, ear)
    assert result.ended == "quiescent"
    return ear.heard


@contextmanager
def _brokers_that_are_heard(heard: list[Heard], clients: set[str]) -> Iterator[None]:
    class Overheard(ResproutBroker):
        def step(self, event: Event, now_us: int) -> Sequence[Effect]:
            if isinstance(event, Received) and event.peer in clients:
                heard.append(Said(now_us, event.peer, name_of[self], event.message))
            effects = super().step(event, now_us)
            sent = [effect for effect in effects if isinstance(effect, Send)]
            heard.extend(Said(now_us, name_of[self], effect.peer, effect.message) for effect in sent)
            return effects

    def make(seat: BrokerSeat, options: ResproutOptions, rng: random.Random) -> Overheard:
        broker = Overheard(seat, options, rng)
        name_of[broker] = seat.name
        return broker

    name_of: dict[Overheard, str] = {}
    stack = msgspec.structs.replace(RESPROUT, make_broker=make)
    with mock.patch.dict(REPLACED, {RESPROUT.name: stack}):
        yield
