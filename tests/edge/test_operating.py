"""What a client passes on of an operator's words, and what it is told about publications that wait."""

import pytest

from resprout.core.contract import Answer
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.edge.client.questions import NAMES_MAX, REQUESTS_MAX, check_names
from resprout.edge.messages import BrokersForgotten, Extra, ForgetBrokers, PublicationWaits, Serving, Subscribe, Turned
from resprout.edge.requests import (
    ForgetAnswered,
    ForgetRequest,
    PublishRequest,
    ReceiptTurned,
    ReceiptWaits,
    Refused,
    SessionLost,
    SubscribeRequest,
)
from tests.edge.puppets import SERVING, Puppet

WHY = "waits for b3, which is not heard"
TOTALS = Serving("resprout", tuple(Guarantee), 1, extras=tuple(Extra))

# -- forgetting --------------------------------------------------------------------------------------------------------


def test_a_request_to_forget_brokers_is_sent_at_once_and_answered_under_its_token() -> None:
    client = Puppet()
    assert client.ask(ForgetRequest(("b3", "b7")), 41).sent == [ForgetBrokers(("b3", "b7"))]
    client.ask(ForgetRequest(("b5",)), 42)
    client.hear(BrokersForgotten(("b3", "b7"), ""))
    assert client.of(Answer) == [Answer(ForgetAnswered(("b3", "b7"), ""), 41)]
    client.hear(BrokersForgotten(("b5",), "b5 is alive here: stop it first"))
    assert client.of(Answer) == [Answer(ForgetAnswered(("b5",), "b5 is alive here: stop it first"), 42)]


def test_a_name_that_is_said_twice_is_passed_on_once() -> None:
    assert Puppet().ask(ForgetRequest(("b3", "b7", "b3"))).sent == [ForgetBrokers(("b3", "b7"))]


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ((), "which brokers are to be forgotten?"),
        (("b 3",), "broker name 'b 3' is refused"),
        (("b3", ""), "broker name '' is refused"),
        (tuple(f"b{number}" for number in range(NAMES_MAX + 1)), f"at most {NAMES_MAX}"),
    ],
)
def test_what_no_broker_is_called_is_refused_here(names: tuple[str, ...], reason: str) -> None:
    request = ForgetRequest(names)
    client = Puppet().ask(request, 7)
    assert client.sent == []
    (answer,) = client.of(Answer)
    assert isinstance(answer.body, Refused)
    assert (answer.token, answer.body.request, answer.body.definite) == (7, request, True)
    assert reason in answer.body.reason
    assert check_names(("b3",)) == ("b3",)


def test_a_request_waits_for_the_first_broker_that_serves() -> None:
    client = Puppet(serving=None)
    assert client.ask(ForgetRequest(("b3",)), 5).sent == []
    client.up()
    client.hear(SERVING)
    assert client.sent == [ForgetBrokers(("b3",))]
    assert client.hear(BrokersForgotten(("b3",), "")).of(Answer) == [Answer(ForgetAnswered(("b3",), ""), 5)]


def test_an_answer_that_is_lost_with_its_session_is_reported_and_the_request_is_not_repeated() -> None:
    client = Puppet()
    client.ask(ForgetRequest(("b3",)), 5)
    client.again()
    assert client.of(Answer) == [
        Answer(ForgetAnswered(("b3",), "the broker was lost before it answered: ask again"), 5)
    ]
    assert not [message for message in client.sent if isinstance(message, ForgetBrokers)]
    assert client.ask(ForgetRequest(("b3",)), 6).sent == [ForgetBrokers(("b3",))]


def test_requests_leave_after_what_was_asked_before() -> None:
    client = Puppet()
    client.ask_together(SubscribeRequest("t"), ForgetRequest(("b3",)))
    assert client.sent == [Subscribe(1, "t", None), ForgetBrokers(("b3",))]


def test_no_more_requests_wait_than_are_allowed() -> None:
    client = Puppet()
    for number in range(REQUESTS_MAX):
        assert client.ask(ForgetRequest(("b3",)), number).told == []
    (refused,) = client.ask(ForgetRequest(("b3",))).told
    assert isinstance(refused, Refused)


@pytest.mark.parametrize("asked", [(), ("b7",)])
def test_an_answer_that_nobody_asked_for_ends_the_session(asked: tuple[str, ...]) -> None:
    client = Puppet()
    if asked:
        client.ask(ForgetRequest(asked))
    client.hear(BrokersForgotten(("b3",), ""))
    (lost,) = client.told
    assert isinstance(lost, SessionLost) and lost.over


# -- waiting -----------------------------------------------------------------------------------------------------------


def publisher(count: int) -> Puppet:
    client = Puppet(serving=TOTALS)
    for _ in range(count):
        client.ask(PublishRequest("t", b"x", Guarantee.TOTAL))
    return client


def test_a_publication_that_waits_is_news_as_often_as_the_broker_says_so() -> None:
    client = publisher(2)
    assert client.hear(PublicationWaits("ordered", 1, WHY)).told == [ReceiptWaits("ordered", 1, WHY)]
    assert client.hear(PublicationWaits("ordered", 1, "waits for the root")).told == [
        ReceiptWaits("ordered", 1, "waits for the root")
    ]


def test_what_has_a_receipt_by_now_does_not_wait() -> None:
    client = publisher(2)
    client.hear(Turned("ordered", ReceiptLevel.SAFE, 1))
    assert ReceiptTurned("ordered", ReceiptLevel.SAFE, 1, 1) in client.told
    assert client.hear(PublicationWaits("ordered", 1, WHY)).told == []
    assert client.hear(PublicationWaits("ordered", 2, WHY)).told == [ReceiptWaits("ordered", 2, WHY)]


@pytest.mark.parametrize(("stream", "seq"), [("ordered", 3), ("eventual", 1), ("sideways", 1)])
def test_a_broker_that_tells_of_what_was_never_published_is_left(stream: str, seq: int) -> None:
    (lost,) = publisher(2).hear(PublicationWaits(stream, seq, WHY)).told
    assert isinstance(lost, SessionLost) and lost.over


def test_a_word_about_waiting_keeps_no_run_from_coming_to_rest() -> None:
    assert PublicationWaits("ordered", 1, WHY).background


def test_what_a_stack_does_not_offer_is_not_asked_of_its_brokers() -> None:
    client = Puppet(serving=Serving("plain", tuple(Guarantee), 1))
    assert client.ask(ForgetRequest(("b3",)), 7).sent == []
    (answer,) = client.of(Answer)
    assert isinstance(answer.body, ForgetAnswered) and answer.token == 7
    assert answer.body.names == ("b3",) and "none is waited for" in answer.body.reason
    client.down()
    client.up("up").hear(Serving("plain", tuple(Guarantee), 1), "up")
    assert client.sent == [], "nor of the next one"
