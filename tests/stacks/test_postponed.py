"""Subscriptions that a client begins and ends faster than neighbours take them: the client waits, and nobody else.

A client that ended a subscription to `t/#`, which covered 90,000 others, made its broker say 90,000 messages in one
step: more than a session kept, so the link ended, and with it the life of the broker.
"""

from collections.abc import Iterable
from typing import Any

import pytest

from resprout.core.contract import Congested, LinkDown, LinkUp, Received, Send, SetTimer, TimerFired
from resprout.core.limits import ClientLimits
from resprout.edge.messages import Attend, Publish, Subscribe, SubscribeRefused, Unsubscribe, Unsubscribed
from resprout.spread.messages import Interested, Uninterested
from resprout.stacks.resprout import ResproutBroker
from resprout.stacks.resprout import subscribing as postponed_module
from resprout.stacks.resprout.subscribing import DROP_PORTION as LEAVING_PORTION
from resprout.stacks.resprout.subscribing import DropMore, TakeUpRequests
from tests.stacks.test_hostile import broker_with, bundle, closed


def told(effects: Iterable[Any], peer: str, *kinds: type) -> list[Any]:
    """What a peer is told of these kinds."""
    sent = [effect.message for effect in effects if isinstance(effect, Send) and effect.peer == peer]
    return [message for message in sent if isinstance(message, kinds)]


def asked(effects: Iterable[Any], peer: str = "n") -> list[str]:
    return [message.filter for message in told(effects, peer, Interested)]


def hear(broker: ResproutBroker, *messages: Any, client: str = "c") -> list[Any]:
    return [effect for message in messages for effect in broker.step(Received(client, message), 0)]


def congested_broker() -> ResproutBroker:
    return broker_with(Congested("n", True))


def relieve(broker: ResproutBroker) -> list[Any]:
    """Take up everything that waits."""
    effects = list(broker.step(Congested("n", False), 0))
    while len(broker.parts.wishes.postponed):
        effects += broker.step(TimerFired(TakeUpRequests()), 0)
    return effects


def test_subscriptions_begin_when_a_neighbour_has_caught_up_in_their_order() -> None:
    broker = congested_broker()
    assert asked(hear(broker, *[Subscribe(id, f"t/{id}", None) for id in (1, 2, 3)])) == []
    assert asked(relieve(broker)) == ["t/1", "t/2", "t/3"]


def test_subscriptions_that_begin_and_end_meanwhile_are_told_to_nobody() -> None:
    broker = congested_broker()
    effects = []
    for id in range(1, 1001):
        effects += hear(broker, Subscribe(id, f"t/{id}", None), Unsubscribe(id))
        assert len(broker.parts.wishes.postponed) == 0
    assert len(told(effects, "c", Unsubscribed)) == 1000
    assert told([*effects, *relieve(broker)], "n", Interested, Uninterested) == []


def test_a_portion_of_what_waits_is_taken_up_in_a_step_and_clients_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postponed_module, "TAKE_UP_PORTION", 4)
    broker = broker_with(LinkUp("d", "client", 1, 10_000), Received("d", Attend(0)), Congested("n", True))
    hear(broker, *[Subscribe(id, f"flood/{id}", None) for id in range(1, 10)])
    hear(broker, Subscribe(1, "calm", None), client="d")
    first = list(broker.step(Congested("n", False), 0))
    assert asked(first) == ["flood/1", "calm", "flood/2", "flood/3"]
    assert asked(broker.step(TimerFired(TakeUpRequests()), 0)) == ["flood/4", "flood/5", "flood/6", "flood/7"]
    broker.step(Congested("m", True), 0)
    assert asked(broker.step(TimerFired(TakeUpRequests()), 0)) == [], "another neighbour lags behind"


def test_others_publish_and_end_their_subscriptions_in_their_order_meanwhile() -> None:
    broker = broker_with()
    hear(broker, Subscribe(1, "a", None))
    broker.step(Congested("n", True), 0)
    assert told(hear(broker, Unsubscribe(1), Subscribe(2, "b", None)), "n", Interested, Uninterested) == []
    effects = relieve(broker)
    assert [type(message) for message in told(effects, "n", Interested, Uninterested)] == [Uninterested, Interested]
    assert told(effects, "c", Unsubscribed) == [Unsubscribed(1)]


