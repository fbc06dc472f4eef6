"""A client whose broker is gone: where it turns, what it brings along, what it says again."""

from typing import Any

import pytest

from resprout.core.contract import (
    Answer,
    CancelTimer,
    Close,
    Deliver,
    EndCause,
    EndCode,
    Event,
    Heard,
    Hold,
    LinkDown,
    LinkUp,
    Locate,
    Received,
    SetTimer,
    Silent,
    TimerFired,
    Writable,
)
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.core.marks import Mark
from resprout.edge.client import machine as client_module
from resprout.edge.client import wanted as wanted_module
from resprout.edge.client.machine import ClientOptions
from resprout.edge.client.search import (
    ANSWER_US,
    BRIEF_MAX,
    BRIEF_US,
    DETOURS_MAX,
    ROUND_US_MAX,
    ROUND_US_MIN,
    SUCCESSORS_MAX,
    AnswerDue,
    AskAgain,
    AskOthers,
)
from resprout.edge.messages import (
    Advertise,
    Attend,
    GoTo,
    HeldSubscription,
    Publish,
    PublishRefused,
    Subscribe,
    Subscribed,
    SubscribeRefused,
    Successor,
    Successors,
    Turned,
    Unsubscribe,
    Unsubscribed,
)
from resprout.edge.requests import (
    AdvertiseRequest,
    BrokerChanged,
    LeaveRequest,
    PublishRequest,
    ReceiptTurned,
    SessionBegan,
    SessionLost,
    SubscribeRequest,
    SubscriptionConfirmed,
    SubscriptionEnded,
    UnsubscribeRequest,
)
from tests.edge.puppets import OFFERED, SERVING, Puppet, delivery, serving, successors

WELL_SERVED = serving("up", "side")


def publication(payload: bytes = b"x", **changes: Any) -> PublishRequest:
    return PublishRequest(changes.pop("topic", "t"), payload, **changes)


def settled(options: ClientOptions | None = None) -> Puppet:
    """A client that has been served for a while by `b`, whose successors are `up` and `side`."""
    client = Puppet(options, serving=WELL_SERVED)
    client.now_us = 10 * BRIEF_US
    return client


# -- attending -----------------------------------------------------------------------------------------------------


def test_a_new_client_attends_with_nothing_and_says_nothing_else_before_it_is_served() -> None:
    client = Puppet(serving=None)
    client.ask_together(SubscribeRequest("t"), publication(), AdvertiseRequest("u"))
    assert client.up().attend == Attend(0)
    assert client.ask(publication()).last == [] and client.writable().last == []
    client.hear(SERVING)
    assert client.sent[:2] == [Subscribe(1, "t", None), Advertise("u")] and len(client.published) == 1


def test_a_client_that_was_never_served_waits_for_its_one_broker() -> None:
    client = Puppet(serving=None)
    assert client.silent(refused=True).last == client.silent().last == []
    assert client.down().last == [Answer(SessionLost("gone", over=False))]
    assert client.up().attend == Attend(0)
    assert client.hear(SERVING).told == [SessionBegan("resprout", OFFERED, 1)]


def test_it_attends_with_its_clock_what_it_received_and_its_confirmed_subscriptions() -> None:
    client = settled()
    client.ask_together(SubscribeRequest("t"), SubscribeRequest("u", "x > 1"), SubscribeRequest("v"))
    base = (Mark("q", "ordered", 1, 9), Mark("p", "ordered", 2, 1), Mark("p", "eventual", 2, 1))
    client.hear(Subscribed(1, base)).hear(Subscribed(2))
    client.hear(delivery(4, [b"a", b"b"], stamp=77))
    client.hear(delivery(1, [b"a"], offsets=(5,), publisher="r"))
    client.down()
    assert client.up("up").attend == Attend(
        77,
        ("b",),
        (Mark("p", "ordered", 2, 5), Mark("r", "ordered", 2, 6)),
        (HeldSubscription(1, "t", None, (base[0], base[2])), HeldSubscription(2, "u", "x > 1", ())),
        home=1,
    ), "the numbers of picked messages count in the bundle; what was received need not be told again as a base"


