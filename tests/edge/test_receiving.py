"""What a client does with deliveries and subscriptions."""

from typing import Any

import pytest

from resprout.core.bundle import Bundle
from resprout.core.contract import Answer, CancelTimer, Hold, Release, SetTimer
from resprout.core.guarantee import Guarantee
from resprout.edge.client.delayed import MESSAGE_BYTES
from resprout.edge.client.machine import ClientOptions
from resprout.edge.client.options import TellTaken
from resprout.edge.durable_messages import Span
from resprout.edge.messages import (
    Attend,
    DeliveriesDropped,
    Delivery,
    DropsAcknowledged,
    Publish,
    Subscribe,
    Subscribed,
    SubscribeRefused,
    Taken,
    Unsubscribe,
    Unsubscribed,
)
from resprout.edge.requests import (
    LeaveRequest,
    PublishRequest,
    Refused,
    SessionLost,
    SubscribeRequest,
    SubscriptionConfirmed,
    SubscriptionEnded,
    TakeRequest,
    UnsubscribeRequest,
)
from tests.edge.puppets import SERVING, Puppet, delivery

# -- deliveries ----------------------------------------------------------------------------------------------------


def test_messages_are_positioned_without_gaps_across_deliveries_and_sessions() -> None:
    client = Puppet()
    places = [m.position for m in client.hear(delivery(1, [b"a", b"b"])).delivered]
    client.again()
    places += [m.position for m in client.hear(delivery(3, [b"c"])).delivered]
    assert places == [0, 1, 2]


def test_each_total_of_a_bundle_carries_a_place_of_its_own_and_others_carry_none() -> None:
    client, total = Puppet(), Guarantee.TOTAL
    assert [m.tseq for m in client.hear(delivery(1, [b"a", b"b"], tseq=7, guarantee=total)).delivered] == [7, 8]
    picked = delivery(3, [b"a", b"c"], offsets=(0, 2), tseq=9, guarantee=total)
    assert [m.tseq for m in client.hear(picked).delivered] == [9, 11]
    assert [m.tseq for m in client.hear(delivery(6)).delivered] == [-1]
    assert [m.tseq for m in client.hear(delivery(7, tseq=12)).delivered] == [-1], "no total, however it travelled"


def test_a_message_carries_everything_that_is_known_about_it() -> None:
    (one, two) = Puppet().hear(delivery(5, [b"a", b"b"], rows=[{"x": 1}, {}], metadata_bytes=9)).delivered
    assert (one.publisher, one.epoch, one.seq, two.seq) == ("p", 2, 5, 6)
    assert (one.topic, one.keys, one.guarantee, one.hops) == ("t", ("k",), Guarantee.CAUSAL, 2)
    assert (one.payload, one.attributes, two.attributes) == (b"a", {"x": 1}, {})
    assert one.metadata_bytes == 5, "its share, rounded up"


def test_where_a_filter_picked_some_the_offsets_tell_their_numbers() -> None:
    client = Puppet().hear(delivery(10, [b"b", b"d"], offsets=(1, 3)))
    assert [(m.seq, m.payload, m.position) for m in client.delivered] == [(11, b"b", 0), (13, b"d", 1)]


def test_deliveries_are_acknowledged_together_after_a_while() -> None:
    client = Puppet(ClientOptions(take_delay_us=700))
    client.now_us = 50
    assert client.hear(delivery(1)).of(SetTimer) == [SetTimer(TellTaken(), 750)]
    assert client.hear(delivery(2)).of(SetTimer) == []
    assert client.ring().sent == [Taken(2)]
    assert client.ring().sent == [], "nothing new"


def test_what_a_publisher_waits_for_is_acknowledged_at_once_with_all_before_it() -> None:
    client = Puppet()
    assert client.hear(delivery(1)).sent == []
    assert client.hear(delivery(2, prompt=True)).sent == [Taken(2)]
    assert client.hear(delivery(3)).sent == [], "the next one may wait again"


def test_many_deliveries_are_acknowledged_at_once() -> None:
    client = Puppet(ClientOptions(take_deliveries=3))
    assert client.hear(delivery(1)).sent == client.hear(delivery(2)).sent == []
    client.hear(delivery(3))
    assert client.sent == [Taken(3)] and client.of(CancelTimer) == [CancelTimer(TellTaken())]


def test_acknowledgements_count_within_a_session() -> None:
    client = Puppet()
    client.hear(delivery(1))
    client.down()
    assert client.ring().sent == [], "there is nobody to tell"
    client.up().hear(SERVING)
    client.hear(delivery(2))
    assert client.ring().sent == [Taken(1)]


