"""Malformed packets and protocol errors, each with the reason code that the decoder returns."""

import pytest

from resprout.mqtt.decoder import CONNECT_BYTES_MAX, PacketDecoder
from resprout.mqtt.fields import varint
from resprout.mqtt.packets import V3_1, V3_1_1, V5
from resprout.mqtt.reasons import MqttError, Reason

M, P = Reason.MALFORMED_PACKET, Reason.PROTOCOL_ERROR
ALIAS, NAME, LARGE = Reason.TOPIC_ALIAS_INVALID, Reason.TOPIC_NAME_INVALID, Reason.PACKET_TOO_LARGE
VERSION, QUOTA = Reason.UNSUPPORTED_PROTOCOL_VERSION, Reason.QUOTA_EXCEEDED


def error_of(data: bytes, version: int) -> MqttError:
    heard = PacketDecoder(version=version).feed(data)
    assert len(heard) == 1
    assert isinstance(heard[0], MqttError), heard
    return heard[0]


BAD: list[tuple[str, int, str, Reason]] = [
    ("type 0", V5, "00 00", M),
    ("type 15 in MQTT 3", V3_1_1, "f0 00", M),
    ("remaining length of five bytes", V5, "30 80808080 01", M),
    ("remaining length that is too long for its value", V5, "30 8000", M),
    ("flags of PUBACK", V5, "41 02 0001", M),
    ("flags of PUBREL", V5, "60 02 0001", M),
    ("flags of SUBSCRIBE", V3_1_1, "80 06 0001 0001 61 01", M),
    ("flags of PINGREQ", V3_1_1, "c1 00", M),
    ("DUP of SUBSCRIBE in 3.1.1", V3_1_1, "8a 06 0001 0001 61 01", M),
    ("PINGREQ with a body", V5, "c0 01 00", M),
    ("DISCONNECT with a body in MQTT 3", V3_1_1, "e0 01 00", M),
    ("PUBACK of one byte", V5, "40 01 00", M),
    ("PUBACK without a packet identifier", V5, "40 00", M),
    ("PUBACK with more than properties", V5, "40 05 0001 00 00 00", M),
    ("PUBACK in MQTT 3 with a reason", V3_1_1, "40 03 0001 00", M),
    ("PUBACK with packet identifier 0", V5, "40 02 0000", P),
    ("PUBACK with a reason code of another packet", V5, "40 03 0001 92", P),
    ("PUBREL with a reason code of another packet", V5, "62 03 0001 87", P),
    ("DISCONNECT with an unknown reason code", V5, "e0 01 05", P),
    ("QoS 3", V5, "36 07 0001 61 0001 00 78", M),
    ("DUP with QoS 0", V5, "38 04 0001 61 00", M),
    ("PUBLISH with packet identifier 0", V5, "32 06 0001 61 0000 00", P),
    ("PUBLISH without its packet identifier", V5, "32 03 0001 61", M),
    ("PUBLISH without properties", V5, "30 03 0001 61", M),
    ("a topic name beyond its packet", V5, "30 03 0005 61", M),
    ("a topic name without a length", V5, "30 01 00", M),
    ("a topic name with #", V5, "30 04 0001 23 00", NAME),
    ("a topic name with +", V3_1_1, "30 05 0003 612f2b", NAME),
    ("a topic name with a null character", V3_1_1, "30 04 0002 6100", M),
    ("a topic name with half of a surrogate pair", V3_1_1, "30 05 0003 eda080", M),
    ("a topic name in an overlong form", V3_1_1, "30 04 0002 c081", M),
    ("no topic name in MQTT 3", V3_1_1, "30 02 0000", M),
    ("no topic name and no alias", V5, "30 03 0000 00", P),
    ("topic alias 0", V5, "30 07 0001 61 03 23 0000", ALIAS),
    ("topic alias twice", V5, "30 0a 0001 61 06 23 0001 23 0001", P),
    ("payload format 2", V5, "30 06 0001 61 02 01 02", P),
    ("a property of another packet", V5, "30 09 0001 61 05 11 00000001", M),
    ("an unknown property", V5, "30 05 0001 61 01 7f", M),
    ("a property that is cut", V5, "30 06 0001 61 02 23 00", M),
    ("properties beyond their packet", V5, "30 05 0001 61 05 01", M),
    ("a length of properties that is too long for its value", V5, "30 07 0001 61 8200 01 01", M),
    ("a response topic with a wildcard", V5, "30 08 0001 61 04 08 0001 23", P),
    ("a user property that is cut", V5, "30 08 0001 61 04 26 0001 61", M),
    ("subscription identifier 0", V5, "82 09 0001 02 0b00 0001 61 00", P),
    ("two subscription identifiers", V5, "82 0b 0001 04 0b01 0b02 0001 61 00", P),
    ("SUBSCRIBE without filters", V3_1_1, "82 02 0001", P),
    ("SUBSCRIBE with packet identifier 0", V3_1_1, "82 06 0000 0001 61 01", P),
    ("a filter without options", V3_1_1, "82 05 0001 0001 61", M),
    ("a subscription with QoS 3", V3_1_1, "82 06 0001 0001 61 03", P),
    ("options of MQTT 5 in MQTT 3", V3_1_1, "82 06 0001 0001 61 04", M),
    ("reserved options", V5, "82 07 0001 00 0001 61 40", M),
    ("retain handling 3", V5, "82 07 0001 00 0001 61 30", P),
    ("UNSUBSCRIBE without filters", V3_1_1, "a2 02 0001", P),
    ("UNSUBSCRIBE with packet identifier 0", V5, "a2 06 0000 00 0001 61", P),
    ("SUBACK without reasons", V5, "90 03 0001 00", P),
    ("SUBACK with a reason of MQTT 5 in MQTT 3", V3_1_1, "90 03 0001 8f", P),
    ("CONNACK with reserved flags", V5, "20 03 02 00 00", M),
    ("CONNACK that refuses a session that is present", V5, "20 03 01 87 00", P),
    ("AUTH with a reason code of another packet", V5, "f0 01 87", P),
]


