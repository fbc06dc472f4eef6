"""Order of packets that one client receives, and the contents of acknowledgements, through a real broker."""

import pytest

from resprout.mqtt.packets import (
    NO_PROPERTIES,
    V3_1,
    V3_1_1,
    FilterRequest,
    Packet,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
)
from resprout.mqtt.reasons import Reason
from tests.mqtt.peer import VERSIONS, mqtt_peer
from tests.mqtt.stage import mqtt_broker, mqtt_tree
from tests.net.stage import run


@pytest.mark.parametrize("qos", [0, 1])
def test_a_subscription_behind_a_retained_publication_gets_it_as_retained_message(qos: int) -> None:
    """Both packets may arrive in one read. The message comes once, with RETAIN set, after SUBACK."""

    async def work() -> None:
        async with mqtt_tree() as (first, second):
            for number, broker in enumerate((first, second)):
                async with mqtt_peer(broker.address) as one:
                    topic = f"lamp/{number}"
                    await one.connect(f"one{number}")
                    one.say(
                        Publish(topic, b"on", qos, 7 if qos else 0, True),
                        Subscribe(8, (FilterRequest(topic, 0),)),
                    )
                    await one.hear_a(Suback)
                    message = await one.receive()
                    assert (message.payload, message.retain) == (b"on", True)
                    one.say(Publish(topic, b"live"))
                    assert (await one.receive()).payload == b"live"

    run(work())


def test_a_publication_before_a_subscription_in_one_read_is_not_delivered_to_it() -> None:
    async def work() -> None:
        async with mqtt_broker() as broker, mqtt_peer(broker.address) as one:
            await one.connect("one")
            one.say(Publish("t", b"before"), Subscribe(1, (FilterRequest("t", 0),)))
            assert isinstance(await one.hear(), Suback)
            one.say(Publish("t", b"after"))
            packet = await one.hear()
            assert isinstance(packet, Publish)
            assert packet.payload == b"after"

    run(work())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_gets_the_acknowledgement_before_its_own_publication(version: int) -> None:
    async def work() -> None:
        async with mqtt_broker() as broker, mqtt_peer(broker.address, version) as one:
            await one.connect("one")
            await one.subscribe("t")
            one.say(Publish("t", b"1", 1, 5))
            assert [type(await one.hear()) for _ in range(2)] == [Puback, Publish]
            one.say(Publish("t", b"2", 2, 6))
            assert [type(await one.hear()) for _ in range(2)] == [Pubrec, Publish]
            one.say(Pubrel(6))
            assert isinstance(await one.hear(), Pubcomp)

    run(work())


def test_puback_of_mqtt_5_says_that_no_subscription_matches() -> None:
    async def work() -> None:
        async with (
            mqtt_tree() as (first, second),
            mqtt_peer(first.address) as one,
            mqtt_peer(second.address) as other,
        ):
            await one.connect("one")
            await other.connect("other")
            assert await one.publish("t", b"x", 1) == Reason.NO_MATCHING_SUBSCRIBERS
            assert await one.publish("t", b"x", 2) == Reason.SUCCESS
            await other.subscribe("t")
            assert await one.publish("t", b"x", 1) == Reason.SUCCESS
            assert await one.publish("$SYS/t", b"x", 1) == Reason.NOT_AUTHORIZED

    run(work())


@pytest.mark.parametrize("expiry", [0, 60])
@pytest.mark.parametrize("count", [1, 2])
def test_packets_that_are_sent_without_waiting_count_in_their_order(expiry: int, count: int) -> None:
    """A publication after SUBSCRIBE is delivered to it, one after UNSUBSCRIBE is not."""

    async def work() -> None:
        async with mqtt_tree(count) as brokers, mqtt_peer(brokers[-1].address) as one:
            values = Properties(session_expiry=expiry) if expiry else NO_PROPERTIES
            await one.connect("one", properties=values)
            one.say(
                Publish("t", b"1", 1, 1),
                Subscribe(2, (FilterRequest("t", 1),)),
                Publish("t", b"2", 1, 3),
                Publish("t", b"3", 2, 4),
                Unsubscribe(5, ("t",)),
                Publish("t", b"4", 1, 6),
                Subscribe(7, (FilterRequest("t", 1), FilterRequest("+", 0))),
                Publish("t", b"5", 0),
                Subscribe(8, (FilterRequest("$share/g/u", 1),)),
                Publish("u", b"6", 1, 9),
                Unsubscribe(10, ("$share/g/u", "+")),
                Publish("u", b"7", 1, 11),
                Subscribe(12, (FilterRequest("v", 1),)),
                Publish("v", b"8", 1, 13),
            )
            heard: list[Packet] = []
            payloads: list[bytes] = []
            acks: list[Suback | Unsuback] = []
            while len(acks) < 6 or b"8" not in payloads:
                heard.append(await one.hear())
                payloads = [packet.payload for packet in heard if isinstance(packet, Publish)]
                acks = [packet for packet in heard if isinstance(packet, Suback | Unsuback)]
            assert [packet.packet_id for packet in acks] == [2, 5, 7, 8, 10, 12]
            assert all(reason < 0x80 for packet in acks for reason in packet.reasons)
            assert [packet.packet_id for packet in heard if isinstance(packet, Puback)] == [1, 3, 6, 9, 11, 13]
            assert set(payloads) <= {b"2", b"3", b"5", b"6", b"8"}, "1 is earlier, 4 and 7 are behind UNSUBSCRIBE"
            one.say(Subscribe(20, (FilterRequest("w", 1),)), Publish("w", b"9", 1, 21))
            assert (await one.hear_a(Publish, lambda message: message.topic == "w")).payload == b"9"

    run(work())


