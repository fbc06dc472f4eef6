"""Subscriptions: options, identifiers, overlaps, retained messages, shared subscriptions, refusals by the tree."""

import pytest

from resprout.mqtt.actions import BeginSubscriptions, CloseConnection, EndSubscriptions, SendRetained
from resprout.mqtt.limits import ServerLimits
from resprout.mqtt.packets import (
    V3_1_1,
    V5,
    FilterRequest,
    Properties,
    Puback,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
)
from resprout.mqtt.reasons import Reason
from tests.mqtt.examples import VERSIONS
from tests.mqtt.rig import DEFAULT, Rig, tree_message


def connected(version: int = V5, limits: ServerLimits = DEFAULT) -> Rig:
    rig = Rig(version, limits)
    rig.connect()
    return rig


def identified(*identifiers: int) -> Properties:
    return Properties(subscription_identifiers=identifiers)


@pytest.mark.parametrize("version", VERSIONS)
def test_suback_comes_when_the_tree_has_confirmed(version: int) -> None:
    rig = connected(version)
    assert rig.hear(Subscribe(5, (FilterRequest("a/#", 1), FilterRequest("b", 2), FilterRequest("c", 0)))) == []
    asked = rig.take_one(BeginSubscriptions)
    assert [(topic_filter, group, is_new) for topic_filter, group, _, is_new in asked.requests] == [
        ("a/#", "", True), ("b", "", True), ("c", "", True),
    ]  # fmt: skip
    sent = rig.run(rig.machine.subscribed(asked.token, (0, 0, 0), rig.now))
    assert sent == [Suback(5, (1, 2, 0))]


def test_the_tree_refuses_one_of_several_filters() -> None:
    for version, code in ((V5, Reason.NOT_AUTHORIZED), (V3_1_1, 0x80)):
        rig = connected(version)
        rig.hear(Subscribe(5, (FilterRequest("a", 1), FilterRequest("b", 1))))
        token = rig.take_one(BeginSubscriptions).token
        assert rig.run(rig.machine.subscribed(token, (Reason.NOT_AUTHORIZED, 0), 0)) == [Suback(5, (code, 1))]
        assert rig.deliver("a") == []
        assert len(rig.deliver("b")) == 1


def test_a_refused_change_leaves_the_subscription_as_it_was() -> None:
    rig = connected()
    rig.subscribe("a", qos=1)
    rig.hear(Subscribe(5, (FilterRequest("a", 2),)))
    token = rig.take_one(BeginSubscriptions).token
    rig.run(rig.machine.subscribed(token, (Reason.QUOTA_EXCEEDED,), 0))
    assert rig.deliver("a")[0].qos == 1


FILTERS = [
    ("x" * 513, Reason.TOPIC_FILTER_INVALID),
    ("/" * 32, Reason.TOPIC_FILTER_INVALID),
    ("$share/g", Reason.TOPIC_FILTER_INVALID),
    ("$share//a", Reason.TOPIC_FILTER_INVALID),
    ("$share/g/", Reason.TOPIC_FILTER_INVALID),
    ("$mqtt/#", Reason.NOT_AUTHORIZED),
    ("$share/g/$mqtt/x", Reason.NOT_AUTHORIZED),
    ("$share/g/$share/h/x", Reason.NOT_AUTHORIZED),
    ("$share", Reason.NOT_AUTHORIZED),
]


@pytest.mark.parametrize(("topic_filter", "reason"), FILTERS)
def test_filters_that_are_refused(topic_filter: str, reason: Reason) -> None:
    rig = connected()
    assert rig.hear(Subscribe(1, (FilterRequest(topic_filter, 1),))) == [Suback(1, (reason,))]
    assert rig.hear(Unsubscribe(2, (topic_filter,))) == [Unsuback(2, (reason,))]
    assert not rig.actions
    assert connected(V3_1_1).hear(Subscribe(1, (FilterRequest(topic_filter, 1),))) == [Suback(1, (0x80,))]


MALFORMED = ["", "a/#/b", "a#", "#a", "#/#", "#/", "a+/b", "+a", "a/b+", "$share/g+/a", "$share/g#/a", "$share/g/a#"]