@pytest.mark.parametrize(("version", "data", "reason"), [each[1:] for each in BAD], ids=[each[0] for each in BAD])
def test_bytes_that_break_the_standard(version: int, data: str, reason: Reason) -> None:
    assert error_of(bytes.fromhex(data), version).reason is reason


CONNECTS: list[tuple[str, str, Reason, int]] = [
    ("another protocol", "10 0d 0004 4d515458 04 00 003c 0001 63", VERSION, V3_1_1),
    ("version 2", "10 0d 0004 4d515454 02 00 003c 0001 63", VERSION, V3_1_1),
    ("version 6", "10 0d 0004 4d515454 06 00 003c 0001 63", VERSION, V5),
    ("3.1.1 of a bridge", "10 0d 0004 4d515454 84 00 003c 0001 63", VERSION, V3_1_1),
    ("3.1 of a bridge", "10 0f 0006 4d5149736470 83 02 000a 0001 63", VERSION, V3_1_1),
    ("the reserved flag", "10 0d 0004 4d515454 04 01 003c 0001 63", M, V3_1_1),
    ("QoS of a will without a will", "10 0d 0004 4d515454 04 08 003c 0001 63", M, V3_1_1),
    ("retain of a will without a will", "10 0d 0004 4d515454 04 20 003c 0001 63", M, V3_1_1),
    ("a will with QoS 3", "10 13 0004 4d515454 04 1c 003c 0001 63 0001 77 0001 78", M, V3_1_1),
    ("a will on a wildcard", "10 13 0004 4d515454 04 04 003c 0001 63 0001 23 0001 78", NAME, V3_1_1),
    ("a will without a topic", "10 12 0004 4d515454 04 04 003c 0001 63 0000 0001 78", M, V3_1_1),
    ("a password without a user name", "10 10 0004 4d515454 04 40 003c 0001 63 0001 78", M, V3_1_1),
    ("bytes behind the end", "10 0e 0004 4d515454 04 00 003c 0001 63 00", M, V3_1_1),
    ("a user name that is missing", "10 0d 0004 4d515454 04 80 003c 0001 63", M, V3_1_1),
    ("a client identifier with a null character", "10 0d 0004 4d515454 04 00 003c 0001 00", M, V3_1_1),
    ("receive maximum 0", "10 11 0004 4d515454 05 00 003c 03 21 0000 0001 63", P, V5),
    ("maximum packet size 0", "10 13 0004 4d515454 05 00 003c 05 27 00000000 0001 63", P, V5),
    ("session expiry twice", "10 18 0004 4d515454 05 00 003c 0a 11 00000001 11 00000001 0001 63", P, V5),
    ("problem information 2", "10 10 0004 4d515454 05 00 003c 02 17 02 0001 63", P, V5),
    ("data without a method", "10 11 0004 4d515454 05 00 003c 03 16 0000 0001 63", P, V5),
    ("a will delay among the properties of CONNECT", "10 13 0004 4d515454 05 00 003c 05 18 00000001 0001 63", M, V5),
]


@pytest.mark.parametrize(("data", "reason", "version"), [each[1:] for each in CONNECTS], ids=[c[0] for c in CONNECTS])
def test_connect_says_in_which_version_it_is_refused(data: str, reason: Reason, version: int) -> None:
    error = error_of(bytes.fromhex(data), 0)
    assert (error.reason, error.version) == (reason, version)


def test_the_first_packet_is_connect() -> None:
    """The error comes with the first byte of the header, before the packet is complete."""
    for data in ("30 05", "16 0301", "c0 00", "47 45 54 20"):
        assert error_of(bytes.fromhex(data), 0).reason is Reason.PROTOCOL_ERROR
        assert error_of(bytes.fromhex(data), 0).version == 0


def test_a_large_packet_is_refused_by_its_header() -> None:
    decoder = PacketDecoder(packet_bytes_max=1_000, version=V5)
    (error,) = decoder.feed(b"\x30" + varint(998))
    assert isinstance(error, MqttError)
    assert error.reason is LARGE
    decoder = PacketDecoder(packet_bytes_max=1_000, version=V5)
    assert decoder.feed(b"\x30" + varint(997)) == []
    assert decoder.held_bytes == 3


def test_connect_has_a_bound_of_its_own() -> None:
    assert error_of(b"\x10" + varint(CONNECT_BYTES_MAX), 0).reason is LARGE
    assert PacketDecoder().feed(b"\x10" + varint(CONNECT_BYTES_MAX - 4)) == []


def test_user_properties_and_filters_of_a_packet_are_bounded() -> None:
    pair = bytes.fromhex("26 0000 0000") * 1_025
    body = b"\0\1a" + varint(len(pair)) + pair
    assert error_of(b"\x30" + varint(len(body)) + body, V5).reason is QUOTA
    filters = b"\0\1" + b"\0\1a" * 8_193
    assert error_of(b"\xa2" + varint(len(filters)) + filters, V3_1).reason is QUOTA
    identifiers = bytes.fromhex("0b01") * 1_025
    body = b"\0\1a" + varint(len(identifiers)) + identifiers
    assert error_of(b"\x30" + varint(len(body)) + body, V5).reason is QUOTA