def test_what_does_not_fit_is_left_out_and_the_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "RECEIVED_BYTES_MAX", 100)
    monkeypatch.setattr(wanted_module, "HELD_BYTES_MAX", 100)
    client = settled()
    client.ask_together(*(SubscribeRequest(f"t/{n}") for n in range(5)))
    for n in range(1, 6):
        client.hear(Subscribed(n))
    for n in range(20):
        client.hear(delivery(1, publisher=f"p{n}"))
    client.down()
    attend = client.up("up").attend
    assert [mark.publisher for mark in attend.received] == ["p18", "p19"]
    assert [held.id for held in attend.subscriptions] == [1, 2]
    client.hear(serving(), "up")
    assert client.sent == [Subscribe(n, f"t/{n - 1}", None) for n in (3, 4, 5)]
    (lost,) = (news for news in client.told if isinstance(news, SessionLost))
    assert lost == SessionLost("up could not carry on 3 subscriptions: deliveries may be missing", over=False)


# -- losing the broker ---------------------------------------------------------------------------------------------


def test_a_lost_session_leads_to_the_first_successor_and_the_application_hears_only_its_name() -> None:
    client = settled()
    client.down()
    assert (client.opened, client.left, client.told) == (["up"], ["b"], [])
    assert client.timers == {AnswerDue("up"): ANSWER_US}
    assert client.up("up").attend.tried == ("b",)
    client.hear(serving("x"), "up")
    assert client.told == [BrokerChanged("up")] and client.machine.broker == "up"
    assert client.of(CancelTimer) == [CancelTimer(AnswerDue("up"))]
    client.now_us += 10 * BRIEF_US
    assert client.down("up").opened == ["x"], "the new broker's successors count from now on"
    assert client.up("x").attend.tried == ("up",)


def test_a_broker_that_is_certainly_gone_is_not_waited_for_though_its_session_stays() -> None:
    client = settled()
    client.silent(refused=True)
    assert client.opened == ["up"] and client.left == []
    client.up("up")
    assert client.hear(serving(), "up").left == ["b"]


def test_a_silent_broker_is_given_time_before_others_are_asked_beside_it() -> None:
    client = settled(ClientOptions(patience_us=700))
    assert client.silent().last == [SetTimer(AskOthers(), client.now_us + 700)]
    assert client.silent().last == [], "it is silent already"
    assert client.heard().last == [CancelTimer(AskOthers())]
    client.silent()
    client.ring(AskOthers())
    assert client.opened == ["up"] and client.left == []
    assert client.ask(publication()).published != [], "the session stands, so it is used"
    assert client.up("up").attend.tried == ("b",)
    assert client.hear(serving(), "up").left == ["b"]
    assert len(client.published) == 1, "and again to the new one"


def test_refused_while_it_was_being_patient_it_asks_at_once() -> None:
    client = settled()
    client.silent()
    client.silent(refused=True)
    assert client.opened == ["up"] and client.of(CancelTimer) == [CancelTimer(AskOthers())]


def test_a_broker_that_is_heard_again_in_time_keeps_its_client() -> None:
    client = settled()
    client.ask(SubscribeRequest("t"))
    client.silent(refused=True)
    client.up("up")
    client.heard()
    assert client.left == ["up"] and client.of(CancelTimer) == [CancelTimer(AnswerDue("up"))]
    assert client.machine.broker == "b" and client.told == []
    assert client.hear(Subscribed(1)).told == [SubscriptionConfirmed("t", None)]
    assert client.hear(serving(), "up").last == [], "too late"
    client.down()
    assert client.up("up").attend.tried == ("b",), "nothing is left of the first search"


def test_a_broker_that_speaks_is_heard_again_before_its_word_counts() -> None:
    """Otherwise the one that was asked meanwhile would give again what is received now."""
    client = settled()
    client.silent(refused=True)
    client.up("up")
    client.hear(delivery(1))
    assert client.left == ["up"] and len(client.delivered) == 1
    kinds = [type(effect) for effect in client.last]
    assert kinds.index(Close) < kinds.index(Deliver)