def test_what_waits_has_a_bound_and_is_refused_by_the_name_of_the_limit() -> None:
    limits = ClientLimits(identity_subscriptions=5)
    broker = broker_with(LinkUp("d", "client", 1, 10_000, limits=limits), Received("d", Attend(0)))
    broker.step(Congested("n", True), 0)
    effects = hear(broker, *[Subscribe(id, f"t/{id}", None) for id in range(1, 101)], client="d")
    refused = told(effects, "d", SubscribeRefused)
    assert len(refused) == 95 and all("limit identity_subscriptions" in each.reason for each in refused)
    assert len(broker.parts.wishes.postponed) == 5
    hear(broker, *[Unsubscribe(id) for id in range(1, 101)], client="d")
    assert len(broker.parts.wishes.postponed) == 0


def test_a_number_that_is_in_use_is_refused_while_it_waits() -> None:
    broker = congested_broker()
    hear(broker, Subscribe(1, "a", None))
    assert closed(hear(broker, Subscribe(1, "b", None))) == ["c"]
    assert len(broker.parts.wishes.postponed) == 0, "with the session, what waited is gone"


@pytest.mark.parametrize("event", [LinkDown("n", "gone"), LinkUp("n", "broker", 1, 10_000)], ids=["down", "up"])
def test_nobody_waits_for_a_session_that_is_over(event: Any) -> None:
    broker = congested_broker()
    hear(broker, Subscribe(1, "a", None))
    broker.step(event, 0)
    assert len(broker.parts.wishes.postponed) == 0


def test_a_wide_subscription_that_ends_asks_for_no_more_in_a_step_than_may_stand_under_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("resprout.spread.asked.SIZE_MAX", 50)
    broker = broker_with()
    hear(broker, Subscribe(1, "t/#", None))
    effects = hear(broker, *[Subscribe(id, f"t/{id % 3}/{id}", None) for id in range(2, 1002)])
    assert len(asked(effects)) == 1000 - 49, "what does not fit is asked itself"
    assert len(asked(hear(broker, Unsubscribe(1)))) == 49


def test_a_client_that_leaves_takes_its_narrow_subscriptions_back_before_the_wide_one() -> None:
    """The wide one was the first to go, and the neighbours were asked for all that it covered."""
    broker = broker_with()
    count = 2 * LEAVING_PORTION
    hear(broker, Subscribe(1, "t/#", None), *[Subscribe(id, f"t/{id}", None) for id in range(2, count)])
    effects = list(broker.step(LinkDown("c", "gone"), 0))
    while broker.parts.client_interest.leaving:
        effects += broker.step(TimerFired(DropMore()), 0)
    assert asked(effects) == []
    assert len(told(effects, "n", Uninterested)) == 1


def test_clients_that_publish_and_subscribe_in_turn_have_the_log_looked_at_a_bounded_number_of_times() -> None:
    """Each subscription behind a publication looked at the whole log: 16 ms for 60,000 entries, 2 s for 128 small
    pairs in a step."""
    broker = broker_with()
    parts = broker.parts
    pairs = [
        message
        for number in range(1, 101)
        for message in (Publish(bundle(number, publisher="c")), Subscribe(number, f"t/{number}", None))
    ]
    before = parts.retained.searches
    effects = hear(broker, *pairs)
    assert parts.retained.searches - before == postponed_module.SEARCHES_AT_ONCE
    assert len(parts.wishes.postponed) == 100 - postponed_module.SEARCHES_AT_ONCE
    assert any(isinstance(effect, SetTimer) and effect.timer == TakeUpRequests() for effect in effects)
    before = parts.retained.searches
    taken = list(broker.step(TimerFired(TakeUpRequests()), 1_000))
    assert asked(taken) == [f"t/{number}" for number in range(postponed_module.SEARCHES_AT_ONCE + 1, 101)]
    assert parts.retained.searches - before <= 1, "those that wait share what was found"
    broker.step(Received("c", Publish(bundle(101, publisher="c"))), 2_000)
    again = broker.step(Received("c", Subscribe(101, "t/101", None)), 2_000)
    assert asked(again) == ["t/101"], "in the next step it begins at once"
