"""Encoding and decoding: round trips with any fragmentation, and examples with exact bytes."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core.errors import UsageError
from resprout.mqtt import packets
from resprout.mqtt.decoder import PacketDecoder
from resprout.mqtt.encoder import encode
from resprout.mqtt.packets import V3_1, V3_1_1, V5, Properties
from resprout.mqtt.reasons import MqttError
from tests.mqtt.examples import VERSIONS, any_packet, connects


@settings(deadline=None)
@given(st.data())
def test_packets_come_back_however_they_are_cut(drawn: st.DataObject) -> None:
    version = drawn.draw(st.sampled_from(VERSIONS))
    sent = drawn.draw(st.lists(any_packet(version), min_size=1, max_size=6))
    data = b"".join([encode(packet, version) for packet in sent])
    cuts = sorted(drawn.draw(st.lists(st.integers(0, len(data)), max_size=8)))
    decoder = PacketDecoder(version=version)
    heard: list[Any] = []
    for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        heard += decoder.feed(data[begin:end])
    assert heard == sent
    assert decoder.held_bytes == 0


@settings(deadline=None)
@given(st.data())
def test_a_server_learns_the_version_from_connect(drawn: st.DataObject) -> None:
    version = drawn.draw(st.sampled_from(VERSIONS))
    connect = drawn.draw(connects(version))
    publish = packets.Publish("a/b", b"x", 1, 7)
    decoder = PacketDecoder()
    heard = decoder.feed(encode(connect, version) + encode(publish, version))
    assert heard == [connect, publish]
    assert decoder.version == version


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 300_000])
def test_sizes_around_the_steps_of_the_remaining_length(size: int) -> None:
    publish = packets.Publish("t", b"p" * size, 1, 9)
    for version in VERSIONS:
        assert PacketDecoder(version=version).feed(encode(publish, version)) == [publish]


def test_one_byte_at_a_time() -> None:
    sent: list[Any] = [packets.Publish("a", b"x" * 200, 2, 1), packets.Puback(3), packets.Pingreq()]
    decoder = PacketDecoder(version=V5)
    heard: list[Any] = []
    for byte in b"".join([encode(packet, V5) for packet in sent]):
        heard += decoder.feed(bytes((byte,)))
    assert heard == sent


GOLDEN: list[tuple[int, Any, str]] = [
    (V3_1, packets.Connect("c", V3_1, True, 10), "10 0f 0006 4d5149736470 03 02 000a 0001 63"),
    (V3_1_1, packets.Connect("c", V3_1_1, False, 60), "10 0d 0004 4d515454 04 00 003c 0001 63"),
    (
        V3_1_1,
        packets.Connect("c", V3_1_1, True, 60, packets.Will("w", b"gone", 1, True), "u", b"p"),
        "10 1c 0004 4d515454 04 ee 003c 0001 63 0001 77 0004 676f6e65 0001 75 0001 70",
    ),
    (
        V5,
        packets.Connect("c", V5, True, 0, properties=Properties(session_expiry=10, receive_maximum=5)),
        "10 16 0004 4d515454 05 02 0000 08 11 0000000a 21 0005 0001 63",
    ),
    (V3_1_1, packets.Connack(True, 0), "20 02 01 00"),
    (V5, packets.Connack(False, 0x87), "20 03 00 87 00"),
    (V3_1_1, packets.Publish("a/b", b"hi"), "30 07 0003 612f62 6869"),
    (V3_1_1, packets.Publish("a/b", b"hi", 1, 10, True, True), "3b 09 0003 612f62 000a 6869"),
    (V5, packets.Publish("a/b", b"hi", 2, 10), "34 0a 0003 612f62 000a 00 6869"),
    (
        V5,
        packets.Publish("", b"", 0, properties=Properties(topic_alias=3, user=(("k", "v"),))),
        "30 0d 0000 0a 23 0003 26 0001 6b 0001 76",
    ),
    (V5, packets.Puback(1), "40 02 0001"),
    (V5, packets.Puback(1, 0x10), "40 03 0001 10"),
    (V5, packets.Pubrec(1, 0x87, Properties(reason_string="no")), "50 09 0001 87 05 1f 0002 6e6f"),
    (V3_1_1, packets.Pubrel(258), "62 02 0102"),
    (V5, packets.Pubcomp(258, 0x92), "70 03 0102 92"),
    (V3_1_1, packets.Subscribe(1, (packets.FilterRequest("a/#", 1),)), "82 08 0001 0003 612f23 01"),
    (
        V5,
        packets.Subscribe(
            1, (packets.FilterRequest("a", 2, True, True, 2),), Properties(subscription_identifiers=(200,))
        ),
        "82 0a 0001 03 0b c801 0001 61 2e",
    ),
    (V3_1_1, packets.Suback(1, (0, 1, 2, 0x80)), "90 06 0001 00 01 02 80"),
    (V5, packets.Suback(1, (0, 0x8F)), "90 05 0001 00 00 8f"),
    (V3_1_1, packets.Unsubscribe(1, ("a",)), "a2 05 0001 0001 61"),
    (V5, packets.Unsubscribe(1, ("a",)), "a2 06 0001 00 0001 61"),
    (V3_1_1, packets.Unsuback(1), "b0 02 0001"),
    (V5, packets.Unsuback(1, (0x11,)), "b0 04 0001 00 11"),
    (V5, packets.Pingreq(), "c0 00"),
    (V5, packets.Pingresp(), "d0 00"),
    (V3_1_1, packets.Disconnect(), "e0 00"),
    (V5, packets.Disconnect(), "e0 00"),
    (V5, packets.Disconnect(0x8E), "e0 01 8e"),
    (V5, packets.Disconnect(0, Properties(session_expiry=0)), "e0 07 00 05 11 00000000"),
    (V5, packets.Auth(0x18, Properties(authentication_method="S")), "f0 06 18 04 15 0001 53"),
]


@pytest.mark.parametrize(("version", "packet", "golden"), GOLDEN)
def test_golden_bytes(version: int, packet: Any, golden: str) -> None:
    data = bytes.fromhex(golden)
    assert encode(packet, version) == data
    assert PacketDecoder(version=version).feed(data) == [packet]


def test_longer_forms_that_the_standard_allows() -> None:
    """A success reason code may be present, and MQTT 3 does not require the shortest remaining length."""
    assert PacketDecoder(version=V5).feed(bytes.fromhex("40 03 0001 00")) == [packets.Puback(1)]
    assert PacketDecoder(version=V5).feed(bytes.fromhex("40 04 0001 00 00")) == [packets.Puback(1)]
    assert PacketDecoder(version=V5).feed(bytes.fromhex("e0 02 00 00")) == [packets.Disconnect()]
    assert PacketDecoder(version=V3_1_1).feed(bytes.fromhex("40 8200 0001")) == [packets.Puback(1)]
    again = bytes.fromhex("8a 06 0001 0001 61 01")  # MQTT 3.1 retransmits SUBSCRIBE with DUP
    assert PacketDecoder(version=V3_1).feed(again) == [packets.Subscribe(1, (packets.FilterRequest("a", 1),))]


def test_the_byte_order_mark_is_kept() -> None:
    publish = packets.Publish("\ufeffa", b"")
    assert PacketDecoder(version=V5).feed(encode(publish, V5)) == [publish]


def test_a_field_that_is_too_long_to_write() -> None:
    for packet in (packets.Publish("a" * 65_536, b""), packets.Connect("c", password=b"p" * 65_536)):
        with pytest.raises(UsageError):
            encode(packet, V5)


def test_packets_before_an_error_are_not_lost() -> None:
    decoder = PacketDecoder(version=V5)
    heard = decoder.feed(encode(packets.Puback(3), V5) + b"\x00\x00" + encode(packets.Puback(4), V5))
    assert heard[0] == packets.Puback(3)
    assert isinstance(heard[1], MqttError)
    assert len(heard) == 2
    assert decoder.feed(encode(packets.Puback(5), V5)) == []
