"""A client whose broker is gone: where it turns, what it brings along, what it says again."""

from typing import Any

import pytest

from resprout.core.contract import (
    Answer,
    CancelTimer,
    Close,
    Deliver,
    EndCause,
    LinkDown,
    Locate,
    SetTimer,
)
from resprout.core.message_fields import Mark
from resprout.edge.client import machine as client_module
from resprout.edge.client import wanted as wanted_module
from resprout.edge.client.machine import ClientOptions
from resprout.edge.client.options import AnswerDue, AskAgain, AskOthers
from resprout.edge.client.search import (
    ANSWER_US,
    BRIEF_MAX,
    BRIEF_US,
    DETOURS_MAX,
    ROUND_US_MAX,
    ROUND_US_MIN,
    SUCCESSORS_MAX,
)
from resprout.edge.messages import (
    Attend,
    GoTo,
    HeldSubscription,
    Subscribe,
    Subscribed,
    Successor,
    Successors,
    Taken,
)
from resprout.edge.requests import (
    BrokerChanged,
    PublishRequest,
    SessionBegan,
    SessionLost,
    SubscribeRequest,
    SubscriptionConfirmed,
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
    client.ask_together(SubscribeRequest("t"), publication())
    assert client.up().attend == Attend(0)
    assert client.ask(publication()).last == [] and client.writable().last == []
    client.hear(SERVING)
    assert client.sent[:1] == [Subscribe(1, "t", None)] and len(client.published) == 1


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
    assert client.sent == [Taken(0), *(Subscribe(n, f"t/{n - 1}", None) for n in (3, 4, 5))]
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