@pytest.mark.parametrize("topic_filter", MALFORMED)
@pytest.mark.parametrize("version", [V3_1_1, V5])
def test_malformed_filters_end_the_connection(topic_filter: str, version: int) -> None:
    """The standard calls them a violation by the client. No filter of the packet is subscribed or removed."""
    rig = connected(version)
    rig.hear(Subscribe(1, (FilterRequest("b", 1), FilterRequest(topic_filter, 1))))
    assert rig.take_one(CloseConnection).reason == Reason.MALFORMED_PACKET
    assert not rig.take(BeginSubscriptions)
    rig = connected(version)
    rig.hear(Unsubscribe(2, ("b", topic_filter)))
    assert rig.take_one(CloseConnection).reason == Reason.MALFORMED_PACKET


def test_wildcards_are_whole_levels() -> None:
    for topic_filter in ("+", "#", "+/+/#", "/", "//", "/#", "a/+/", "$share/g/#", "a b/ü"):
        rig = connected()
        rig.hear(Subscribe(1, (FilterRequest(topic_filter, 1),)))
        assert rig.confirm() == [Suback(1, (1,))]


def test_a_bad_filter_beside_a_good_one() -> None:
    rig = connected()
    rig.hear(Subscribe(1, (FilterRequest("$share/g", 1), FilterRequest("b", 1), FilterRequest("x" * 513, 1))))
    assert [request[0] for request in rig.take(BeginSubscriptions)[0].requests] == ["b"]
    assert rig.run(rig.machine.subscribed(1, (0,), 0)) == [Suback(1, (0x8F, 1, 0x8F))]


def test_qos_is_granted_up_to_the_maximum() -> None:
    rig = connected(limits=ServerLimits(maximum_qos=1))
    rig.hear(Subscribe(1, (FilterRequest("a", 2),)))
    assert rig.confirm() == [Suback(1, (1,))]


def test_overlapping_subscriptions_give_one_message() -> None:
    rig = connected()
    for topic_filter, qos, identifier in (("a/#", 0, 7), ("a/b", 2, 8), ("+/b", 1, 9)):
        rig.hear(Subscribe(1, (FilterRequest(topic_filter, qos),), identified(identifier)))
        rig.confirm()
    (publish,) = rig.deliver("a/b")
    assert publish.qos == 2
    assert sorted(publish.properties.subscription_identifiers) == [7, 8, 9]
    (publish,) = rig.deliver("a/c")
    assert (publish.qos, publish.properties.subscription_identifiers) == (0, (7,))


def test_two_subscriptions_with_one_identifier() -> None:
    rig = connected()
    rig.hear(Subscribe(1, (FilterRequest("a/#", 1), FilterRequest("a/b", 1)), identified(7)))
    rig.confirm()
    assert rig.deliver("a/b")[0].properties.subscription_identifiers == (7,)


def test_a_new_subscribe_replaces_options_and_identifier() -> None:
    rig = connected()
    rig.hear(Subscribe(1, (FilterRequest("a", 0),), identified(7)))
    rig.confirm()
    rig.hear(Subscribe(2, (FilterRequest("a", 1),)))
    asked = rig.take_one(BeginSubscriptions)
    assert asked.requests[0][3] is False
    rig.run(rig.machine.subscribed(asked.token, (0,), 0))
    (publish,) = rig.deliver("a")
    assert (publish.qos, publish.properties.subscription_identifiers) == (1, ())


def test_no_local() -> None:
    rig = connected()
    rig.subscribe("a/#", qos=1, no_local=True)
    assert rig.deliver("a/b", publisher="c") == []
    assert rig.taken == 1
    assert len(rig.deliver("a/b", publisher="d")) == 1
    rig.subscribe("a/b", qos=0)
    (publish,) = rig.deliver("a/b", publisher="c")
    assert publish.qos == 0, "only the other subscription wants it"


def test_no_local_counts_for_retained_messages() -> None:
    rig = connected()
    rig.hear(Subscribe(1, (FilterRequest("a/+", 0, no_local=True),)))
    retained = [tree_message("a/1", publisher="c", retain=True), tree_message("a/2", publisher="d", retain=True)]
    assert [each.topic for each in rig.confirm(retained)[1:]] == ["a/2"]


