"""The tables of MQTT 5 as raw bytes: which packets may carry which property, reason code and flags.

The tables here are copied from chapters 2.1.3, 2.2.2.2 and 2.4 of the standard, not from the codec.
"""

import pytest

from resprout.mqtt.decoder import PacketDecoder
from resprout.mqtt.fields import varint
from resprout.mqtt.packets import V3_1, V3_1_1, V5
from resprout.mqtt.reasons import MqttError, Reason
from tests.mqtt.examples import VERSIONS

ACKS = ("CONNACK", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "SUBACK", "UNSUBACK", "DISCONNECT", "AUTH")
ALL = ("CONNECT", "Will", "PUBLISH", "SUBSCRIBE", "UNSUBSCRIBE", *ACKS)

PROPERTIES: dict[str, tuple[str, ...]] = {
    "01 01": ("PUBLISH", "Will"),
    "02 00000005": ("PUBLISH", "Will"),
    "03 0001 74": ("PUBLISH", "Will"),
    "08 0001 72": ("PUBLISH", "Will"),
    "09 0001 ff": ("PUBLISH", "Will"),
    "0b 01": ("PUBLISH", "SUBSCRIBE"),
    "11 00000005": ("CONNECT", "CONNACK", "DISCONNECT"),
    "12 0001 63": ("CONNACK",),
    "13 0005": ("CONNACK",),
    "15 0001 6d": ("CONNECT", "CONNACK", "AUTH"),
    "16 0001 ff": ("CONNACK", "AUTH"),  # in CONNECT only with a method, see `test_checks`
    "17 01": ("CONNECT",),
    "18 00000005": ("Will",),
    "19 01": ("CONNECT",),
    "1a 0001 72": ("CONNACK",),
    "1c 0001 73": ("CONNACK", "DISCONNECT"),
    "1f 0001 72": ACKS,
    "21 0005": ("CONNECT", "CONNACK"),
    "22 0005": ("CONNECT", "CONNACK"),
    "23 0005": ("PUBLISH",),
    "24 01": ("CONNACK",),
    "25 01": ("CONNACK",),
    "26 0001 6b 0001 76": ALL,
    "27 00000005": ("CONNECT", "CONNACK"),
    "28 01": ("CONNACK",),
    "29 01": ("CONNACK",),
    "2a 01": ("CONNACK",),
}
UNKNOWN = [number for number in range(256) if number not in {int(text[:2], 16) for text in PROPERTIES}]

REASONS: dict[int, tuple[str, ...]] = {
    0x00: ACKS,
    0x01: ("SUBACK",),
    0x02: ("SUBACK",),
    0x04: ("DISCONNECT",),
    0x10: ("PUBACK", "PUBREC"),
    0x11: ("UNSUBACK",),
    0x18: ("AUTH",),
    0x19: ("AUTH",),
    0x80: ("CONNACK", "PUBACK", "PUBREC", "SUBACK", "UNSUBACK", "DISCONNECT"),
    0x81: ("CONNACK", "DISCONNECT"),
    0x82: ("CONNACK", "DISCONNECT"),
    0x83: ("CONNACK", "PUBACK", "PUBREC", "SUBACK", "UNSUBACK", "DISCONNECT"),
    0x84: ("CONNACK",),
    0x85: ("CONNACK",),
    0x86: ("CONNACK",),
    0x87: ("CONNACK", "PUBACK", "PUBREC", "SUBACK", "UNSUBACK", "DISCONNECT"),
    0x88: ("CONNACK",),
    0x89: ("CONNACK", "DISCONNECT"),
    0x8A: ("CONNACK",),
    0x8B: ("DISCONNECT",),
    0x8C: ("CONNACK", "DISCONNECT"),
    0x8D: ("DISCONNECT",),
    0x8E: ("DISCONNECT",),
    0x8F: ("SUBACK", "UNSUBACK", "DISCONNECT"),
    0x90: ("CONNACK", "PUBACK", "PUBREC", "DISCONNECT"),
    0x91: ("PUBACK", "PUBREC", "SUBACK", "UNSUBACK"),
    0x92: ("PUBREL", "PUBCOMP"),
    0x93: ("DISCONNECT",),
    0x94: ("DISCONNECT",),
    0x95: ("CONNACK", "DISCONNECT"),
    0x96: ("DISCONNECT",),
    0x97: ("CONNACK", "PUBACK", "PUBREC", "SUBACK", "DISCONNECT"),
    0x98: ("DISCONNECT",),
    0x99: ("CONNACK", "PUBACK", "PUBREC", "DISCONNECT"),
    0x9A: ("CONNACK", "DISCONNECT"),
    0x9B: ("CONNACK", "DISCONNECT"),
    0x9C: ("CONNACK", "DISCONNECT"),
    0x9D: ("CONNACK", "DISCONNECT"),
    0x9E: ("SUBACK", "DISCONNECT"),
    0x9F: ("CONNACK", "DISCONNECT"),
    0xA0: ("DISCONNECT",),
    0xA1: ("SUBACK", "DISCONNECT"),
    0xA2: ("SUBACK", "DISCONNECT"),
}


