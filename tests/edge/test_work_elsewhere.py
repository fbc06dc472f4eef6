"""What a client has published and subscribed to, when another broker serves it, and how its search ends."""

from typing import Any

import pytest

from resprout.core.contract import (
    CancelTimer,
    EndCode,
    Event,
    Heard,
    Hold,
    LinkDown,
    LinkUp,
    Received,
    Silent,
    TimerFired,
    Writable,
)
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.core.message_fields import Mark
from resprout.edge.client.machine import ClientOptions
from resprout.edge.client.options import AnswerDue, AskOthers
from resprout.edge.client.search import BRIEF_US
from resprout.edge.messages import (
    HeldSubscription,
    Publish,
    PublishRefused,
    Subscribe,
    Subscribed,
    SubscribeRefused,
    Taken,
    Turned,
    Unsubscribe,
    Unsubscribed,
)
from resprout.edge.requests import (
    BrokerChanged,
    LeaveRequest,
    ReceiptTurned,
    SessionLost,
    SubscribeRequest,
    SubscriptionConfirmed,
    SubscriptionEnded,
    UnsubscribeRequest,
)
from tests.edge.puppets import Puppet, delivery, serving
from tests.edge.test_changing_brokers import publication, settled

# -- publications --------------------------------------------------------------------------------------------------


CAME = Taken(0)
"""The first word to another broker."""


def test_what_is_not_safe_is_sent_again_exactly_and_in_order_before_anything_new() -> None:
    client = settled()
    sent: list[Publish] = []
    for n, guarantee in enumerate((Guarantee.FIFO, Guarantee.EVENTUAL, Guarantee.CAUSAL, Guarantee.EVENTUAL)):
        client.ask_together(*(publication(b"%d" % n, guarantee=guarantee) for _ in range(n + 1)))
        sent += client.sent
        client.hear(delivery(n + 1, stamp=100 + n))
    client.hear(Turned("ordered", ReceiptLevel.SAFE, 1)).hear(Turned("eventual", ReceiptLevel.ACCEPTED, 2))
    client.down()
    client.ask(publication(b"new"))
    client.up("up").hear(serving(), "up")
    assert client.sent[:-1] == [CAME, *sent[1:]], "boundaries, numbers and stamps are the same"
    assert client.published[-1].payloads.endswith(b"new")
    client.down("up")
    client.up("up").hear(serving(), "up")
    assert client.sent[:-1] == [CAME, *sent[1:]] and len(client.sent) == len(sent) + 1, "as often as it takes"


def test_what_is_sent_again_waits_for_room_and_what_became_safe_meanwhile_is_left_out() -> None:
    client = settled()
    for n in range(4):
        client.ask(publication(b"%d" % n))
    client.down()
    client.up("up", room=1).hear(serving(), "up")
    assert [bundle.first for bundle in client.published] == [1]
    client.ask(publication(b"new"))
    assert client.published == []
    client.hear(Turned("ordered", ReceiptLevel.DELIVERED, 3), "up")
    assert client.told[-1] == ReceiptTurned("ordered", ReceiptLevel.DELIVERED, 1, 3)
    assert [bundle.first for bundle in client.writable(peer="up").published] == [4, 5]


def test_the_room_of_the_one_that_is_asked_is_not_that_of_the_one_that_serves() -> None:
    client = settled()
    client.silent(refused=True)
    client.up("up", room=0)
    assert client.ask(publication()).published != []
    client.hear(serving(), "up")
    assert client.published == []
    assert client.writable(peer="b").published == []
    assert len(client.writable(peer="up").published) == 1


def test_what_was_refused_is_never_sent_again() -> None:
    client = settled()
    for _ in range(4):
        client.ask(publication())
    client.hear(PublishRefused("ordered", 2, 2, "no"))
    client.down()
    client.up("up").hear(serving(), "up")
    assert [bundle.first for bundle in client.published] == [1, 4]


def test_receipts_go_on_and_never_back() -> None:
    client = settled()
    for _ in range(3):
        client.ask(publication())
    client.hear(Turned("ordered", ReceiptLevel.ACCEPTED, 3)).hear(Turned("ordered", ReceiptLevel.SAFE, 2))
    client.down()
    client.up("up").hear(serving(), "up")
    assert client.hear(Turned("ordered", ReceiptLevel.ACCEPTED, 3), "up").told == []
    assert client.hear(Turned("ordered", ReceiptLevel.SAFE, 1), "up").told == []
    assert client.hear(Turned("ordered", ReceiptLevel.DELIVERED, 3), "up").told == [
        ReceiptTurned("ordered", ReceiptLevel.SAFE, 3, 3),
        ReceiptTurned("ordered", ReceiptLevel.DELIVERED, 1, 3),
    ]


# -- subscriptions -------------------------------------------------------------------------------------------------


