"""Publications from the client: acknowledgements, QoS 2, topic aliases, receive maximum, refusals."""

import pytest

from resprout.mqtt.actions import CloseConnection, PublishMessage
from resprout.mqtt.limits import ServerLimits
from resprout.mqtt.packets import V3_1, V3_1_1, V5, Properties, Puback, Pubcomp, Pubrec, Pubrel
from resprout.mqtt.reasons import Reason
from tests.mqtt.examples import VERSIONS
from tests.mqtt.rig import DEFAULT, WALL, Rig


def connected(version: int = V5, limits: ServerLimits = DEFAULT) -> Rig:
    rig = Rig(version, limits)
    rig.connect()
    return rig


def ended_with(rig: Rig) -> int:
    return rig.take_one(CloseConnection).reason


@pytest.mark.parametrize("version", VERSIONS)
def test_qos_0_is_published_without_an_answer(version: int) -> None:
    rig = connected(version)
    assert rig.publish("a/b", b"hi") == []
    publication = rig.take_one(PublishMessage)
    assert (publication.topic, publication.payload, publication.waits) == ("a/b", b"hi", False)
    assert publication.attributes == {"mqtt.qos": 0}


@pytest.mark.parametrize("version", VERSIONS)
def test_qos_1_is_acknowledged_when_it_is_safe(version: int) -> None:
    rig = connected(version)
    assert rig.publish("a", qos=1, packet_id=7) == []
    assert rig.safe(rig.take_one(PublishMessage)) == [Puback(7)]


@pytest.mark.parametrize("version", VERSIONS)
def test_qos_2_is_published_once(version: int) -> None:
    rig = connected(version)
    assert rig.publish("a", qos=2, packet_id=7) == []
    publication = rig.take_one(PublishMessage)
    assert publication.waits
    assert rig.publish("a", qos=2, packet_id=7, dup=True) == []
    assert rig.safe(publication) == [Pubrec(7)]
    assert rig.publish("a", qos=2, packet_id=7, dup=True) == [Pubrec(7)]
    assert not rig.take(PublishMessage)
    assert rig.hear(Pubrel(7)) == [Pubcomp(7)]
    assert rig.publish("a", qos=2, packet_id=7) == []
    rig.take_one(PublishMessage)


def test_pubrel_of_an_unknown_identifier() -> None:
    assert connected(V5).hear(Pubrel(9)) == [Pubcomp(9, Reason.PACKET_IDENTIFIER_NOT_FOUND)]
    assert connected(V3_1_1).hear(Pubrel(9)) == [Pubcomp(9)]


def test_pubrel_before_pubrec() -> None:
    """A client may send PUBREL without waiting for PUBREC. PUBCOMP follows PUBREC."""
    rig = connected()
    rig.publish("a", qos=2, packet_id=7)
    rig.publish("a", qos=2, packet_id=8)
    assert rig.hear(Pubrel(8)) == []
    first, second = rig.take(PublishMessage)
    assert rig.safe(second) == []
    assert rig.hear(Pubrel(7)) == []
    assert rig.safe(first) == [Pubrec(7), Pubcomp(7), Pubrec(8), Pubcomp(8)]
    assert rig.hear(Pubrel(8)) == [Pubcomp(8, Reason.PACKET_IDENTIFIER_NOT_FOUND)]
    rig.publish("a", qos=2, packet_id=9)
    rig.hear(Pubrel(9))
    third = rig.take_one(PublishMessage)
    rig.lose()
    again = rig.again()
    again.connect(state=rig.state, clean=False)
    assert again.publish("a", qos=2, packet_id=9, dup=True) == []
    assert again.safe(third) == [Pubrec(9)]


def test_a_packet_identifier_that_is_used_for_another_qos() -> None:
    rig = connected()
    rig.publish("a", b"2", qos=2, packet_id=7)
    second = rig.take_one(PublishMessage)
    (puback,) = rig.publish("a", qos=1, packet_id=7)
    assert (type(puback), puback.reason) == (Puback, Reason.PACKET_IDENTIFIER_IN_USE)
    rig.safe(second)
    (puback,) = rig.publish("a", qos=1, packet_id=7)
    assert puback.reason == Reason.PACKET_IDENTIFIER_IN_USE, "PUBREL has not come"
    assert rig.hear(Pubrel(7)) == [Pubcomp(7)]
    assert rig.publish("a", b"1", qos=1, packet_id=7) == []
    (pubrec,) = rig.publish("a", qos=2, packet_id=7)
    assert (type(pubrec), pubrec.reason) == (Pubrec, Reason.PACKET_IDENTIFIER_IN_USE)
    first = rig.take_one(PublishMessage)
    assert first.payload == b"1"
    assert rig.safe(first) == [Puback(7)]
    assert rig.publish("a", b"3", qos=2, packet_id=7) == []
    assert rig.safe(rig.take_one(PublishMessage)) == [Pubrec(7)]
    old = connected(V3_1_1)
    old.publish("a", qos=2, packet_id=7)
    old.publish("a", qos=1, packet_id=7)
    assert len(old.take(PublishMessage)) == 2, "MQTT 3 has no reason code for it"


