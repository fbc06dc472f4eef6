"""A message as one line, for people or for programs."""

import base64
from collections.abc import Callable
from typing import Any

from resprout.cli.console import json_line
from resprout.core.message import Message

Show = Callable[[Message], str | bytes]
"""Text is escaped where it leaves (`cli.blocking.Output`); bytes leave as they are."""


def as_text(message: Message) -> str:
    """The topic and the payload. What is not text is written as hexadecimal digits, and says so."""
    return f"{message.topic} {_readable(message.payload)}"


def as_payload(message: Message) -> bytes:
    """The payload as it came."""
    return message.payload


def as_json(message: Message) -> str:
    return json_line(as_fields(message))


def as_fields(message: Message) -> dict[str, Any]:
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
    return fields


def id_text(id: tuple[Any, ...]) -> str:
    """The id of a publication as `resprout trace` takes it."""
    publisher, life, stream, seq = id
    return f"{publisher}.{life}/{stream}:{seq}"


def _readable(payload: bytes) -> str:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return f"(hex) {payload.hex()}"
