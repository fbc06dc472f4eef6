"""Durable subscriptions that were ended are remembered, and cost whoever ends them: clients can begin and end many."""

from typing import Any

import msgspec
import pytest

from resprout.core.contract import Received
from resprout.edge.durable_messages import Terms
from resprout.overlay.messages import Life
from resprout.stacks.resprout import durable_book
from resprout.stacks.resprout.broker import ResproutBroker
from resprout.stacks.resprout.durable_state import DurableKnown, DurableState
from tests.stacks.test_hostile import broker_with


class CountedStates(dict[str, DurableState]):
    """Counts how often all states are looked at."""

    scans = 0

    def values(self) -> Any:
        self.scans += 1
        return super().values()

    def items(self) -> Any:
        self.scans += 1
        return super().items()


def state_of(name: str, owner: str = "", over: bool = False, home: str = "far") -> DurableState:
    terms = Terms("t", None, False)
    return DurableState(name, terms, 1, Life(home, 1), "", edition=1 + over, owner=owner, over=over)


def hear(broker: ResproutBroker, state: DurableState) -> None:
    broker.step(Received("n", DurableKnown(state)), 0)


def begin_and_end(broker: ResproutBroker, name: str, owner: str = "") -> None:
    hear(broker, state_of(name, owner))
    hear(broker, state_of(name, owner, over=True))


def test_room_for_one_more_durable_subscription_is_found_without_looking_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(durable_book, "SUBSCRIPTIONS_MAX", 20)
    broker = broker_with()
    book = broker.parts.client_book.durables
    book.states = states = CountedStates()
    for number in range(19):
        hear(broker, state_of(f"live{number}"))
    for number in range(30):
        begin_and_end(broker, f"d{number}")
        assert not book.is_full(), "an ended one makes room"
    assert states.scans == 0
    assert len(states) == 20 and [name for name in states if name.startswith("d")] == ["d29"]


def test_a_home_that_begins_and_ends_many_remembers_no_more_than_the_network_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What this broker said itself made no room, so a client that began and ended without end took all memory."""
    monkeypatch.setattr(durable_book, "SUBSCRIPTIONS_MAX", 5)
    broker = broker_with()
    book = broker.parts.client_book.durables
    for number in range(30):
        for over in (False, True):
            book.say(state_of(f"d{number}", over=over, home="b"))
    assert list(book.states) == [f"d{number}" for number in range(25, 30)]


def test_an_identity_that_ends_many_has_its_own_forgotten_and_nobody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable_book, "ENDED_PER_OWNER_MAX", 3)
    broker = broker_with()
    states = broker.parts.client_book.durables.states
    begin_and_end(broker, "honest", "teller")
    begin_and_end(broker, "free")
    for number in range(10):
        begin_and_end(broker, f"d{number}", "mallory")
    assert list(states) == ["honest", "free", "d7", "d8", "d9"]


def test_one_that_begins_again_is_not_forgotten_as_an_ended_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable_book, "SUBSCRIPTIONS_MAX", 2)
    broker = broker_with()
    book = broker.parts.client_book.durables
    begin_and_end(broker, "d", "teller")
    hear(broker, msgspec.structs.replace(state_of("d", "teller"), term=2))
    hear(broker, state_of("other"))
    assert book.is_full()
    begin_and_end(broker, "more")
    assert not book.states["d"].over and not book.states["other"].over
