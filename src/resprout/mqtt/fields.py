"""Decodes and encodes the data types of MQTT: integers, UTF-8 strings, binary data, topic names.

Each decoder takes a buffer, the start offset of the field and the end offset of its packet. It returns the value and
the offset after it, or raises MqttError.
"""

from typing import Final

from resprout.core.errors import UsageError
from resprout.mqtt.reasons import MqttError, Reason, malformed, protocol_error

VARINT_MAX: Final = 268_435_455
"""Largest variable byte integer: four bytes of seven bits."""
VARINT_BYTES: Final = 4
TEXT_BYTES_MAX: Final = 65_535
"""Maximum length of a string or of binary data in bytes, because the length field has two bytes."""


def read_byte(data: bytes, at: int, end: int) -> tuple[int, int]:
    if at >= end:
        raise malformed("the packet ends within a byte field")
    return data[at], at + 1


def read_two(data: bytes, at: int, end: int) -> tuple[int, int]:
    if at + 2 > end:
        raise malformed("the packet ends within a two byte integer")
    return (data[at] << 8) | data[at + 1], at + 2


def read_four(data: bytes, at: int, end: int) -> tuple[int, int]:
    if at + 4 > end:
        raise malformed("the packet ends within a four byte integer")
    return int.from_bytes(data[at : at + 4], "big"), at + 4


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Decode a variable byte integer. MQTT 5 requires the shortest form; longer forms raise MqttError."""
    value = 0
    for place in range(VARINT_BYTES):
        if at + place >= end:
            raise malformed("the packet ends within a variable byte integer")
        byte = data[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            if byte == 0 and place:
                raise malformed("a variable byte integer takes more bytes than it needs")
            return value, at + place + 1
    raise malformed(f"a variable byte integer takes more than {VARINT_BYTES} bytes")


def read_binary(data: bytes, at: int, end: int) -> tuple[bytes, int]:
    length, at = read_two(data, at, end)
    after = at + length
    if after > end:
        raise malformed("the packet ends within binary data")
    return data[at:after], after


def read_text(data: bytes, at: int, end: int) -> tuple[str, int]:
    raw, after = read_binary(data, at, end)
    return text_of(raw), after


def text_of(raw: bytes) -> str:
    """Decode UTF-8; raise MqttError for surrogates, overlong forms and null characters."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise malformed("a text is not valid UTF-8") from None
    if "\0" in text:
        raise malformed("a text holds a null character")
    return text


def read_packet_id(data: bytes, at: int, end: int) -> tuple[int, int]:
    packet_id, at = read_two(data, at, end)
    if not packet_id:
        raise protocol_error("packet identifier 0")
    return packet_id, at


def check_topic_name(topic: str) -> None:
    """Raise MqttError if a topic name contains wildcards. The caller checks for empty names, which topic aliases
    allow."""
    if "+" in topic or "#" in topic:
        raise MqttError(Reason.TOPIC_NAME_INVALID, "a topic name holds a wildcard")


def varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value > VARINT_MAX:
        raise UsageError(f"{value} does not fit in a variable byte integer")
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def binary(value: bytes) -> bytes:
    if len(value) > TEXT_BYTES_MAX:
        raise UsageError(f"{len(value)} bytes in a field of at most {TEXT_BYTES_MAX}")
    return len(value).to_bytes(2, "big") + value


def text(value: str) -> bytes:
    return binary(value.encode())