def test_confirmed_subscriptions_go_on_unconfirmed_ones_are_asked_again_and_endings_are_told() -> None:
    client = settled()
    client.ask_together(*(SubscribeRequest(topic) for topic in "abc"))
    client.hear(Subscribed(1)).hear(Subscribed(3))
    client.ask(UnsubscribeRequest("c"))
    client.down()
    client.ask(SubscribeRequest("c"))
    assert [held.id for held in client.up("up").attend.subscriptions] == [1]
    client.hear(serving(), "up")
    assert client.sent == [CAME, Subscribe(2, "b", None), Subscribe(4, "c", None)]
    assert client.told == [BrokerChanged("up"), SubscriptionEnded("c", None)]
    assert client.hear(Subscribed(4), "up").told == [SubscriptionConfirmed("c", None)]
    assert client.hear(Subscribed(1), "up").told == [], "it was never anything else"


def test_an_end_that_is_asked_for_while_the_subscription_is_on_its_way_is_said_to_the_new_broker() -> None:
    client = settled()
    client.ask(SubscribeRequest("a"))
    client.hear(Subscribed(1)).down()
    client.up("up")
    assert client.ask(UnsubscribeRequest("a")).last == []
    client.hear(serving(), "up")
    assert client.sent == [CAME, Unsubscribe(1)] and client.told == [BrokerChanged("up")]
    assert client.hear(Unsubscribed(1), "up").told == [SubscriptionEnded("a", None)]


def test_a_subscription_that_is_asked_again_may_be_refused() -> None:
    client = settled()
    client.ask(SubscribeRequest("a")).down()
    client.up("up").hear(serving(), "up")
    assert client.sent == [CAME, Subscribe(1, "a", None)]
    client.hear(SubscribeRefused(1, "too many"), "up")
    assert client.ask(SubscribeRequest("a")).sent == [Subscribe(2, "a", None)]


def test_where_nothing_can_be_made_good_the_application_is_told_and_subscriptions_begin_anew() -> None:
    client = settled()
    client.ask_together(SubscribeRequest("a"), SubscribeRequest("b"), publication())
    client.hear(Subscribed(1, (Mark("p", "ordered", 1, 4),))).down()
    client.up("up").hear(serving(resumed=False), "up")
    reason = "up could not carry on 1 subscriptions: deliveries may be missing"
    assert client.told == [BrokerChanged("up"), SessionLost(reason, over=False)]
    assert client.sent[:3] == [CAME, Subscribe(1, "a", None), Subscribe(2, "b", None)] and len(client.published) == 1
    assert client.hear(Subscribed(1), "up").told == [SubscriptionConfirmed("a", None)]
    client.now_us += 10 * BRIEF_US
    client.down("up")
    assert client.up("up").attend.subscriptions == (HeldSubscription(1, "a", None, ()),), "its base is a new one"


def test_who_had_no_confirmed_subscription_has_missed_nothing() -> None:
    client = settled()
    client.ask_together(SubscribeRequest("a"), publication())
    client.down()
    assert client.up("up").hear(serving(resumed=False), "up").told == [BrokerChanged("up")]


# -- the end -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [code for code in EndCode if code is not EndCode.NONE])
def test_a_client_whose_name_is_taken_does_not_fight_back(code: EndCode) -> None:
    client = settled()
    client.down(code=code)
    assert client.told == [SessionLost("gone", over=True, code=code)] and client.told[0].superseded
    assert client.opened == [] and client.left == ["b"]
    assert client.up("b").last == client.ring(AskOthers()).last == []


def test_leaving_in_the_middle_of_a_search_ends_everything() -> None:
    client = settled()
    client.silent(refused=True)
    client.ask(LeaveRequest())
    assert client.left == ["b", "up"] and client.of(CancelTimer) == [CancelTimer(AnswerDue("up"))]
    events: list[Event] = [LinkUp("up", "broker", 1, 9), Heard("b"), Silent("b", True), LinkDown("b", "gone")]
    assert [client.do(event).last for event in events] == [[]] * 4
    assert client.ask(LeaveRequest()).last == []


@pytest.mark.parametrize("message", [delivery(1), Subscribed(1), Turned("ordered", ReceiptLevel.SAFE, 1), None])
def test_one_that_speaks_out_of_turn_when_it_is_asked_to_serve_is_left_for_the_next(message: Any) -> None:
    client = settled()
    client.down()
    client.up("up").hear(message, "up")
    assert client.left == ["up"] and client.opened == ["side"] and client.told == [] and client.delivered == []


def test_a_first_broker_that_speaks_out_of_turn_ends_the_client() -> None:
    client = Puppet(serving=None)
    client.up().hear(delivery(1))
    assert client.told == [SessionLost("Delivery before Serving", over=True)] and client.left == ["b"]


def test_sessions_that_nobody_asked_for_are_closed_and_strangers_ignored() -> None:
    client = settled()
    assert client.up("stranger").left == ["stranger"]
    events: list[Event] = [
        Received("stranger", delivery(1)),
        LinkDown("stranger", "gone"),
        Silent("stranger", True),
        Heard("stranger"),
        Writable("stranger", 9),
        TimerFired(AnswerDue("stranger")),
    ]
    assert [client.do(event).last for event in events] == [[]] * len(events)


def test_too_much_untaken_is_held_back_at_the_new_broker_too() -> None:
    client = settled(ClientOptions(takes_at_once=False, untaken_bytes_max=100))
    client.hear(delivery(1)).down()
    assert client.up("up").of(Hold) == []
    assert client.hear(serving(), "up").of(Hold) == [Hold("up")]