def packet(name: str, properties: bytes = b"", reason: int = 0) -> bytes:
    """Return the bytes of a packet with these properties and this reason code."""
    with_length = varint(len(properties)) + properties
    code = bytes((reason,))
    connect = bytes.fromhex("0004 4d515454 05 02 003c")
    first, body = {
        "CONNECT": (0x10, connect + with_length + b"\0\1c"),
        "Will": (0x10, connect[:7] + b"\x06\0\x3c" + b"\0\0\1c" + with_length + b"\0\1w\0\1x"),
        "CONNACK": (0x20, b"\0" + code + with_length),
        "PUBLISH": (0x30, b"\0\1t" + with_length + b"x"),
        "PUBACK": (0x40, b"\0\1" + code + with_length),
        "PUBREC": (0x50, b"\0\1" + code + with_length),
        "PUBREL": (0x62, b"\0\1" + code + with_length),
        "PUBCOMP": (0x70, b"\0\1" + code + with_length),
        "SUBSCRIBE": (0x82, b"\0\1" + with_length + b"\0\1t\1"),
        "SUBACK": (0x90, b"\0\1" + with_length + code),
        "UNSUBSCRIBE": (0xA2, b"\0\1" + with_length + b"\0\1t"),
        "UNSUBACK": (0xB0, b"\0\1" + with_length + code),
        "PINGREQ": (0xC0, b""),
        "PINGRESP": (0xD0, b""),
        "DISCONNECT": (0xE0, code + with_length),
        "AUTH": (0xF0, code + with_length),
    }[name]
    return bytes((first,)) + varint(len(body)) + body


def decoded(name: str, data: bytes, version: int = V5) -> object:
    """Decode one packet: CONNECT as the first one of a connection."""
    decoder = PacketDecoder() if name in ("CONNECT", "Will") else PacketDecoder(version=version)
    (item,) = decoder.feed(data)
    return item


@pytest.mark.parametrize("name", ALL)
def test_each_property_is_accepted_in_its_packets_only(name: str) -> None:
    for text, packets in PROPERTIES.items():
        item = decoded(name, packet(name, bytes.fromhex(text)))
        if name in packets:
            assert not isinstance(item, MqttError), item
        else:
            assert isinstance(item, MqttError)
            has_no_method = (name, text[:2]) == ("CONNECT", "16")
            assert item.reason == (Reason.PROTOCOL_ERROR if has_no_method else Reason.MALFORMED_PACKET)


@pytest.mark.parametrize("name", ALL)
def test_a_property_that_occurs_twice_is_a_protocol_error(name: str) -> None:
    for text, packets in PROPERTIES.items():
        if name not in packets:
            continue
        item = decoded(name, packet(name, bytes.fromhex(text) * 2))
        if text.startswith("26") or (text.startswith("0b") and name == "PUBLISH"):
            assert not isinstance(item, MqttError), item
        else:
            assert isinstance(item, MqttError)
            assert item.reason is Reason.PROTOCOL_ERROR


@pytest.mark.parametrize("name", ALL)
def test_unknown_properties_are_malformed(name: str) -> None:
    for number in UNKNOWN:
        item = decoded(name, packet(name, bytes((number, 1))))
        assert isinstance(item, MqttError)
        assert item.reason is Reason.MALFORMED_PACKET


@pytest.mark.parametrize("name", ALL)
def test_a_property_that_is_cut_is_malformed(name: str) -> None:
    """At each of its bytes, within the declared length of the properties."""
    for text in PROPERTIES:
        data = bytes.fromhex(text)
        for length in range(1, len(data)):
            item = decoded(name, packet(name, data[:length]))
            assert isinstance(item, MqttError)
            assert item.reason is Reason.MALFORMED_PACKET


@pytest.mark.parametrize("name", ACKS)
def test_each_reason_code_is_accepted_in_its_packets_only(name: str) -> None:
    for reason in range(256):
        item = decoded(name, packet(name, reason=reason))
        if name in REASONS.get(reason, ()):
            assert getattr(item, "reason", None) == reason or getattr(item, "reasons", None) == (reason,), item
        else:
            assert isinstance(item, MqttError)
            assert item.reason is Reason.PROTOCOL_ERROR


