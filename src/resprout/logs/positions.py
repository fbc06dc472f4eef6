"""Positions that readers have stored in a log, by name. They are a part of the log's state.

A position only rises. To move it back, or to take it over, a client names the version that it has seen. Each such
change increments the version, and a change that names another version has no effect. So a command that is proposed
twice, because an answer was lost, acts once. A consumer that has taken over a position names its version in each later
command, and gets an error once another consumer has taken it over.

A position belongs to the identity that stores it first, as a durable subscription does (`edge.rights`). The broker of a
client states the identity, and what the rules let it do with positions of that name.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from resprout.core import limits
from resprout.core.message_fields import BoundedNumber, Microseconds, PositionOffset, next_number

POSITIONS_MAX: Final = 1_000
"""Most positions in one log."""
IDENTITY_POSITIONS_MAX: Final = 250
"""Most positions of one identity in one log."""
FORGET: Final = -1
"""Value in place of an offset: delete the position."""
ASK: Final = -2
"""Value in place of an offset: only read the position."""

_KIND: Final = b"P"


class PositionCommand(msgspec.Struct, frozen=True, array_like=True):
    """A change of a position, decided in a slot of the log."""

    name: str
    offset: PositionOffset
    """Offset at which to continue, or `FORGET`."""
    version: BoundedNumber
    """Version that the client has seen; 0 matches any version, or for a forced change no position."""
    forced: bool
    """Whether the offset may be lower than the stored one."""
    owner: str
    """Unique name of a forced change."""
    time_us: Microseconds
    identity: str = ""
    """Identity of the client; empty if it has proven none."""
    shares: bool = True
    """Whether the client may change positions of other identities."""
    creates: bool = True
    """Whether the client may create a position of this name."""
    adopts: bool = False
    """Whether a position without an identity becomes that of the client."""


class StoredPosition(msgspec.Struct, frozen=True, array_like=True):
    name: str
    offset: BoundedNumber
    version: BoundedNumber
    owner: str
    time_us: Microseconds
    """Time of the last change."""
    identity: str = ""
    """Identity that it belongs to; empty: none."""


class Positions:
    def __init__(self) -> None:
        self.by_name: dict[str, StoredPosition] = {}
        self._of_identity: Counter[str] = Counter()
        """Number of positions, by identity."""

    def apply(self, command: PositionCommand, end: int) -> None:
        """Apply a decided command if nothing prevents it. `end`: the offset behind the last message."""
        before = self.by_name.get(command.name)
        if self.refusal(command, end):
            return
        if command.offset == FORGET:
            self._put(command.name, None)
            return
        identity = (before.identity if before is not None else "") or (command.identity if command.adopts else "")
        version, owner, offset = 1, command.owner if command.forced else "", command.offset
        if before is not None and command.forced:
            version = next_number(before.version)
        elif before is not None:
            version, owner, offset = before.version, before.owner, max(before.offset, offset)
            if (offset, identity) == (before.offset, before.identity):
                return
        self._put(command.name, StoredPosition(command.name, offset, version, owner, command.time_us, identity))

    def _put(self, name: str, stored: StoredPosition | None) -> None:
        before = self.by_name.pop(name, None) if stored is None else self.by_name.get(name)
        if before is not None and before.identity:
            self._of_identity[before.identity] -= 1
        if stored is not None:
            self.by_name[name] = stored
            if stored.identity:
                self._of_identity[stored.identity] += 1

    def refusal(self, command: PositionCommand, end: int) -> str:
        """Return the reason why a command would have no effect, or an empty text."""
        before = self.by_name.get(command.name)
        version = before.version if before is not None else 0
        if fault := self._fault_of_client(command, before):
            return fault
        if command.offset > end:
            return f"the log ends at offset {end}, and has no offset {command.offset}"
        if command.offset == FORGET:
            if command.version not in (0, version):
                return f"the position {command.name!r} has version {version}, and not {command.version}"
        elif before is None and (fault := self._is_full(command)):
            return fault
        elif command.version != version and (command.forced or command.version):
            return f"the position {command.name!r} has version {version}, and not {command.version}"
        return ""

    def _fault_of_client(self, command: PositionCommand, before: StoredPosition | None) -> str:
        """Return why the client may not change this position, or an empty text."""
        name, own = command.name, command.identity
        if command.shares or (before is not None and before.identity and before.identity == own):
            return ""
        if before is not None and before.identity:
            return f"the position {name!r} belongs to another identity, and the rules do not list it"
        if not command.creates:
            return f"the rules keep the name of the position {name!r} for other identities (`consume`)"
        return ""

    def _is_full(self, command: PositionCommand) -> str:
        """Return why no position can be added, or an empty text."""
        if len(self.by_name) >= POSITIONS_MAX:
            return f"the log has {POSITIONS_MAX} positions, the most it may: forget one"
        if command.adopts and self._of_identity[command.identity] >= IDENTITY_POSITIONS_MAX:
            return f"the log has {IDENTITY_POSITIONS_MAX} positions of {command.identity}, the most it may: forget one"
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
        self._of_identity = Counter([each.identity for each in self.by_name.values() if each.identity])


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
    sizes = [len(text.encode()) for text in (command.name, command.owner, command.identity)]
    return command if max(sizes) <= limits.NAME_BYTES and command.offset >= FORGET else None