def test_no_local_of_a_shared_subscription() -> None:
    rig = connected()
    (disconnect,) = rig.hear(Subscribe(1, (FilterRequest("$share/g/a", 1, no_local=True),)))
    assert disconnect.reason == Reason.PROTOCOL_ERROR
    assert rig.is_closed


def test_retain_as_published() -> None:
    rig = connected()
    rig.subscribe("a", qos=0)
    rig.subscribe("b", qos=0, retain_as_published=True)
    assert [rig.deliver(topic, retain=True)[0].retain for topic in "ab"] == [False, True]
    assert rig.deliver("b")[0].retain is False


def test_retained_messages_follow_suback() -> None:
    rig = connected()
    rig.hear(Subscribe(3, (FilterRequest("a/+", 1),), identified(4)))
    retained = [tree_message("a/b", b"1", qos=0, retain=True), tree_message("a/c", b"2", retain=True)]
    suback, one, two = rig.confirm(retained)
    assert suback == Suback(3, (1,))
    assert [(each.payload, each.qos, each.retain) for each in (one, two)] == [(b"1", 0, True), (b"2", 1, True)]
    assert two.properties.subscription_identifiers == (4,)
    rig.hear(Puback(two.packet_id))
    assert rig.taken == 0, "the tree did not give them"
    rig.deliver("a/b", qos=0)
    assert rig.taken == 1


@pytest.mark.parametrize(("handling", "first", "second"), [(0, 1, 1), (1, 1, 0), (2, 0, 0)])
def test_retain_handling(handling: int, first: int, second: int) -> None:
    rig = connected()
    retained = [tree_message("a", qos=0, retain=True), tree_message("b", qos=0, retain=True)]
    for count in (first, second):
        rig.hear(Subscribe(1, (FilterRequest("a", 0, retain_handling=handling),)))
        assert len(rig.confirm(retained)) == 1 + count


def test_shared_subscriptions_get_no_retained_messages() -> None:
    rig = connected()
    rig.hear(Subscribe(1, (FilterRequest("$share/g/a", 0),)))
    assert rig.confirm([tree_message("a", retain=True)]) == [Suback(1, (0,))]


def test_shared_subscriptions() -> None:
    rig = connected()
    rig.hear(Subscribe(1, (FilterRequest("$share/g/a/+", 1),), identified(3)))
    asked = rig.take_one(BeginSubscriptions)
    assert asked.requests[0][:2] == ("a/+", "g")
    rig.run(rig.machine.subscribed(asked.token, (0,), 0))
    assert rig.deliver("a/b") == [], "it is no subscription of the client alone"
    (publish,) = rig.deliver("a/b", source="$share/g/a/+")
    assert (publish.qos, publish.properties.subscription_identifiers) == (1, (3,))
    rig.hear(Unsubscribe(2, ("$share/g/a/+",)))
    assert rig.take_one(EndSubscriptions).filters == ("$share/g/a/+",)
    assert rig.deliver("a/b", source="$share/g/a/+") == []


def test_shared_subscriptions_that_the_server_does_not_offer() -> None:
    rig = connected(limits=ServerLimits(shared_available=False))
    (suback,) = rig.hear(Subscribe(1, (FilterRequest("$share/g/a", 1),)))
    assert suback.reasons == (Reason.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED,)


@pytest.mark.parametrize("version", VERSIONS)
def test_unsubscribe(version: int) -> None:
    rig = connected(version)
    rig.subscribe("a", "b")
    assert rig.hear(Unsubscribe(4, ("a", "none", "b"))) == []
    ended = rig.take_one(EndSubscriptions)
    assert ended.filters == ("a", "b")
    assert rig.deliver("a") == []
    assert rig.state.outgoing.counts.unwanted == 1
    (unsuback,) = rig.run(rig.machine.unsubscribed(ended.token, (0, 0), rig.now))
    assert unsuback == Unsuback(4, (0, Reason.NO_SUBSCRIPTION_EXISTED, 0) if version == V5 else ())


def test_unsubscribe_from_nothing_is_answered_at_once() -> None:
    rig = connected()
    assert rig.hear(Unsubscribe(4, ("a",))) == [Unsuback(4, (Reason.NO_SUBSCRIPTION_EXISTED,))]


