"""Messages to the client: QoS, order, flow control, retransmission, topic aliases, expiry, sizes."""

from typing import Any

import pytest

from resprout.mqtt.actions import CloseConnection
from resprout.mqtt.limits import SECOND_US, ServerLimits
from resprout.mqtt.packets import (
    V3_1_1,
    V5,
    FilterRequest,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
)
from resprout.mqtt.reasons import Reason
from tests.mqtt.examples import VERSIONS
from tests.mqtt.rig import WALL, Rig


def subscribed(version: int = V5, limits: ServerLimits | None = None, qos: int = 2, **properties: Any) -> Rig:
    rig = Rig(version, limits or ServerLimits())
    rig.connect(clean=False, **properties)
    rig.subscribe("#", qos=qos)
    return rig


def resumed(first: Rig, **properties: Any) -> Rig:
    second = first.again()
    second.connect(clean=False, state=first.state, **properties)
    return second


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("published", [0, 1, 2])
@pytest.mark.parametrize("wanted", [0, 1, 2])
def test_the_smaller_qos_counts(version: int, published: int, wanted: int) -> None:
    rig = subscribed(version, qos=wanted)
    (publish,) = rig.deliver("t", b"hi", qos=published)
    assert publish.qos == min(published, wanted)
    assert (publish.packet_id > 0) is (publish.qos > 0)
    assert not publish.dup
    assert rig.taken == (publish.qos == 0)


def test_a_native_message_has_the_qos_of_the_subscription() -> None:
    (publish,) = subscribed(qos=2).deliver("t")
    assert publish.qos == 2


def test_qos_1_is_done_with_puback() -> None:
    rig = subscribed()
    (publish,) = rig.deliver(qos=1)
    assert rig.taken == 0
    assert rig.hear(Puback(publish.packet_id)) == []
    assert rig.taken == 1
    assert rig.hear(Puback(publish.packet_id)) == [], "an acknowledgement that comes twice changes nothing"
    assert rig.taken == 1
    assert not rig.is_closed


def test_qos_2_is_done_with_pubrec() -> None:
    rig = subscribed()
    (publish,) = rig.deliver()
    assert rig.hear(Pubrec(publish.packet_id)) == [Pubrel(publish.packet_id)]
    assert rig.taken == 1
    assert rig.hear(Pubrec(publish.packet_id)) == [Pubrel(publish.packet_id)]
    assert list(rig.state.outgoing.in_flight) == [publish.packet_id]
    assert rig.hear(Pubcomp(publish.packet_id)) == []
    assert not rig.state.outgoing.in_flight
    assert rig.taken == 1


def test_a_client_that_refuses_a_message_has_it_done() -> None:
    rig = subscribed()
    (one,) = rig.deliver(qos=1)
    (two,) = rig.deliver()
    assert rig.hear(Puback(one.packet_id, Reason.QUOTA_EXCEEDED)) == []
    assert rig.hear(Pubrec(two.packet_id, Reason.QUOTA_EXCEEDED)) == []
    assert rig.taken == 2
    assert rig.state.outgoing.in_flight == ()


def test_pubrec_of_an_unknown_identifier() -> None:
    assert subscribed(V5).hear(Pubrec(9)) == [Pubrel(9, Reason.PACKET_IDENTIFIER_NOT_FOUND)]
    assert subscribed(V3_1_1).hear(Pubrec(9)) == [Pubrel(9)]
    assert subscribed(V5).hear(Pubrec(9, Reason.QUOTA_EXCEEDED)) == []
    assert subscribed(V5).hear(Pubcomp(9)) == []


@pytest.mark.parametrize(("qos", "ack"), [(1, Pubrec(1)), (2, Puback(1)), (1, Pubcomp(1)), (2, Pubcomp(1))])
def test_acknowledgements_of_another_qos(qos: int, ack: Any) -> None:
    rig = subscribed()
    rig.deliver(qos=qos)
    rig.hear(ack)
    assert rig.take_one(CloseConnection).reason == Reason.PROTOCOL_ERROR


def test_messages_are_reported_as_done_in_their_order() -> None:
    rig = subscribed()
    ids = [rig.deliver(qos=1)[0].packet_id for _ in range(3)]
    rig.hear(Puback(ids[2]))
    rig.hear(Puback(ids[1]))
    assert rig.taken == 0
    rig.deliver(qos=0)
    assert rig.taken == 0, "the first message is not done"
    rig.hear(Puback(ids[0]))
    assert rig.taken == 4