def test_successors_are_asked_one_after_the_other_and_the_lost_broker_last_then_again_after_a_while() -> None:
    client = settled()
    asked = list(client.down().opened)
    for peer in ("up", "side"):
        client.silent(peer)
        assert client.left == [peer]
        asked += client.opened
    assert asked == ["up", "side", "b"]
    delays = []
    for _ in range(6):
        client.silent("b")
        ((timer, delay),) = client.timers.items()
        assert timer == AskAgain(("up", "side", "b")) and client.opened == []
        delays.append(delay)
        assert client.ring(timer).opened == ["up"]
        client.down("up")
        client.silent("side", refused=True)
    assert delays == [min(ROUND_US_MIN << n, ROUND_US_MAX) for n in range(6)]
    assert client.up("b").attend.tried == ("b", "up", "side")
    client.hear(WELL_SERVED)
    assert client.told == [], "the same broker, another session"


def test_a_broker_that_has_ended_the_session_itself_is_asked_first() -> None:
    """It lives, and knows that nobody else has kept anything for this client."""
    client = settled()
    client.do(LinkDown("b", "c did not come back", EndCause.CLOSED))
    assert client.opened == ["b"]
    assert client.up("b").attend.tried == ("b",)


def test_one_that_is_asked_may_think_for_a_while_and_is_then_left_for_the_next() -> None:
    client = settled()
    client.down()
    client.up("up")
    assert client.timers == {AnswerDue("up"): ANSWER_US}
    client.ring(AnswerDue("up"))
    assert client.left == ["up"] and client.opened == ["side"]
    assert client.up("side").attend.tried == ("b", "up")


def test_while_the_broker_is_only_silent_it_is_no_candidate_itself() -> None:
    client = settled()
    client.silent(refused=True)
    client.silent("up")
    client.silent("side")
    assert list(client.timers) == [AskAgain(("up", "side"))]
    assert client.down().opened == [], "its turn comes with the next round"
    assert client.ring(AskAgain(("up", "side"))).opened == ["up"]
    client.silent("up")
    client.silent("side")
    assert client.opened == ["b"]


def test_without_successors_a_silent_broker_is_simply_waited_for() -> None:
    client = Puppet()
    assert client.silent(refused=True).last == []
    client.now_us = BRIEF_US
    assert client.down().opened == ["b"], "its session is over, so another one is needed"


def test_a_broker_that_serves_and_ends_the_session_over_and_over_is_not_asked_without_a_pause() -> None:
    client = Puppet()
    for _ in range(BRIEF_MAX):
        client.again()
    client.down()
    assert client.opened == [] and client.timers == {AskAgain(("b",)): ROUND_US_MIN}
    assert client.ring(AskAgain(("b",))).opened == ["b"]
    client.up().hear(SERVING)
    assert client.down().timers == {AskAgain(("b",)): 2 * ROUND_US_MIN}


def test_successors_change_while_all_is_well() -> None:
    client = settled()
    client.hear(
        Successors((Successor("b", "h:0"), Successor("near", "h:1"), Successor("far", ""), Successor("near", "h:1")))
    )
    assert client.last == [Locate("near", "h:1")], "how to reach the broker itself is known, as it is reached"
    assert client.down().opened == ["near"]
    assert client.silent("near").opened == ["far"]
    assert client.silent("far").opened == ["b"]


def test_successors_without_end_are_not_all_remembered() -> None:
    client = settled()
    client.hear(Successors(successors(*(f"r{n}" for n in range(10 * SUCCESSORS_MAX)))))
    asked = list(client.down().opened)
    while client.opened != []:
        client.silent(asked[-1])
        asked += client.opened
    assert len(asked) == SUCCESSORS_MAX + 1 and asked[-1] == "b"
    assert len(client.ring(*client.timers).up("r0").attend.tried) <= SUCCESSORS_MAX


# -- being sent on -------------------------------------------------------------------------------------------------


def test_a_client_goes_where_it_is_sent() -> None:
    client = settled()
    client.down()
    client.up("up")
    client.hear(GoTo(Successor("other", "host:7")), "up")
    assert client.left == ["up"] and client.opened == ["other"] and client.of(Locate) == [Locate("other", "host:7")]
    assert client.up("other").attend.tried == ("b",), "whoever sends it on is not lost"
    assert client.hear(serving(), "other").told == [BrokerChanged("other")]


def test_sent_back_to_a_broker_that_is_only_silent_it_waits_and_asks_again_later() -> None:
    client = settled()
    client.silent(refused=True)
    client.up("up")
    client.hear(GoTo(Successor("b", "")), "up")
    assert client.left == ["up"] and client.opened == []
    assert client.timers == {AskOthers(): ClientOptions().patience_us}
    assert client.ring(AskOthers()).opened == ["up"]
    assert client.heard().left == ["up"]