def test_a_lost_client_may_use_the_identifiers_of_its_earlier_connection() -> None:
    first = Rig()
    first.connect(session_expiry=60)
    first.publish("a", qos=2, packet_id=7)
    first.lose()
    second = first.again()
    second.connect(clean=False, session_expiry=60, state=first.state)
    assert second.publish("a", qos=1, packet_id=7) == []
    second.take_one(PublishMessage)


def test_acknowledgements_keep_the_order_of_publications() -> None:
    rig = connected()
    for packet_id, qos in ((1, 1), (2, 2), (3, 1), (4, 2), (5, 1)):
        rig.publish("a", qos=qos, packet_id=packet_id)
    first, second, third, fourth, fifth = rig.take(PublishMessage)
    assert rig.safe(fifth) == []
    assert rig.safe(fourth) == []
    assert rig.safe(second) == [Pubrec(2), Pubrec(4)]
    assert rig.safe(first) == [Puback(1)]
    assert rig.safe(third) == [Puback(3), Puback(5)]


def test_a_client_that_comes_back_publishes_nothing_twice_with_qos_2() -> None:
    first = Rig()
    first.connect(session_expiry=60)
    first.publish("a", b"1", 2, 1)
    first.publish("a", b"2", 2, 2)
    one, two = first.take(PublishMessage)
    first.safe(one)
    first.lose()
    second = first.again()
    second.connect(clean=False, session_expiry=60, state=first.state)
    assert second.publish("a", b"1", 2, 1, dup=True) == [Pubrec(1)]
    assert second.publish("a", b"2", 2, 2, dup=True) == [], "it is not safe yet"
    assert not second.take(PublishMessage)
    assert second.safe(two) == [Pubrec(2)]
    assert second.hear(Pubrel(1)) == [Pubcomp(1)]
    assert second.hear(Pubrel(2)) == [Pubcomp(2)]


def test_a_publication_becomes_safe_while_the_client_is_away() -> None:
    first = Rig()
    first.connect(session_expiry=60)
    first.publish("a", b"1", 2, 1)
    first.publish("a", b"2", 1, 2)
    first.lose()
    for publication in first.take(PublishMessage):
        assert first.safe(publication) == []
    second = first.again()
    second.connect(clean=False, session_expiry=60, state=first.state)
    assert second.publish("a", b"1", 2, 1, dup=True) == [Pubrec(1)]
    assert not second.take(PublishMessage)
    second.publish("a", b"2", 1, 2, dup=True)
    assert second.take_one(PublishMessage).payload == b"2", "QoS 1 is published again"


def test_a_late_answer_is_not_sent_to_the_next_connection() -> None:
    """The client has not retransmitted the publication and may reuse the packet identifier."""
    first = Rig()
    first.connect(session_expiry=60)
    first.publish("a", b"1", 1, 1)
    publication = first.take_one(PublishMessage)
    first.lose()
    second = first.again()
    second.connect(clean=False, session_expiry=60, state=first.state)
    assert second.safe(publication) == []


@pytest.mark.parametrize("qos", [1, 2])
def test_the_tree_refuses_a_publication(qos: int) -> None:
    rig = connected(V5)
    rig.publish("a", qos=qos, packet_id=3)
    token = rig.take_one(PublishMessage).token
    (ack,) = rig.run(rig.machine.publish_refused(token, Reason.NOT_AUTHORIZED, "no right", rig.now))
    assert (ack.packet_id, ack.reason, ack.properties.reason_string) == (3, Reason.NOT_AUTHORIZED, "no right")
    rig.publish("a", qos=qos, packet_id=3)
    assert rig.take(PublishMessage), "the packet identifier is free again"