# -- an application that takes for itself --------------------------------------------------------------------------

SLOW = ClientOptions(takes_at_once=False, untaken_bytes_max=1_500, take_deliveries=2)


def test_what_the_application_has_not_taken_is_not_acknowledged() -> None:
    client = Puppet(SLOW)
    for n in range(1, 4):
        client.hear(delivery(n))
    assert client.ring().sent == []
    client.ask(TakeRequest(1))
    assert client.sent == [] and len(client.of(SetTimer)) == 1
    assert client.ask(TakeRequest(2)).sent == [Taken(3)]


def test_what_a_publisher_waits_for_is_acknowledged_as_soon_as_the_application_takes_it() -> None:
    client = Puppet(ClientOptions(takes_at_once=False))
    client.hear(delivery(1)).hear(delivery(2, prompt=True))
    assert client.sent == []
    assert client.ask(TakeRequest(1)).sent == [], "nobody waits for the first"
    assert client.ask(TakeRequest(1)).sent == [Taken(2)]


def test_a_notice_of_dropped_messages_is_acknowledged_at_once_though_the_application_takes_nothing() -> None:
    """The broker keeps dropped messages until then, for a client that may have to be told by another broker."""
    client = Puppet(SLOW)
    for n in range(1, 10):
        client.hear(delivery(n, [bytes(60)]))
    notice = DeliveriesDropped((Span("p", "ordered", 1, 10, 12),))
    assert client.hear(notice).sent == [DropsAcknowledged(1)]
    assert client.hear(notice).sent == [DropsAcknowledged(2)]
    client.down()
    client.up().hear(SERVING)
    assert client.hear(notice).sent == [DropsAcknowledged(1)], "a broker hears only of its own notices"


def test_too_much_untaken_holds_the_broker_back_until_half_of_it_is_taken() -> None:
    client = Puppet(SLOW)
    cost = delivery(1, [bytes(60)]).cost + MESSAGE_BYTES
    assert 3 * cost < SLOW.untaken_bytes_max < 4 * cost
    held = [len(client.hear(delivery(n, [bytes(60)])).of(Hold)) for n in range(1, 6)]
    assert held == [0, 0, 0, 1, 0], "once, when it becomes too much"
    assert client.ask(TakeRequest(3)).of(Release) == []
    assert client.ask(TakeRequest(1)).of(Release) == [Release("b")]
    assert client.ask(TakeRequest(1)).of(Release) == []


@pytest.mark.parametrize("count", [-1, 3])
def test_taking_more_than_there_is_is_refused(count: int) -> None:
    client = Puppet(SLOW)
    client.hear(delivery(1)).hear(delivery(2))
    (answer,) = client.ask(TakeRequest(count), 8).of(Answer)
    assert answer.token == 8 and answer.body.reason == f"{count} deliveries taken, 2 waiting"


def test_a_machine_that_takes_by_itself_is_not_told_so() -> None:
    client = Puppet()
    client.hear(delivery(1))
    assert isinstance(client.ask(TakeRequest(1)).told[0], Refused)


def test_what_the_application_takes_of_an_earlier_session_is_nobodys_business() -> None:
    client = Puppet(SLOW)
    client.hear(delivery(1)).hear(delivery(2))
    client.again().hear(delivery(3))
    assert client.ask(TakeRequest(2)).last == [], "the broker that gave these is not there any more"
    client.ask(TakeRequest(1))
    assert client.ring().sent == [Taken(1)]
    assert isinstance(client.ask(TakeRequest(1)).told[0], Refused)


def test_what_is_untaken_of_an_earlier_session_still_takes_its_room() -> None:
    client = Puppet(SLOW)
    for n in range(1, 6):
        client.hear(delivery(n, [bytes(60)]))
    assert client.again().of(Hold) == [Hold("b")]
    assert client.ask(TakeRequest(4)).of(Release) == [Release("b")]
    client.hear(delivery(6))
    assert client.of(Hold) == []
    assert client.ask(TakeRequest(1)).sent == [] and client.ask(TakeRequest(1)).last != []
    assert client.ring().sent == [Taken(1)]


def test_what_was_taken_is_told_before_leaving() -> None:
    client = Puppet()
    client.hear(delivery(1))
    client.ask(LeaveRequest())
    assert client.sent == [Taken(1)] and client.closed is not None


