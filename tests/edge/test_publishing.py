"""What a client does with publications: numbers, bundles, refusals, receipts."""

from typing import Any

import pytest

from resprout.core import limits
from resprout.core.bundle import unpack_attributes, unpack_payloads
from resprout.core.contract import Answer, Open
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.edge.client.machine import ClientOptions
from resprout.edge.messages import Attend, PublishRefused, SafeCopies, Serving, Subscribe, Turned
from resprout.edge.requests import (
    FlushRequest,
    LeaveRequest,
    Published,
    PublishRequest,
    ReceiptTurned,
    Refused,
    RoomAgain,
    SessionBegan,
    SessionLost,
    SubscribeRequest,
)
from tests.edge.puppets import OFFERED, SERVING, Puppet, delivery


def publication(payload: bytes = b"x", **changes: Any) -> PublishRequest:
    return PublishRequest(changes.pop("topic", "t"), payload, **changes)


def test_a_client_opens_a_session_with_its_broker() -> None:
    assert Puppet(serving=None).last == [Open("b")]


def test_publications_are_numbered_per_stream_and_answered_at_once_by_token() -> None:
    client = Puppet()
    guarantees = (Guarantee.FIFO, Guarantee.EVENTUAL, Guarantee.CAUSAL, Guarantee.EVENTUAL)
    answers = [
        client.ask(publication(guarantee=guarantee), token).of(Answer)[0]
        for token, guarantee in enumerate(guarantees, 70)
    ]
    assert answers == [
        Answer(Published("ordered", 1), 70),
        Answer(Published("eventual", 1), 71),
        Answer(Published("ordered", 2), 72),
        Answer(Published("eventual", 2), 73),
    ]


def test_what_is_asked_before_one_flush_shares_a_bundle_as_long_as_topic_keys_and_guarantee_agree() -> None:
    client = Puppet()
    rows: list[dict[str, Any]] = [{"n": 1}, {}, {"n": 3}]
    client.ask_together(
        *(publication(b"%d" % n, attributes=row) for n, row in enumerate(rows)),
        publication(b"keyed", keys=("k",)),
        publication(b"fifo", guarantee=Guarantee.FIFO),
        publication(b"other", topic="u"),
        publication(b"again"),
    )
    bundles = client.published
    assert [(bundle.first, bundle.count) for bundle in bundles] == [(1, 3), (4, 1), (5, 1), (6, 1), (7, 1)]
    assert all((bundle.publisher, bundle.incarnation) == ("c", 3) for bundle in bundles)
    assert unpack_payloads(bundles[0]) == [b"0", b"1", b"2"]
    assert unpack_attributes(bundles[0]) == rows
    assert bundles[1].keys == ("k",) and bundles[2].guarantee is Guarantee.FIFO and bundles[3].topic == "u"


def test_equal_key_sets_share_a_bundle_however_they_are_written() -> None:
    client = Puppet()
    client.ask_together(publication(keys=("b", "a")), publication(keys=("a", "b", "a")))
    assert [(bundle.count, bundle.keys) for bundle in client.published] == [(2, ("a", "b"))]


def test_a_bundle_holds_no_more_messages_than_its_limit() -> None:
    client = Puppet(room=1 << 30)
    client.ask_together(*(publication(b"") for _ in range(limits.BUNDLE_MESSAGES + 1)))
    assert [bundle.count for bundle in client.published] == [limits.BUNDLE_MESSAGES, 1]


def test_a_bundle_holds_no_more_bytes_than_its_limit_though_one_message_always_fits() -> None:
    client = Puppet(room=1 << 30)
    largest = bytes(limits.PAYLOAD_BYTES)
    texts = {f"a{n}": "é" * 40 for n in range(30)}
    client.ask_together(
        publication(largest), publication(largest), *(publication(bytes(40_000), attributes=texts) for _ in range(60))
    )
    assert [bundle.count for bundle in client.published[:2]] == [1, 1]
    for bundle in client.published:
        assert len(bundle.payloads) + len(bundle.attributes) <= limits.BUNDLE_BYTES
    assert sum(bundle.count for bundle in client.published) == 62