def test_a_reason_that_an_acknowledgement_cannot_name() -> None:
    rig = connected(V5)
    rig.publish("a", qos=1, packet_id=3)
    token = rig.take_one(PublishMessage).token
    (ack,) = rig.run(rig.machine.publish_refused(token, Reason.SERVER_BUSY, "", rig.now))
    assert ack.reason == Reason.UNSPECIFIED_ERROR


def test_mqtt_3_cannot_say_that_a_publication_is_refused() -> None:
    rig = connected(V3_1_1)
    rig.publish("a", qos=1, packet_id=3)
    token = rig.take_one(PublishMessage).token
    assert rig.run(rig.machine.publish_refused(token, Reason.NOT_AUTHORIZED, "no right", rig.now)) == []
    assert ended_with(rig) == Reason.NOT_AUTHORIZED


def test_qos_0_without_a_right_ends_the_connection() -> None:
    rig = connected(V5)
    rig.publish("a")
    assert rig.run(rig.machine.publish_refused(0, Reason.QUOTA_EXCEEDED, "", rig.now)) == []
    assert not rig.is_closed
    (disconnect,) = rig.run(rig.machine.publish_refused(0, Reason.NOT_AUTHORIZED, "", rig.now))
    assert disconnect.reason == Reason.NOT_AUTHORIZED
    assert rig.is_closed


TOPICS = [
    ("$SYS/broker", Reason.NOT_AUTHORIZED),
    ("$share/g/t", Reason.NOT_AUTHORIZED),
    ("$mqtt/x", Reason.NOT_AUTHORIZED),
    ("$mqtt", Reason.NOT_AUTHORIZED),
    ("x" * 513, Reason.TOPIC_NAME_INVALID),
    ("/" * 32, Reason.TOPIC_NAME_INVALID),
]


@pytest.mark.parametrize(("topic", "reason"), TOPICS)
def test_topics_to_which_no_client_may_publish(topic: str, reason: Reason) -> None:
    rig = connected(V5)
    (puback,) = rig.publish(topic, qos=1, packet_id=1)
    assert puback.reason == reason
    (pubrec,) = rig.publish(topic, qos=2, packet_id=1)
    assert pubrec.reason == reason
    (disconnect,) = rig.publish(topic)
    assert disconnect.reason == reason
    assert not rig.take(PublishMessage)
    rig = connected(V3_1_1)
    assert rig.publish(topic, qos=1, packet_id=1) == []
    assert ended_with(rig) == reason


def test_other_topics_that_begin_with_a_dollar_are_ordinary() -> None:
    rig = connected()
    rig.publish("$TopicA/B")
    assert rig.take_one(PublishMessage).topic == "$TopicA/B"


def test_payload_format_is_checked() -> None:
    rig = connected()
    text = Properties(payload_format=1)
    rig.publish("t", b"fine", properties=text)
    assert rig.take_one(PublishMessage).attributes["mqtt.payload_format"] == 1
    (puback,) = rig.publish("t", b"\xff", 1, 1, properties=text)
    assert puback.reason == Reason.PAYLOAD_FORMAT_INVALID
    rig.publish("t", b"\xff", properties=text)
    assert ended_with(rig) == Reason.PAYLOAD_FORMAT_INVALID


def test_payloads_and_properties_are_bounded() -> None:
    rig = connected()
    (puback,) = rig.publish("t", b"x" * ((1 << 20) + 1), 1, 1)
    assert puback.reason == Reason.QUOTA_EXCEEDED
    many = Properties(user=tuple([(str(number), "x" * 64) for number in range(1_000)]))
    (puback,) = rig.publish("t", b"x", 1, 1, properties=many)
    assert puback.reason == Reason.QUOTA_EXCEEDED
    assert not rig.take(PublishMessage)


def test_what_the_server_does_not_offer_is_refused() -> None:
    rig = connected(limits=ServerLimits(retain_available=False))
    rig.publish("t", retain=True)
    assert ended_with(rig) == Reason.RETAIN_NOT_SUPPORTED
    rig = connected(limits=ServerLimits(maximum_qos=1))
    rig.publish("t", qos=2, packet_id=1)
    assert ended_with(rig) == Reason.QOS_NOT_SUPPORTED


def test_a_client_sends_no_subscription_identifier() -> None:
    rig = connected()
    rig.publish("t", properties=Properties(subscription_identifiers=(1,)))
    assert ended_with(rig) == Reason.PROTOCOL_ERROR