def test_receive_maximum_of_the_client() -> None:
    rig = subscribed(receive_maximum=2)
    assert len(rig.deliver(payload=b"1", qos=1)) == 1
    assert len(rig.deliver(payload=b"2", qos=2)) == 1
    assert rig.deliver(payload=b"3", qos=1) == []
    assert rig.deliver(payload=b"4", qos=0) == [], "it does not overtake"
    assert rig.deliver(payload=b"5", qos=1) == []
    assert [each.payload for each in rig.hear(Puback(1))] == [b"3", b"4"]
    assert rig.hear(Pubrec(2)) == [Pubrel(2)]
    (fifth,) = rig.hear(Pubcomp(2))
    assert fifth.payload == b"5"
    assert rig.taken == 2
    for packet_id in rig.state.outgoing.in_flight:
        rig.hear(Puback(packet_id))
    assert rig.taken == 5


def test_room_is_bounded() -> None:
    rig = Rig(limits=ServerLimits(flight_max=2, waiting_max=3))
    assert rig.machine.room == 0
    rig.connect()
    rig.subscribe("#")
    assert rig.machine.room == 5
    for _ in range(5):
        rig.deliver(qos=1)
    assert rig.machine.room == 0
    assert len(rig.state.outgoing.in_flight) == 2
    rig.hear(Puback(1))
    assert rig.machine.room == 1
    rig.lose()
    assert rig.machine.room == 0


def test_packet_identifiers_are_free_when_they_are_used() -> None:
    rig = subscribed(limits=ServerLimits(flight_max=3))
    (first,) = rig.deliver(qos=1)
    used = []
    for _ in range(70_000):
        (publish,) = rig.deliver(qos=1)
        assert publish.packet_id != first.packet_id
        used.append(publish.packet_id)
        rig.hear(Puback(publish.packet_id))
    assert min(used) == 2
    assert max(used) == 65_535


def test_what_was_not_acknowledged_is_sent_again_in_order() -> None:
    first = subscribed(V3_1_1)
    sent = [first.deliver(payload=str(number).encode(), qos=1 + number % 2)[0] for number in range(6)]
    first.hear(Pubrec(sent[1].packet_id))
    first.hear(Puback(sent[2].packet_id))
    first.lose()
    second = resumed(first)
    again = [each for each in second.sent if isinstance(each, Publish)]
    assert [each.payload for each in again] == [b"0", b"3", b"4", b"5"]
    assert all(each.dup for each in again)
    assert [each.packet_id for each in again] == [sent[place].packet_id for place in (0, 3, 4, 5)]
    assert Pubrel(sent[1].packet_id) in second.sent
    assert second.hear(Pubcomp(sent[1].packet_id)) == []


def test_retransmission_respects_the_receive_maximum() -> None:
    first = subscribed(session_expiry=60)
    ids = [first.deliver(payload=str(number).encode(), qos=1)[0].packet_id for number in range(4)]
    first.lose()
    second = resumed(first, session_expiry=60, receive_maximum=2)
    again = second.sent[1:]
    assert [each.payload for each in again] == [b"0", b"1"]
    assert second.deliver(payload=b"new", qos=0) == []
    (third,) = second.hear(Puback(ids[0]))
    assert (third.payload, third.dup) == (b"2", True)
    assert [each.payload for each in second.hear(Puback(ids[3]))] == [b"new"]  # received on the earlier connection
    second.hear(Puback(ids[1]))
    second.hear(Puback(ids[2]))
    assert second.taken == 5
    assert second.state.outgoing.in_flight == ()


def test_a_new_session_sends_nothing_again() -> None:
    first = subscribed(session_expiry=60)
    first.deliver(qos=1)
    first.lose()
    second = first.again()
    second.connect(clean=True)
    assert len(second.sent) == 1


def test_messages_that_waited_are_sent_on_the_next_connection() -> None:
    first = subscribed(session_expiry=60, receive_maximum=1)
    first.deliver(payload=b"1", qos=1)
    first.deliver(payload=b"2", qos=1)
    first.lose()
    second = resumed(first, session_expiry=60)
    assert [(each.payload, each.dup) for each in second.sent[1:]] == [(b"1", True), (b"2", False)]


def test_topic_aliases_of_the_server() -> None:
    rig = subscribed(topic_alias_maximum=2)
    sent = [rig.deliver(topic, qos=0)[0] for topic in ("a", "a", "b", "a", "c", "a", "b")]
    shown = [(each.topic, each.properties.topic_alias) for each in sent]
    assert shown == [("a", 1), ("", 1), ("b", 2), ("", 1), ("c", 2), ("", 1), ("b", 2)]


def test_no_topic_aliases_unless_the_client_allows_them() -> None:
    for version in VERSIONS:
        rig = subscribed(version)
        assert [rig.deliver("a", qos=0)[0].topic for _ in range(2)] == ["a", "a"]


def test_topic_aliases_are_forgotten_with_the_connection() -> None:
    first = subscribed(session_expiry=60, topic_alias_maximum=5)
    first.deliver("a", qos=1)
    first.deliver("a", qos=1)
    first.lose()
    second = resumed(first, session_expiry=60, topic_alias_maximum=5)
    assert [each.topic for each in second.sent[1:]] == ["a", ""]
    third = resumed(second, session_expiry=60)
    assert [each.topic for each in third.sent[1:]] == ["a", "a"]


