"""A message as one line, for people or for programs."""

import base64
from collections.abc import Callable
from typing import Any

import msgspec

from resprout.core.message import Message

Show = Callable[[Message], bytes]


def as_text(message: Message) -> bytes:
    """The topic and the payload. What is not text is written as hexadecimal digits, and says so; a line stays one line,
    and a terminal is never sent the control characters of strangers."""
    return f"{plain(message.topic)} {_readable(message.payload)}\n".encode()


def as_payload(message: Message) -> bytes:
    """The payload as it came."""
    return message.payload + b"\n"


def as_json(message: Message) -> bytes:
    fields: dict[str, Any] = {"topic": message.topic}
    try:
        fields["payload"] = message.payload.decode()
    except UnicodeDecodeError:
        fields["payload_base64"] = base64.b64encode(message.payload).decode()
    fields["publisher"] = message.publisher
    fields["incarnation"] = message.incarnation
    fields["seq"] = message.seq
    fields["guarantee"] = message.guarantee.label
    fields["keys"] = message.keys
    fields["attributes"] = message.attributes
    fields["position"] = message.position
    fields["id"] = id_text(message.id)
    if message.redelivered:
        fields["redelivered"] = True
    return msgspec.json.encode(fields) + b"\n"


def id_text(id: tuple[Any, ...]) -> str:
    """The id of a publication as `resprout trace` takes it."""
    publisher, life, stream, seq = id
    return f"{publisher}.{life}/{stream}:{seq}"


def _readable(payload: bytes) -> str:
    try:
        return plain(payload.decode())
    except UnicodeDecodeError:
        return f"(hex) {payload.hex()}"


def plain(text: str) -> str:
    """One line, without anything that steers a terminal."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter == "\t" else _escaped(letter) for letter in text)


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode()