def test_an_end_that_the_tree_refuses() -> None:
    rig = connected()
    rig.subscribe("a")
    rig.hear(Unsubscribe(4, ("a",)))
    token = rig.take_one(EndSubscriptions).token
    sent = rig.run(rig.machine.unsubscribed(token, (Reason.UNSPECIFIED_ERROR,), 0))
    assert sent == [Unsuback(4, (Reason.UNSPECIFIED_ERROR,))]
    assert len(rig.deliver("a")) == 1


def test_messages_in_flight_survive_unsubscribe() -> None:
    rig = connected()
    rig.subscribe("a")
    (publish,) = rig.deliver("a", qos=1)
    rig.hear(Unsubscribe(4, ("a",)))
    rig.confirm()
    rig.hear(Puback(publish.packet_id))
    assert rig.taken == 1


def test_an_answer_for_an_earlier_connection_counts_and_is_not_sent() -> None:
    first = Rig()
    first.connect(session_expiry=60)
    first.subscribe("b")
    first.hear(Subscribe(1, (FilterRequest("a", 1),)))
    token = first.take_one(BeginSubscriptions).token
    first.lose()
    second = first.again()
    second.connect(clean=False, session_expiry=60, state=first.state)
    assert second.run(second.machine.subscribed(token, (Reason.NOT_AUTHORIZED,), 0)) == []
    assert second.deliver("a") == []
    assert len(second.deliver("b")) == 1
    assert second.run(second.machine.subscribed(token, (0,), 0)) == [], "a token counts once"


def test_subscriptions_survive_the_connection() -> None:
    first = Rig(V3_1_1)
    first.connect(clean=False)
    first.subscribe("a/#", qos=1)
    first.lose()
    second = first.again()
    second.connect(clean=False, state=first.state)
    assert second.deliver("a/b")[0].qos == 1


def test_subscriptions_are_bounded() -> None:
    rig = connected(limits=ServerLimits(subscriptions_max=2))
    rig.subscribe("a", "b")
    assert rig.hear(Subscribe(1, (FilterRequest("c", 1),))) == [Suback(1, (Reason.QUOTA_EXCEEDED,))]
    rig.hear(Subscribe(1, (FilterRequest("a", 1),)))
    assert rig.confirm() == [Suback(1, (1,))]


def test_questions_to_the_tree_are_bounded() -> None:
    rig = connected(limits=ServerLimits(pending_requests_max=2))
    for packet_id in (1, 2):
        rig.hear(Subscribe(packet_id, (FilterRequest("a", 1),)))
    assert not rig.is_closed
    rig.hear(Subscribe(3, (FilterRequest("a", 1),)))
    assert rig.take_one(CloseConnection).reason == Reason.QUOTA_EXCEEDED


def test_retained_messages_that_wait_are_bounded() -> None:
    rig = Rig(limits=ServerLimits(retained_waiting_max=3))
    rig.connect(receive_maximum=1)
    rig.hear(Subscribe(1, (FilterRequest("#", 1),)))
    rig.confirm([tree_message(f"a/{number}", qos=1, retain=True) for number in range(4)])
    assert rig.machine.retained_room == 0, "one is sent and three wait"
    rig.hear(Puback(rig.state.outgoing.in_flight[0]))
    assert rig.machine.retained_room == 1


def test_retained_messages_of_a_subscription_end_with_it() -> None:
    rig = connected()
    rig.hear(Subscribe(1, (FilterRequest("a/#"),)))
    rig.run(rig.machine.subscribed(rig.take_one(BeginSubscriptions).token, [0], rig.now))
    first = rig.take_one(SendRetained).subscription
    assert rig.machine.is_subscribed(first)
    rig.subscribe("a/#")
    assert not rig.machine.is_subscribed(first), "the later subscription gets them"
    rig.hear(Unsubscribe(9, ("a/#",)))
    assert not rig.machine.is_subscribed(first)


def test_filters_in_unanswered_packets_are_bounded() -> None:
    rig = Rig(limits=ServerLimits(pending_filters_max=5))
    rig.connect()
    three = tuple([FilterRequest(topic_filter) for topic_filter in "abc"])
    rig.hear(Subscribe(1, three))
    rig.confirm()
    rig.hear(Subscribe(2, three))
    assert not rig.is_closed, "the first packet is answered"
    rig.hear(Subscribe(3, three))
    assert rig.take_one(CloseConnection).reason == Reason.QUOTA_EXCEEDED