# -- subscriptions -------------------------------------------------------------------------------------------------


def test_a_subscription_is_asked_confirmed_ended_and_may_begin_again() -> None:
    client = Puppet()
    assert client.ask(SubscribeRequest("a/#", "x > 1")).sent == [Subscribe(1, "a/#", "x > 1")]
    assert client.hear(Subscribed(1)).told == [SubscriptionConfirmed("a/#", "x > 1")]
    assert client.ask(UnsubscribeRequest("a/#", "x > 1")).sent == [Unsubscribe(1)]
    assert client.ask(SubscribeRequest("a/#", "x > 1")).sent == [Subscribe(2, "a/#", "x > 1")]
    assert client.hear(Unsubscribed(1)).told == [SubscriptionEnded("a/#", "x > 1")]
    assert client.hear(Subscribed(2)).told == [SubscriptionConfirmed("a/#", "x > 1")]


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (SubscribeRequest("a/#/b"), "'#' may only be the last level"),
        (SubscribeRequest(""), "a topic filter must be a text"),
        (SubscribeRequest("a", "x >"), "column"),
        (SubscribeRequest("t"), "already subscribed to t"),
        (SubscribeRequest("t", "x = 1"), "already subscribed to t where x = 1"),
        (UnsubscribeRequest("u"), "not subscribed to u"),
        (UnsubscribeRequest("t", "x = 2"), "not subscribed to t where x = 2"),
    ],
)
def test_a_request_that_cannot_be_is_refused_at_once(request_: Any, why: str) -> None:
    client = Puppet()
    client.ask_together(SubscribeRequest("t"), SubscribeRequest("t", "x = 1"))
    (answer,) = client.ask(request_, 6).of(Answer)
    assert answer.token == 6 and answer.body.definite and why in answer.body.reason
    assert client.sent == []


def test_a_subscription_refused_by_the_broker_may_be_asked_again() -> None:
    client = Puppet()
    client.ask(SubscribeRequest("t"))
    assert client.hear(SubscribeRefused(1, "too many")).told == [Refused(SubscribeRequest("t"), "too many", True)]
    assert client.ask(SubscribeRequest("t")).sent == [Subscribe(2, "t", None)]


def test_requests_before_the_network_is_there_wait() -> None:
    client = Puppet(serving=None)
    assert client.ask(SubscribeRequest("t")).sent == []
    assert client.up().attend == Attend(0)
    client.hear(SERVING)
    assert client.sent == [Subscribe(1, "t", None)]


# -- a broker that lies --------------------------------------------------------------------------------------------

BAD_COLUMN = Bundle("p", 1, 1, 1, 1, "t", (), Guarantee.CAUSAL, b"", b"\xc1")
BAD_ROWS = Bundle("p", 1, 1, 1, 1, "t", (), Guarantee.CAUSAL, b"\xc1", b"\x91\xc4\x00")


@pytest.mark.parametrize("bundle", [BAD_COLUMN, BAD_ROWS, delivery(1, [b"a", b"b"], count=3).bundle], ids=repr)
def test_what_cannot_be_read_is_left_out_and_told(bundle: Bundle) -> None:
    """A broker further away has spoiled it: the session goes on, and the program is told what it lacks."""
    client = Puppet()
    client.hear(Delivery(bundle, 1, 1, None))
    assert client.closed is None and client.delivered == []


@pytest.mark.parametrize(
    "message",
    [
        delivery(1, [], count=0),
        delivery(1, [b"a", b"b"], offsets=(1,)),
        delivery(1, [b"a"], offsets=(1, 2)),
        delivery(1, [b"a", b"b"], offsets=(2, 2)),
        delivery(1, [b"a", b"b"], offsets=(3, 1)),
        Publish(BAD_COLUMN),
        SERVING,
        Subscribe(1, "t", None),
        Taken(3),
        "not a message at all",
        None,
    ],
    ids=repr,
)
def test_what_no_broker_may_say_ends_the_session_and_nothing_else(message: Any) -> None:
    client = Puppet()
    client.hear(message)
    assert client.closed is not None and client.delivered == []
    assert client.told == [SessionLost(client.closed, over=True)]
    assert client.ask(PublishRequest("t", b"")).sent == []


@pytest.mark.parametrize("message", [Subscribed(9), SubscribeRefused(9, "?"), Unsubscribed(9)])
def test_news_of_subscriptions_that_are_not_there_is_ignored(message: Any) -> None:
    assert Puppet().hear(message).last == []