OTHERS = ("PINGREQ", "PINGRESP")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", [*(name for name in ALL if name not in ("Will", "PUBLISH", "CONNECT")), *OTHERS])
def test_reserved_flags_are_malformed(name: str, version: int) -> None:
    """MQTT 3.1 has a DUP flag in SUBSCRIBE, UNSUBSCRIBE and PUBREL."""
    if version != V5 and name == "AUTH":
        return
    right = 2 if name in ("SUBSCRIBE", "UNSUBSCRIBE", "PUBREL") else 0
    data = packet(name)
    if version != V5:
        data = bytes((data[0], *_BODIES_OF_MQTT_3[name]))
    for flags in range(16):
        item = decoded(name, bytes((data[0] & 0xF0 | flags,)) + data[1:], version)
        if flags == right or (version == V3_1 and right and flags == right | 8):
            assert not isinstance(item, MqttError), item
        else:
            assert isinstance(item, MqttError)
            assert item.reason is Reason.MALFORMED_PACKET


_BODIES_OF_MQTT_3 = {
    name: bytes.fromhex(text)
    for name, text in {
        "CONNACK": "02 0000",
        "PUBACK": "02 0001",
        "PUBREC": "02 0001",
        "PUBREL": "02 0001",
        "PUBCOMP": "02 0001",
        "SUBSCRIBE": "06 0001 0001 74 01",
        "SUBACK": "03 0001 01",
        "UNSUBSCRIBE": "05 0001 0001 74",
        "UNSUBACK": "02 0001",
        "DISCONNECT": "00",
        "PINGREQ": "00",
        "PINGRESP": "00",
    }.items()
}


BAD_TEXTS = ["00", "6100", "c0af", "c3", "eda080", "edbfbf", "f4908080", "f8888080", "ff", "80"]


@pytest.mark.parametrize("text", BAD_TEXTS)
def test_bad_utf_8_is_malformed_wherever_a_text_may_be(text: str) -> None:
    bad = len(bytes.fromhex(text)).to_bytes(2, "big") + bytes.fromhex(text)
    connect = bytes.fromhex("0004 4d515454 05")
    will = b"\0\1w\0\1x"
    places = {
        "client identifier": b"\x10" + _sized(connect + b"\2\0\0\0" + bad),
        "user name": b"\x10" + _sized(connect + b"\x82\0\0\0" + b"\0\1c" + bad),
        "topic of the will": b"\x10" + _sized(connect + b"\6\0\0\0" + b"\0\1c\0" + bad + b"\0\1x"),
        "content type of the will": b"\x10" + _sized(connect + b"\6\0\0\0" + b"\0\1c" + _sized(b"\3" + bad) + will),
        "authentication method": b"\x10" + _sized(connect + b"\2\0\0" + _sized(b"\x15" + bad) + b"\0\1c"),
        "user property of CONNECT": b"\x10" + _sized(connect + b"\2\0\0" + _sized(b"\x26\0\1k" + bad) + b"\0\1c"),
    }
    for name, data in places.items():
        item = decoded("CONNECT", data)
        assert isinstance(item, MqttError), name
        assert (item.reason, item.version) == (Reason.MALFORMED_PACKET, V5), name
    places = {
        "topic": b"\x30" + _sized(bad + b"\0"),
        "response topic": b"\x30" + _sized(b"\0\1t" + _sized(b"\x08" + bad)),
        "content type": b"\x30" + _sized(b"\0\1t" + _sized(b"\x03" + bad)),
        "name of a user property": b"\x30" + _sized(b"\0\1t" + _sized(b"\x26" + bad + b"\0\1v")),
        "value of a user property": b"\x30" + _sized(b"\0\1t" + _sized(b"\x26\0\1k" + bad)),
        "filter of SUBSCRIBE": b"\x82" + _sized(b"\0\1\0" + bad + b"\0"),
        "filter of UNSUBSCRIBE": b"\xa2" + _sized(b"\0\1\0" + bad),
        "reason string": b"\x40" + _sized(b"\0\1\0" + _sized(b"\x1f" + bad)),
    }
    for name, data in places.items():
        item = decoded("PUBLISH", data)
        assert isinstance(item, MqttError), name
        assert item.reason is Reason.MALFORMED_PACKET, name


@pytest.mark.parametrize("text", ["efbbbf", "01", "ef bf be", "f0 9f 98 80", "c2 80", "20"])
def test_other_characters_are_kept(text: str) -> None:
    raw = bytes.fromhex(text)
    for version, middle in ((V3_1_1, b""), (V5, b"\0")):
        item = decoded("PUBLISH", b"\x30" + _sized(len(raw).to_bytes(2, "big") + raw + middle), version)
        assert getattr(item, "topic", "").encode() == raw


def test_binary_data_may_hold_anything() -> None:
    raw = b"\0\xff\xed\xa0\x80"
    binary = len(raw).to_bytes(2, "big") + raw
    password = bytes.fromhex("0004 4d515454 05 42 0000 00 0001 63") + binary
    assert getattr(decoded("CONNECT", b"\x10" + _sized(password)), "password", None) == raw
    item = decoded("PUBLISH", b"\x30" + _sized(b"\0\1t" + _sized(b"\x09" + binary)))
    assert getattr(getattr(item, "properties", None), "correlation_data", None) == raw


def _sized(body: bytes) -> bytes:
    return varint(len(body)) + body
