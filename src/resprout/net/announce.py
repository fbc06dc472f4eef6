"""What a broker process says on its standard output for the program that started it: one JSON object a line.

The first line is the announcement: from then on the broker can be connected to. Every later one is a note.
"""

from typing import Any, TypeVar

import msgspec

from resprout.core.errors import PeerError

T = TypeVar("T")


class Announcement(msgspec.Struct, frozen=True):
    """The broker listens."""

    name: str
    address: str
    pid: int
    incarnation: int = 1


class SaidNote(msgspec.Struct, frozen=True):
    """A `Note` of the broker's machine, for a trace; `time_us` is on the clock that every process here shares."""

    kind: str
    time_us: int
    columns: dict[str, Any]


def as_line(said: Announcement | SaidNote) -> str:
    return msgspec.json.encode(said).decode()


def read_announcement(line: bytes) -> Announcement:
    return _read(line, Announcement)


def read_note(line: bytes) -> SaidNote:
    return _read(line, SaidNote)


def _read(line: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.MsgspecError as error:
        raise PeerError(f"{line[:80]!r} is not what a broker says: {error}") from None