def test_while_there_is_no_room_bundles_fill() -> None:
    client = Puppet(room=1)
    assert len(client.ask(publication(b"0")).published) == 1, "room is checked before a bundle, not within it"
    for n in range(1, 4):
        assert client.ask(publication(b"%d" % n)).published == []
    client.writable()
    assert [unpack_payloads(bundle) for bundle in client.published] == [[b"1", b"2", b"3"]]


def test_control_messages_need_no_room() -> None:
    client = Puppet(room=0)
    client.ask_together(publication(), SubscribeRequest("t"))
    assert client.sent == [Subscribe(1, "t", None)]


def test_a_bundle_is_stamped_with_the_latest_that_its_client_has_seen() -> None:
    client = Puppet()
    client.hear(delivery(stamp=41))
    client.hear(delivery(2, stamp=7))
    assert client.ask(publication()).published[0].stamp == 41


# -- before the broker is there ------------------------------------------------------------------------------------


def test_early_publications_wait_unnumbered_and_leave_in_order_once_the_network_has_said_what_it_offers() -> None:
    client = Puppet(serving=None)
    client.ask(publication(b"1"), 11)
    client.ask(publication(b"2", guarantee=Guarantee.TOTAL), 12)
    client.ask(publication(b"3"), 13)
    assert client.last == [] and client.up().attend == Attend(0)
    client.hear(SERVING)
    began, first, refused, third = client.of(Answer)
    assert began.body == SessionBegan("resprout", OFFERED, 1)
    assert (first, third) == (Answer(Published("ordered", 1), 11), Answer(Published("ordered", 2), 13))
    assert refused.token == 12 and isinstance(refused.body, Refused) and refused.body.definite, "and it left no gap"
    assert unpack_payloads(client.published[0]) == [b"1", b"3"]


def test_early_publications_have_a_limit() -> None:
    client = Puppet(ClientOptions(early_max=2), serving=None)
    for _ in range(2):
        assert client.ask(publication()).last == []
    (refused,) = client.ask(publication(), 9).of(Answer)
    assert refused.token == 9 and refused.body.reason == "2 publications wait for the broker to be reached"


def test_a_bad_early_publication_is_refused_when_its_turn_comes() -> None:
    client = Puppet(serving=None)
    client.ask(publication(topic="a/+"), 4)
    client.up().hear(SERVING)
    assert [answer.body.definite for answer in client.of(Answer) if answer.token == 4] == [True]
    assert client.published == []


def test_publications_keep_their_place_while_the_broker_is_away() -> None:
    client = Puppet()
    assert client.down().told == [], "that another session is needed is no news"
    for n in range(3):
        client.ask(publication(b"%d" % n))
        assert client.told == [Published("ordered", n + 1)] and client.sent == []
    client.up().hear(SERVING)
    assert unpack_payloads(client.published[0]) == [b"0", b"1", b"2"]


# -- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (publication(topic=""), "topic must be a text"),
        (publication(topic="a/#"), "wildcard"),
        (publication(keys=("",)), "key must be a text"),
        (publication(keys="abc"), "keys are a list"),
        (publication(keys=(1,)), "key must be a text"),
        (publication(payload="text"), "a payload is bytes"),  # type: ignore[arg-type]
        (publication(bytes(limits.PAYLOAD_BYTES + 1)), "a payload of 1048577 bytes"),
        (publication(attributes={"a": None}), "attribute 'a' must be"),
        (publication(attributes=None), "attributes map names to values"),
        (
            publication(guarantee=Guarantee.TOTAL),
            "the stack 'resprout' does not offer 'total'; it offers eventual, fifo, causal",
        ),
    ],
)
def test_a_publication_that_cannot_be_is_refused_at_once_and_takes_no_number(
    request_: PublishRequest, why: str
) -> None:
    client = Puppet()
    (answer,) = client.ask(request_, 5).of(Answer)
    assert client.sent == [] and answer.token == 5
    assert isinstance(answer.body, Refused) and answer.body.definite and answer.body.request is request_
    assert why in answer.body.reason
    assert client.ask(publication()).told == [Published("ordered", 1)]


