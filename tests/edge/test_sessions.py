"""The clients of one broker: what each is given, told and owed."""

import pytest

from resprout.core.bundle import unpack_payloads
from resprout.core.contract import Send
from resprout.core.errors import PeerError
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.core.limits import ClientLimits
from resprout.edge.messages import (
    Attend,
    Delivery,
    Serving,
    Subscribed,
    SubscribeRefused,
    Turned,
    Unsubscribed,
)
from resprout.spread.messages import InterestConfirmed, Interested, Uninterested
from tests.edge.house import ROOM, SERVING, SUCCESSORS, House


def test_a_client_that_arrives_is_told_nothing_until_it_is_served() -> None:
    house = House()
    session = house.sessions.arrive("a", 1, ROOM)
    assert house.told("a") == [] and not session.attending
    house.sessions.welcome(session, Attend(0), SUCCESSORS, True, house.out)
    assert house.told("a") == [Serving("resprout", (Guarantee.CAUSAL,), 0, SUCCESSORS, True)] and session.attending


# -- subscriptions -------------------------------------------------------------------------------------------------


def test_without_neighbours_a_subscription_is_confirmed_at_once() -> None:
    house = House("a")
    house.subscribe("a", 7)
    assert house.told("a") == [SERVING, Subscribed(7)]


def test_subscriptions_to_the_same_share_one_wish_until_the_last_ends() -> None:
    house = House("a", neighbours=("n",))
    house.subscribe("a", 1)
    house.subscribe("a", 2)
    assert house.outbound == [("n", Interested(1, "t", None))]
    house.sessions.confirm(house.interest.confirmed_by("n", InterestConfirmed(1), house.outbound), house.out)
    house.subscribe("a", 3)
    assert house.told("a") == [SERVING, Subscribed(1), Subscribed(2), Subscribed(3)]
    house.unsubscribe("a", 1)
    house.unsubscribe("a", 3)
    assert house.outbound == [("n", Interested(1, "t", None))]
    house.unsubscribe("a", 2)
    assert house.outbound[1:] == [("n", Uninterested(1))]
    assert house.told("a") == [Unsubscribed(1), Unsubscribed(3), Unsubscribed(2)]


def test_a_subscription_ended_before_it_was_confirmed_is_never_confirmed() -> None:
    house = House("a", neighbours=("n",))
    house.subscribe("a", 1)
    house.subscribe("a", 2)
    house.unsubscribe("a", 1)
    house.sessions.confirm(house.interest.confirmed_by("n", InterestConfirmed(1), house.outbound), house.out)
    assert house.told("a") == [SERVING, Subscribed(2), Unsubscribed(1)]


def test_a_subscription_that_cannot_be_is_refused_with_the_reason_and_leaves_nothing() -> None:
    house = House("a", neighbours=("n",))
    house.subscribe("a", 1, "a/#/b")
    house.subscribe("a", 2, "t", "x >")
    refused = house.told("a")[1:]
    assert [type(message) for message in refused] == [SubscribeRefused] * 2
    assert "'#' may only be the last level" in refused[0].reason
    assert house.outbound == [] and house.clients["a"].subscriptions == {}


def test_there_is_a_limit_to_subscriptions() -> None:
    house = House("a")
    house.clients["a"].limits = ClientLimits(client_subscriptions=2)
    for id in (1, 2, 3):
        house.subscribe("a", id, f"t{id}")
    reason = "a has 2 subscriptions and may have 2 (limit client_subscriptions)"
    assert house.told("a")[1:] == [Subscribed(1), Subscribed(2), SubscribeRefused(3, reason)]


def test_a_number_used_twice_is_a_peers_fault() -> None:
    house = House("a")
    house.subscribe("a", 1)
    with pytest.raises(PeerError, match="subscription 1 exists already"):
        house.subscribe("a", 1, "u")


def test_the_end_of_a_subscription_that_was_refused_meanwhile_is_confirmed() -> None:
    house = House("a")
    house.told("a")
    house.subscribe("a", 1, "not/#/valid")
    house.unsubscribe("a", 1)
    refused, ended = house.told("a")
    assert isinstance(refused, SubscribeRefused)
    assert ended == Unsubscribed(1)


# -- endings -------------------------------------------------------------------------------------------------------


def test_a_subscription_ends_after_everything_before_its_end_was_given() -> None:
    house = House("a", "b")
    house.subscribe("a", 1)
    house.told("a")
    house.append("a")
    house.unsubscribe("a", 1)
    house.append("b")
    assert house.told("a") == [], "something before the end is not shown yet"
    house.sessions.show(house.log.held_back.take_first(), house.out)
    assert house.told("a") == [1, Unsubscribed(1)], "what came later does not matter"


def test_a_subscription_does_not_end_before_the_backlog_is_given() -> None:
    house = House("a", room=0)
    house.subscribe("a", 1)
    house.told("a")
    house.give("a")
    house.give("a")
    house.unsubscribe("a", 1)
    assert house.told("a") == []
    house.sessions.writable(house.clients["a"], 1, house.out)
    assert house.told("a") == [1]
    house.sessions.writable(house.clients["a"], 1, house.out)
    assert house.told("a") == [2, Unsubscribed(1)]


def test_what_is_accepted_after_the_end_does_not_hold_it_up() -> None:
    house = House("a", room=0)
    house.subscribe("a", 1)
    house.subscribe("a", 2, "u")
    house.told("a")
    house.unsubscribe("a", 1)
    house.give("a")
    assert house.told("a") == [Unsubscribed(1)], "what waits for room belongs to the other subscription"


