"""Positions that readers have stored in a log, by name. They are a part of the log's state.

A position only rises. To move it back, or to take it over, a client names the version that it has seen. Each such
change increments the version, and a change that names another version has no effect. So a command that is proposed
twice, because an answer was lost, acts once. A consumer that has taken over a position names its version in each later
command, and gets an error once another consumer has taken it over.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from resprout.core import limits

POSITIONS_MAX: Final = 1_000
"""Most positions in one log."""
FORGET: Final = -1
"""Value in place of an offset: delete the position."""
ASK: Final = -2
"""Value in place of an offset: only read the position."""

_KIND: Final = b"P"


class PositionCommand(msgspec.Struct, frozen=True, array_like=True):
    """A change of a position, decided in a slot of the log."""

    name: str
    offset: int
    """Offset at which to continue, or `FORGET`."""
    version: int
    """Version that the client has seen; 0 matches any version, or for a forced change no position."""
    forced: bool
    """Whether the offset may be lower than the stored one."""
    owner: str
    """Unique name of a forced change."""
    time_us: int


class StoredPosition(msgspec.Struct, frozen=True, array_like=True):
    name: str
    offset: int
    version: int
    owner: str
    time_us: int
    """Time of the last change."""


class Positions:
    def __init__(self) -> None:
        self.by_name: dict[str, StoredPosition] = {}

    def apply(self, command: PositionCommand, end: int) -> None:
        """Apply a decided command if nothing prevents it. `end`: the offset behind the last message."""
        before = self.by_name.get(command.name)
        if self.refusal(command, end):
            return
        if command.offset == FORGET:
            self.by_name.pop(command.name, None)
        elif before is None:
            self.by_name[command.name] = StoredPosition(
                command.name, command.offset, 1, command.owner if command.forced else "", command.time_us
            )
        elif command.forced:
            self.by_name[command.name] = StoredPosition(
                command.name, command.offset, before.version + 1, command.owner, command.time_us
            )
        elif command.offset > before.offset:
            self.by_name[command.name] = msgspec.structs.replace(before, offset=command.offset, time_us=command.time_us)

    def refusal(self, command: PositionCommand, end: int) -> str:
        """Return the reason why a command would have no effect, or an empty text."""
        before = self.by_name.get(command.name)
        version = before.version if before is not None else 0
        if command.offset > end:
            return f"the log ends at offset {end}, and has no offset {command.offset}"
        if command.offset == FORGET:
            if command.version not in (0, version):
                return f"the position {command.name!r} has version {version}, and not {command.version}"
        elif before is None and len(self.by_name) >= POSITIONS_MAX:
            return f"the log has {POSITIONS_MAX} positions, the most it may: forget one"
        elif command.version != version and (command.forced or command.version):
            return f"the position {command.name!r} has version {version}, and not {command.version}"
        return ""

    def is_applied(self, command: PositionCommand) -> bool:
        """Whether the position is as this command wants it, because of this command or an equal one."""
        stored = self.by_name.get(command.name)
        if command.offset == FORGET or stored is None:
            return (stored is None) is (command.offset == FORGET)
        if command.forced:
            return (stored.owner, stored.version) == (command.owner, command.version + 1)
        return stored.offset >= command.offset and command.version in (0, stored.version)

    def load(self, positions: Iterable[StoredPosition]) -> None:
        self.by_name = {each.name: each for each in positions}


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(PositionCommand).decode


def position_command(command: PositionCommand) -> bytes:
    return _KIND + _encode(command)


def read_position_command(data: bytes) -> PositionCommand | None:
    """Return the command. Returns None for other commands and for invalid bytes."""
    if data[:1] != _KIND:
        return None
    try:
        command = _decode(data[1:])
    except msgspec.MsgspecError:
        return None
    sizes = len(command.name.encode()), len(command.owner.encode())
    return command if max(sizes) <= limits.NAME_BYTES and command.offset >= FORGET else None
