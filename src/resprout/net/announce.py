"""What a broker process says on its standard output for the program that started it: one JSON object a line.

The first line is an announcement: from then on the broker can be connected to. Later ones are notes, and announcements
of further lives at the same address.
"""

from typing import Any

import msgspec

from resprout.core.errors import PeerError


class Announcement(msgspec.Struct, frozen=True, tag_field="said", tag="listening"):
    """The broker listens: a life of it has begun."""

    name: str
    address: str
    pid: int
    incarnation: int = 1


class SaidNote(msgspec.Struct, frozen=True, tag_field="said", tag="note"):
    """A `Note` of the broker's machine, for a trace; `time_us` is on the clock that every process here shares."""

    kind: str
    time_us: int
    columns: dict[str, Any]


Said = Announcement | SaidNote

_decoder: msgspec.json.Decoder[Said] = msgspec.json.Decoder(Said)


def as_line(said: Said) -> str:
    return msgspec.json.encode(said).decode()


def read_said(line: bytes) -> Said:
    try:
        return _decoder.decode(line)
    except msgspec.MsgspecError as error:
        raise PeerError(f"{line[:80]!r} is not what a broker says: {error}") from None