# -- giving and taking ---------------------------------------------------------------------------------------------


def test_a_client_without_room_keeps_its_place_and_holds_nobody_else_up() -> None:
    house = House("a", "b", room=100)
    for _ in range(4):
        house.give("a", "b")
        house.sessions.writable(house.clients["b"], 100, house.out)
    assert house.told("b") == [SERVING, 1, 2, 3, 4]
    assert house.told("a") == [SERVING, 1, 2], "room is looked at before a delivery, not within it"
    for deliveries in range(1, 5):
        house.take("b", deliveries)
    house.sessions.writable(house.clients["a"], 1 << 20, house.out)
    assert house.told("a") == [3, 4]
    assert not house.empty
    house.take("a", 4)
    assert house.empty


def test_nothing_overtakes_the_backlog_though_there_is_room_for_it() -> None:
    house = House("a", room=0)
    house.give("a")
    house.clients["a"].room = 1000
    house.give("a")
    assert house.told("a") == [SERVING]
    house.sessions.writable(house.clients["a"], 1000, house.out)
    assert house.told("a") == [1, 2]


def test_a_content_filter_picks_for_one_reader_what_another_gets_whole_also_from_the_backlog() -> None:
    for room in (1 << 20, 0):
        house = House("some", "all", room=room)
        entry = house.append("some", "all", payloads=(b"0", b"1", b"2"))
        entry.picks = {"some": (0, 2)}
        house.show()
        for name in ("some", "all"):
            house.sessions.writable(house.clients[name], 1 << 20, house.out)
        given = {
            effect.peer: effect.message
            for effect in house.out
            if isinstance(effect, Send) and isinstance(effect.message, Delivery)
        }
        assert unpack_payloads(given["some"].bundle) == [b"0", b"2"] and given["some"].offsets == (0, 2)
        assert unpack_payloads(given["all"].bundle) == [b"0", b"1", b"2"] and given["all"].offsets is None


def test_acknowledging_more_than_was_given_is_a_peers_fault() -> None:
    house = House("a")
    house.give("a")
    with pytest.raises(PeerError, match="2 deliveries taken of 1 given"):
        house.take("a", 2)


# -- receipts ------------------------------------------------------------------------------------------------------


def test_receipts_of_one_step_are_told_together_and_delivered_waits_for_the_readers() -> None:
    house = House("p", "a", "b")
    house.told("p")
    house.give("a", "b", by="p")
    assert house.told("p") == [Turned("ordered", ReceiptLevel.SAFE, 1)], "which includes accepted"
    house.take("a", 1)
    assert house.told("p") == []
    house.take("b", 1)
    assert house.told("p") == [Turned("ordered", ReceiptLevel.DELIVERED, 1)]
    assert house.empty


def test_what_nobody_reads_is_delivered_as_soon_as_it_is_safe() -> None:
    house = House("p")
    house.append(by="p")
    assert house.told("p")[1:] == [Turned("ordered", ReceiptLevel.ACCEPTED, 1)]
    house.show()
    assert house.told("p") == [Turned("ordered", ReceiptLevel.DELIVERED, 1)]


# -- vanishing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["before it is shown", "in the backlog", "given"])
def test_a_client_that_vanishes_is_owed_nothing(when: str) -> None:
    house = House("p", "a", "b", room=0 if when == "in the backlog" else 1 << 20)
    house.subscribe("a", 1)
    house.told("p")
    entry = house.append("a", by="p")
    if when != "before it is shown":
        house.show()
    house.leave("a")
    house.show()
    assert entry.undone == 0
    assert house.told("p")[-1] == Turned("ordered", ReceiptLevel.DELIVERED, 1)
    assert house.empty


def test_a_publisher_that_vanishes_is_told_nothing_and_what_it_published_stays() -> None:
    house = House("p", "a")
    house.told("a")
    house.append("a", by="p")
    house.leave("p")
    house.show()
    assert house.told("a") == [1]
    house.take("a", 1)
    assert house.told("p") == [SERVING] and house.empty


def test_a_client_that_vanishes_wants_nothing_any_more() -> None:
    house = House("a", neighbours=("n",))
    house.subscribe("a", 1)
    house.subscribe("a", 2, "u")
    house.outbound.clear()
    house.unsubscribe("a", 1)
    house.leave("a")
    assert house.outbound == [("n", Uninterested(1)), ("n", Uninterested(2))]
    assert house.told("a") == [SERVING], "nothing is sent to it any more, not even its end"


def test_a_client_may_vanish_while_dropping_one_wish_would_confirm_another_of_its_own() -> None:
    house = House("a", "b", neighbours=("n",))
    house.subscribe("a", 1, "a/#")
    house.subscribe("b", 1, "+/b")
    house.subscribe("a", 2, "a/b")
    house.sessions.confirm(house.interest.confirmed_by("n", InterestConfirmed(2), house.outbound), house.out)
    house.leave("a")
    assert house.outbound[-1] == ("n", Uninterested(1))
    assert [(id, predicate.filter) for id, predicate, _ in house.interest.standing("n")[0]] == [(2, "+/b")]
    assert house.interest.index.predicates_of("a") == ()
    assert house.interest.confirmed_by("n", InterestConfirmed(2), []) == [], "and nobody waits for that any more"
