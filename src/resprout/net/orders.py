"""The pipes between a broker process and the program that started it: one JSON object a line, each way.

Orders come on standard input. On standard output the first line is an announcement: from then on the broker can be
connected to. Later ones are notes, and announcements of further lives at the same address.

Standard input also binds the child to its parent: when the pipe ends the parent is gone, and so is the child. That
works however the parent went, `kill -9` included, and on every system with pipes. A process that is stopped (SIGSTOP)
notices nothing; so the child leads a process group of its own, and when that group is orphaned the system wakes its
stopped members with SIGHUP and SIGCONT.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from resprout.core.errors import PeerError, UsageError

LINE_BYTES_MAX = 1 << 20

_STDIN: Final = 0
_READ_BYTES: Final = 65_536


class Bar(msgspec.Struct, frozen=True, tag="bar"):
    """An emulated cut: the peers (and no others) that it cannot reach from now on."""

    peers: tuple[str, ...]


class Found(msgspec.Struct, frozen=True, tag="found"):
    """Where other brokers listen, by name."""

    addresses: Mapping[str, str]


BrokerOrder = Bar | Found

_order_decoder: msgspec.json.Decoder[BrokerOrder] = msgspec.json.Decoder(BrokerOrder)


def order_line(order: BrokerOrder) -> bytes:
    return msgspec.json.encode(order) + b"\n"


def read_order(line: bytes) -> BrokerOrder:
    try:
        return _order_decoder.decode(line)
    except msgspec.MsgspecError as error:
        raise PeerError(f"{line[:80]!r} is no order for a broker: {error}") from None


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

_said_decoder: msgspec.json.Decoder[Said] = msgspec.json.Decoder(Said)


def announcement_line(said: Said) -> str:
    return msgspec.json.encode(said).decode()


def read_said(line: bytes) -> Said:
    try:
        return _said_decoder.decode(line)
    except msgspec.MsgspecError as error:
        raise PeerError(f"{line[:80]!r} is not what a broker says: {error}") from None


def leave_group() -> None:
    """Ctrl-C in the parent's terminal is for the parent; it stops its children itself."""
    with contextlib.suppress(OSError, AttributeError):
        os.setpgid(0, 0)


def watch_stdin(stop: asyncio.Event, hear: Callable[[bytes], None], line_bytes_max: int) -> None:
    """Sets `stop` when standard input ends; `hear` is given each line of it, as long as lines are not too long."""
    loop = asyncio.get_running_loop()
    unread = bytearray()

    def look() -> None:
        try:
            more = os.read(_STDIN, _READ_BYTES)
        except OSError:
            more = b""
        if not more:
            loop.remove_reader(_STDIN)
            stop.set()
            return
        unread.extend(more)
        *lines, rest = bytes(unread).split(b"\n")
        unread[:] = rest[:line_bytes_max]
        for line in lines:
            hear(line)

    try:
        loop.add_reader(_STDIN, look)
    except (OSError, ValueError):
        raise UsageError("standard input is no pipe: its end cannot be waited for") from None