def test_beyond_its_queue_a_client_refuses_and_later_takes_again() -> None:
    client = Puppet(ClientOptions(queue_bytes_max=1000), room=0)
    told = [client.ask(publication(bytes(300))).told[0] for _ in range(6)]
    assert [type(news) for news in told] == [Published] * 4 + [Refused] * 2
    assert "bytes wait to be published or to be safe; the network does not keep up" in told[-1].reason
    client.writable()
    assert isinstance(client.ask(publication()).told[0], Refused), "what has left is kept until it is safe"
    client.hear(Turned("ordered", ReceiptLevel.SAFE, 4))
    assert Published("ordered", 5) in client.ask(publication()).told


def test_a_publisher_is_told_when_there_is_room_again() -> None:
    client = Puppet(ClientOptions(queue_bytes_high=500), room=0)
    crowded = [client.machine.crowded]
    for _ in range(3):
        client.machine.outgoing.add("t", (), Guarantee.CAUSAL, bytes(200), {})
    crowded.append(client.machine.crowded)
    assert client.ask(FlushRequest()).told == []
    assert client.writable().told == [RoomAgain()]
    crowded.append(client.machine.crowded)
    assert client.writable().told == []
    assert crowded == [False, True, False]


def test_a_publisher_pauses_as_well_for_what_has_left_and_is_not_safe() -> None:
    client = Puppet(ClientOptions(unsafe_bytes_high=1_000))
    for _ in range(4):
        client.ask(publication(bytes(300)))
    assert client.machine.crowded
    assert RoomAgain() not in client.hear(Turned("ordered", ReceiptLevel.ACCEPTED, 4)).told
    assert RoomAgain() not in client.hear(Turned("ordered", ReceiptLevel.SAFE, 2)).told
    assert RoomAgain() in client.hear(Turned("ordered", ReceiptLevel.SAFE, 3)).told
    assert not client.machine.crowded


def test_a_publisher_pauses_for_many_small_bundles_that_are_not_safe() -> None:
    client = Puppet(ClientOptions(unsafe_bundles_high=3))
    for _ in range(4):
        assert not client.machine.crowded
        client.ask(publication(b"1"))
    assert client.machine.crowded
    assert RoomAgain() not in client.hear(Turned("ordered", ReceiptLevel.SAFE, 2)).told
    assert RoomAgain() in client.hear(Turned("ordered", ReceiptLevel.SAFE, 3)).told


def test_what_is_added_unchecked_leaves_with_the_next_flush() -> None:
    client = Puppet()
    assert [client.machine.outgoing.add("t", (), Guarantee.FIFO, b"%d" % n, {}) for n in range(2)] == [1, 2]
    client.ask(FlushRequest())
    assert unpack_payloads(client.published[0]) == [b"0", b"1"]


def test_a_client_that_leaves_sends_what_it_has_and_closes() -> None:
    client = Puppet()
    client.machine.outgoing.add("t", (), Guarantee.FIFO, b"last", {})
    client.ask(LeaveRequest())
    assert len(client.published) == 1 and client.closed == "the client leaves"
    assert client.ask(publication()).sent == [], "there is nobody to send to any more"


# -- receipts ------------------------------------------------------------------------------------------------------