def test_topic_aliases() -> None:
    rig = connected(limits=ServerLimits(topic_alias_max=2))
    rig.publish("a", properties=Properties(topic_alias=1))
    rig.publish("b", properties=Properties(topic_alias=2))
    rig.publish("", properties=Properties(topic_alias=1))
    rig.publish("c", properties=Properties(topic_alias=1))
    rig.publish("", properties=Properties(topic_alias=1))
    rig.publish("", properties=Properties(topic_alias=2))
    assert [each.topic for each in rig.take(PublishMessage)] == ["a", "b", "a", "c", "c", "b"]
    rig.publish("", properties=Properties(topic_alias=3))
    assert ended_with(rig) == Reason.TOPIC_ALIAS_INVALID


def test_a_topic_alias_that_is_not_defined_or_not_allowed() -> None:
    rig = connected()
    rig.publish("", properties=Properties(topic_alias=1))
    assert ended_with(rig) == Reason.PROTOCOL_ERROR
    rig = connected(limits=ServerLimits(topic_alias_max=0))
    rig.publish("a", properties=Properties(topic_alias=1))
    assert ended_with(rig) == Reason.TOPIC_ALIAS_INVALID


def test_topic_aliases_end_with_the_connection() -> None:
    first = Rig()
    first.connect(session_expiry=60)
    first.publish("a", properties=Properties(topic_alias=1))
    first.lose()
    second = first.again()
    second.connect(clean=False, session_expiry=60, state=first.state)
    second.publish("", properties=Properties(topic_alias=1))
    assert ended_with(second) == Reason.PROTOCOL_ERROR


def test_more_than_the_receive_maximum_ends_the_connection() -> None:
    rig = connected(limits=ServerLimits(receive_maximum=2))
    rig.publish("t", qos=1, packet_id=1)
    rig.publish("t", qos=2, packet_id=2)
    one, two = rig.take(PublishMessage)
    rig.safe(one)
    rig.publish("t", qos=1, packet_id=3)
    rig.safe(two)
    assert not rig.is_closed
    (disconnect,) = rig.publish("t", qos=1, packet_id=4)
    assert disconnect.reason == Reason.RECEIVE_MAXIMUM_EXCEEDED, "PUBREL has not come, so the second one still counts"


def test_receive_maximum_counts_qos_2_until_pubcomp() -> None:
    rig = connected(limits=ServerLimits(receive_maximum=1))
    for packet_id in range(1, 10):
        rig.publish("t", qos=2, packet_id=packet_id)
        rig.safe(rig.take_one(PublishMessage))
        rig.publish("t", qos=2, packet_id=packet_id, dup=True)
        rig.hear(Pubrel(packet_id))
    for packet_id in range(1, 10):
        rig.publish("$SYS", qos=2, packet_id=packet_id)  # the refusal completes the QoS 2 handshake
    rig.publish("t")
    assert not rig.is_closed


def test_mqtt_3_has_no_receive_maximum() -> None:
    rig = connected(V3_1, ServerLimits(receive_maximum=1))
    for packet_id in range(1, 50):
        rig.publish("t", qos=1, packet_id=packet_id)
    assert len(rig.take(PublishMessage)) == 49


def test_properties_become_attributes() -> None:
    rig = connected()
    rig.now = 5
    values = Properties(
        message_expiry=60, content_type="text/plain", response_topic="r", correlation_data=b"\0\1",
        user=(("k", "v"), ("resprout-guarantee", "total")),
    )  # fmt: skip
    rig.publish("t", qos=2, packet_id=1, retain=True, properties=values)
    publication = rig.take_one(PublishMessage)
    assert publication.guarantee == "total"
    assert publication.attributes == {
        "mqtt.retain": True, "mqtt.expires": WALL + 5 + 60_000_000, "mqtt.content_type": "text/plain",
        "mqtt.response_topic": "r", "mqtt.correlation_data": "AAE=", "k": "v", "resprout-guarantee": "total",
    }  # fmt: skip


def test_publications_without_pubrel_are_bounded_in_mqtt_3() -> None:
    rig = connected(V3_1_1, ServerLimits(unreleased_max=3))
    for packet_id in (1, 2, 3):
        rig.publish("t", qos=2, packet_id=packet_id)
        rig.safe(rig.take_one(PublishMessage))
    assert rig.hear(Pubrel(2)) == [Pubcomp(2)]
    rig.publish("t", qos=2, packet_id=4)
    rig.publish("t", qos=2, packet_id=4, dup=True)
    assert not rig.is_closed, "a repeat takes no more room"
    rig.publish("t", qos=2, packet_id=5)
    assert ended_with(rig) == Reason.RECEIVE_MAXIMUM_EXCEEDED