def test_sent_back_to_a_broker_that_was_lost_it_goes_there() -> None:
    client = settled()
    client.down()
    client.up("up").hear(GoTo(Successor("b", "")), "up")
    assert client.opened == ["b"]
    assert client.up("b").attend.tried == ("b",)


def test_those_who_send_a_client_back_and_forth_do_not_keep_it_busy_for_ever() -> None:
    client = settled()
    client.down()
    detours = 0
    here, there = "up", "side"
    while AskAgain(("up", "side", "b")) not in client.timers:
        (peer,) = client.opened
        client.up(peer).hear(GoTo(Successor(there if peer == here else here, "")), peer)
        detours += 1
        assert detours <= DETOURS_MAX + 3
    assert detours > DETOURS_MAX


def test_one_that_sends_a_client_to_itself_is_left() -> None:
    client = settled()
    client.down()
    assert client.up("up").hear(GoTo(Successor("up", "")), "up").opened == ["side"]


def test_a_client_that_was_never_served_may_be_sent_on_and_comes_back() -> None:
    client = Puppet(serving=None)
    client.up().hear(GoTo(Successor("other", "")))
    assert client.opened == ["other"] and client.left == ["b"]
    client.silent("other")
    assert list(client.timers) == [AskAgain(("b",))]
    assert client.ring(AskAgain(("b",))).opened == ["b"]
    assert client.up().attend == Attend(0)
    assert client.hear(SERVING).told == [SessionBegan("resprout", OFFERED, 1)]


def test_a_broker_that_leaves_may_send_its_clients_on() -> None:
    client = settled()
    client.hear(GoTo(Successor("successor", "")))
    assert client.left == ["b"] and client.opened == ["successor"]
    assert client.up("successor").attend.tried == ("b",)


# -- publications --------------------------------------------------------------------------------------------------


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
    assert client.sent[:-1] == sent[1:], "boundaries, numbers and stamps are the same"
    assert client.published[-1].payloads.endswith(b"new")
    client.down("up")
    client.up("up").hear(serving(), "up")
    assert client.sent[:-1] == sent[1:] and len(client.sent) == len(sent), "as often as it takes"


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
    client.ask_together(*(SubscribeRequest(topic) for topic in "abc"), AdvertiseRequest("x"), AdvertiseRequest("y"))
    client.hear(Subscribed(1)).hear(Subscribed(3))
    client.ask_together(UnsubscribeRequest("c"), AdvertiseRequest("y", withdraw=True))
    client.down()
    client.ask_together(SubscribeRequest("c"), AdvertiseRequest("z"))
    assert [held.id for held in client.up("up").attend.subscriptions] == [1]
    client.hear(serving(), "up")
    assert client.sent == [Subscribe(2, "b", None), Subscribe(4, "c", None), Advertise("x"), Advertise("z")]
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
    assert client.sent == [Unsubscribe(1)] and client.told == [BrokerChanged("up")]
    assert client.hear(Unsubscribed(1), "up").told == [SubscriptionEnded("a", None)]


def test_a_subscription_that_is_asked_again_may_be_refused() -> None:
    client = settled()
    client.ask(SubscribeRequest("a")).down()
    client.up("up").hear(serving(), "up")
    assert client.sent == [Subscribe(1, "a", None)]
    client.hear(SubscribeRefused(1, "too many"), "up")
    assert client.ask(SubscribeRequest("a")).sent == [Subscribe(2, "a", None)]


def test_where_nothing_can_be_made_good_the_application_is_told_and_subscriptions_begin_anew() -> None:
    client = settled()
    client.ask_together(SubscribeRequest("a"), SubscribeRequest("b"), publication())
    client.hear(Subscribed(1, (Mark("p", "ordered", 1, 4),))).down()
    client.up("up").hear(serving(resumed=False), "up")
    reason = "up could not carry on 1 subscriptions: deliveries may be missing"
    assert client.told == [BrokerChanged("up"), SessionLost(reason, over=False)]
    assert client.sent[:2] == [Subscribe(1, "a", None), Subscribe(2, "b", None)] and len(client.published) == 1
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