def test_receipts_are_watermarks_and_include_the_weaker_ones() -> None:
    client = Puppet()
    client.ask_together(*(publication() for _ in range(9)))
    assert client.hear(Turned("ordered", ReceiptLevel.ACCEPTED, 2)).told == [
        ReceiptTurned("ordered", ReceiptLevel.ACCEPTED, 1, 2)
    ]
    assert client.hear(Turned("ordered", ReceiptLevel.DELIVERED, 5)).told == [
        ReceiptTurned("ordered", ReceiptLevel.ACCEPTED, 3, 5),
        ReceiptTurned("ordered", ReceiptLevel.SAFE, 1, 5),
        ReceiptTurned("ordered", ReceiptLevel.DELIVERED, 1, 5),
    ]
    assert client.hear(Turned("ordered", ReceiptLevel.SAFE, 5)).told == [], "no news"
    assert client.hear(Turned("ordered", ReceiptLevel.SAFE, 9)).told == [
        ReceiptTurned("ordered", ReceiptLevel.ACCEPTED, 6, 9),
        ReceiptTurned("ordered", ReceiptLevel.SAFE, 6, 9),
    ]


def test_streams_have_receipts_of_their_own() -> None:
    client = Puppet()
    client.ask_together(publication(), publication(guarantee=Guarantee.EVENTUAL))
    client.hear(Turned("ordered", ReceiptLevel.ACCEPTED, 1))
    assert client.hear(Turned("eventual", ReceiptLevel.ACCEPTED, 1)).told == [
        ReceiptTurned("eventual", ReceiptLevel.ACCEPTED, 1, 1)
    ]


def test_a_refusal_by_the_broker_names_the_publications() -> None:
    client = Puppet()
    client.ask_together(*(publication() for _ in range(4)))
    (refused,) = client.hear(PublishRefused("ordered", 2, 3, "no")).told
    assert refused == Refused(None, "no", True, "ordered", 2, 4)


def test_a_receipt_up_to_a_later_number_says_nothing_of_what_was_refused() -> None:
    client = Puppet()
    client.ask_together(*(publication() for _ in range(5)))
    client.hear(PublishRefused("ordered", 2, 2, "no"))
    told = [
        news for news in client.hear(Turned("ordered", ReceiptLevel.SAFE, 5)).told if isinstance(news, ReceiptTurned)
    ]
    safe = [(news.first, news.last) for news in told if news.receipt is ReceiptLevel.SAFE]
    assert safe == [(1, 1), (4, 5)]


def test_a_network_that_offers_less_refuses_more() -> None:
    client = Puppet(serving=None)
    client.up().hear(Serving("tiny", (Guarantee.EVENTUAL,), 0))
    (refused,) = client.ask(publication()).told
    assert refused.reason == "the stack 'tiny' does not offer 'causal'; it offers eventual"


# -- a broker that lies --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        Turned("never", ReceiptLevel.ACCEPTED, 0),
        Turned("no such stream", ReceiptLevel.SAFE, 1),
        PublishRefused("ordered", 1, 1 << 62, "no"),
        PublishRefused("ordered", 2, 1, "no"),
        PublishRefused("ordered", 0, 1, "no"),
        PublishRefused("ordered", 1, 0, "no"),
        PublishRefused("elsewhere", 1, 1, "no"),
    ],
)
def test_news_of_what_was_never_published_ends_the_session(message: Any) -> None:
    client = Puppet()
    client.ask(publication())
    client.hear(message)
    assert client.closed is not None
    assert client.told == [SessionLost(client.closed, over=True)], "and nobody is asked to go through all of it"
    assert client.ask(publication()).sent == []


@pytest.mark.parametrize(
    ("message", "turned"),
    [
        (Turned("ordered", ReceiptLevel.ACCEPTED, 1 << 52), [ReceiptTurned("ordered", ReceiptLevel.ACCEPTED, 1, 1)]),
        (Turned("ordered", ReceiptLevel.ACCEPTED, 2, 2), []),
        (Turned("eventual", ReceiptLevel.SAFE, 1), []),
        (SafeCopies("ordered", 2, 1), []),
    ],
)
def test_receipts_count_for_what_was_published_and_end_no_session(message: Any, turned: list[Any]) -> None:
    """A broker far away can make up publications of this client. Its home broker is not to blame for that."""
    client = Puppet()
    client.ask(publication())
    client.hear(message)
    assert client.told == turned and client.closed is None
    assert client.ask(publication()).sent != []