def test_message_expiry_counts_down() -> None:
    rig = subscribed()
    rig.now = 4 * SECOND_US
    (publish,) = rig.deliver(expires=WALL + 10 * SECOND_US)
    assert publish.properties.message_expiry == 6
    assert rig.deliver(expires=WALL + 4 * SECOND_US) == []
    assert rig.state.outgoing.counts.expired == 1
    rig.hear(Pubrec(publish.packet_id))
    assert rig.taken == 2
    old = subscribed(V3_1_1)
    assert old.deliver(expires=WALL + 10, qos=0)[0].properties == Properties()
    assert old.deliver(expires=WALL, qos=0) == []


def test_a_message_expires_while_it_waits() -> None:
    rig = subscribed(receive_maximum=1)
    rig.deliver(qos=1)
    rig.deliver(payload=b"old", qos=1, expires=WALL + 5 * SECOND_US)
    rig.deliver(payload=b"new", qos=1)
    rig.now = 6 * SECOND_US
    assert [each.payload for each in rig.hear(Puback(1))] == [b"new"]
    assert rig.taken == 2


def test_a_message_that_was_sent_does_not_expire() -> None:
    first = subscribed(session_expiry=60)
    first.deliver(qos=1, expires=WALL + 5 * SECOND_US)
    first.lose()
    first.now = 9 * SECOND_US
    second = resumed(first, session_expiry=60)
    assert second.sent[1].dup


def test_a_message_that_is_too_large_for_the_client_is_dropped() -> None:
    rig = subscribed(maximum_packet_size=100)
    assert len(rig.deliver(payload=b"x" * 60, qos=1)) == 1
    for qos in range(3):
        assert rig.deliver(payload=b"x" * 100, qos=qos) == []
    assert rig.state.outgoing.counts.too_large == 3
    rig.hear(Puback(1))
    assert rig.taken == 4
    assert not rig.is_closed


def test_a_message_is_too_large_for_the_next_connection() -> None:
    first = subscribed(session_expiry=60)
    first.deliver(payload=b"x" * 100, qos=2)
    first.deliver(payload=b"y", qos=2)
    first.lose()
    second = resumed(first, session_expiry=60, maximum_packet_size=50)
    assert [each.payload for each in second.sent[1:]] == [b"y"]
    assert second.taken == 1
    assert len(second.state.outgoing.in_flight) == 1


def test_packets_with_reasons_fit_into_the_maximum_packet_size() -> None:
    rig = Rig()
    rig.connect(maximum_packet_size=25)
    (puback,) = rig.publish("$SYS/x", qos=1, packet_id=1)
    assert puback.reason == Reason.NOT_AUTHORIZED
    assert puback.properties == Properties()


def test_a_packet_that_cannot_be_left_out_and_does_not_fit() -> None:
    rig = Rig()
    rig.ask(maximum_packet_size=10)
    rig.run(rig.machine.opened(None, "c", 0))
    assert rig.sent == []
    assert rig.take_one(CloseConnection).reason == Reason.PACKET_TOO_LARGE
    rig = Rig()
    rig.connect(maximum_packet_size=25)
    rig.hear(Subscribe(1, tuple([FilterRequest(str(number), 0) for number in range(30)])))
    (disconnect,) = rig.confirm()
    assert disconnect.reason == Reason.PACKET_TOO_LARGE
    assert rig.is_closed


def test_an_alias_that_makes_a_packet_too_large_is_left_out() -> None:
    rig = subscribed(maximum_packet_size=30, topic_alias_maximum=5)
    (publish,) = rig.deliver("topic", b"x" * 18, qos=1)
    assert publish.properties.topic_alias is None
    (publish,) = rig.deliver("topic", b"x" * 10, qos=1)
    assert publish.properties.topic_alias == 1
    (publish,) = rig.deliver("topic", b"x" * 18, qos=1)
    assert publish.topic == ""


def test_properties_of_messages_arrive() -> None:
    rig = subscribed()
    rig.publish("t", qos=2, packet_id=1, properties=Properties(
        content_type="text/plain", response_topic="r", correlation_data=b"\0\1", payload_format=1,
        user=(("k", "1"), ("k", "2"), ("", "")),
    ))  # fmt: skip
    attributes = rig.actions.pop().attributes  # type: ignore[union-attr]
    (publish,) = rig.deliver("t", user=attributes)
    assert publish.properties == Properties(
        content_type="text/plain", response_topic="r", correlation_data=b"\0\1", payload_format=1,
        user=(("k", "1"), ("k", "2"), ("", "")),
    )  # fmt: skip