def test_puback_counts_a_subscription_of_the_client_that_is_on_its_way() -> None:
    async def work() -> None:
        async with mqtt_broker() as broker, mqtt_peer(broker.address) as one:
            await one.connect("one")
            one.say(Subscribe(1, (FilterRequest("a/+", 1),)), Publish("a/b", b"x", 1, 2))
            assert (await one.hear_a(Puback)).reason == Reason.SUCCESS
            assert (await one.receive()).payload == b"x"

    run(work())


def test_no_local_subscriptions_get_the_retained_messages_of_others() -> None:
    async def work() -> None:
        async with mqtt_tree() as (first, second), mqtt_peer(first.address) as one, mqtt_peer(second.address) as other:
            await one.connect("one")
            await other.connect("other")
            await one.publish("a/1", b"own", 1, retain=True)
            await other.publish("a/2", b"other", 1, retain=True)
            await one.publish("a/3", b"own", 1, retain=True)
            await one.subscribe("a/+", no_local=True)
            assert (await one.receive()).payload == b"other"
            await other.subscribe("a/+", no_local=True)
            assert {(await other.receive()).topic for _ in range(2)} == {"a/1", "a/3"}
            await other.publish("a/4", b"live")
            assert (await one.receive()).payload == b"live"

    run(work())


def test_response_information() -> None:
    """Each client gets a response topic that is a valid topic, whatever its client identifier is."""

    async def work() -> None:
        async with (
            mqtt_broker(settings={"response_topics": "replies"}) as broker,
            mqtt_peer(broker.address) as one,
            mqtt_peer(broker.address) as other,
            mqtt_peer(broker.address) as third,
        ):
            wanted = Properties(request_response_information=1)
            assert (await one.connect("one", properties=wanted)).properties.response_information == "replies/one"
            topic = (await other.connect("a/#", properties=wanted)).properties.response_information
            assert topic
            assert topic.startswith("replies/mqtt.")
            assert (await third.connect("third")).properties.response_information is None
            assert (await third.subscribe(topic)).reasons == (2,)
            await other.publish(topic, b"answer")
            assert (await third.receive()).payload == b"answer"

    run(work())


@pytest.mark.parametrize("version", [V3_1, V3_1_1])
def test_connack_of_mqtt_3_1_does_not_say_that_a_session_is_present(version: int) -> None:
    async def work() -> None:
        async with mqtt_broker() as broker:
            for present in (False, version == V3_1_1):
                async with mqtt_peer(broker.address, version) as one:
                    assert (await one.connect("one", clean_start=False)).session_present is present
                    one.leave()

    run(work())


INVALID_CONNECTS = [
    ("version 7", "10 0d 0004 4d515454 07 02 003c 0001 63", "20 03 00 84 00"),
    ("the reserved flag", "10 0e 0004 4d515454 05 03 003c 00 0001 63", "20 03 00 81 00"),
    ("a will with QoS 3", "10 15 0004 4d515454 05 1e 003c 00 0001 63 00 0001 77 0001 78", "20 03 00 81 00"),
    ("a property twice", "10 14 0004 4d515454 05 02 003c 06 210001 210001 0001 63", "20 03 00 82 00"),
    ("data without a method", "10 12 0004 4d515454 05 02 003c 04 160001 00 0001 63", "20 03 00 82 00"),
    ("bytes behind the end", "10 0f 0004 4d515454 05 02 003c 00 0001 63 00", "20 03 00 81 00"),
    (
        "a wildcard in the topic of the will",
        "10 15 0004 4d515454 05 06 003c 00 0001 63 00 0001 23 0001 78",
        "20 03 00 90 00",
    ),
    ("a will that is not UTF-8", "10 17 0004 4d515454 05 06 003c 00 0001 63 02 0101 0001 77 0001 ff", "20 03 00 99 00"),
    ("a method", "10 12 0004 4d515454 05 02 003c 04 150001 6d 0001 63", "20 03 00 8c 00"),
    ("another protocol", "10 0d 0004 4d515458 04 02 003c 0001 63", "20 02 00 01"),
    ("version 3 of MQTT", "10 0d 0004 4d515454 03 02 003c 0001 63", "20 02 00 01"),
    ("no client identifier in 3.1.1", "10 0c 0004 4d515454 04 00 003c 0000", "20 02 00 02"),
    ("the reserved flag in 3.1.1", "10 0d 0004 4d515454 04 03 003c 0001 63", ""),
    ("a password without a user name in 3.1.1", "10 10 0004 4d515454 04 42 003c 0001 63 0001 78", ""),
    ("a packet before CONNECT", "c0 00", ""),
]


def test_refusals_of_connect_byte_by_byte() -> None:
    """Each CONNACK has the format of the version that the client asked for."""

    async def work() -> None:
        async with mqtt_broker() as broker:
            for name, sent, expected in INVALID_CONNECTS:
                async with mqtt_peer(broker.address) as one:
                    one.writer.write(bytes.fromhex(sent))
                    heard = await one.reader.read()
                assert _without_reason_string(heard) == bytes.fromhex(expected), name

    run(work())


def _without_reason_string(connack: bytes) -> bytes:
    """Return a CONNACK of MQTT 5 without its properties, whose length must be right."""
    if len(connack) < 5:
        return connack
    assert connack[1] == len(connack) - 2
    assert connack[4] == len(connack) - 5
    return b"\x20\x03" + connack[2:4] + b"\0"
