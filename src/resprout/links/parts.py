"""Large messages in parts, so that other frames get their turn between them.

A message becomes a *body*, of which each part is a slice. On a network that is its bytes. Where frames are handed over
as objects (in a simulator, in tests) it is the message itself: as long as its bytes would be, and never encoded.
"""

from typing import Any, Final, Protocol

from resprout.core import limits
from resprout.core.errors import PeerError, UsageError
from resprout.links.flight import PART_BYTES_MIN
from resprout.links.frames import Part

BODY_BYTES_MAX: Final = limits.FRAME_BYTES


class Body(Protocol):
    """Anything that has a length and can be sliced."""

    def __len__(self) -> int: ...

    def __getitem__(self, key: slice, /) -> Any: ...


class Bodies(Protocol):
    """How messages become bodies, and slices of bodies messages."""

    def pack(self, number: int, message: Any) -> Body:
        """Equal messages have equal bodies: a resumed transfer goes on in the middle of one. Raises UsageError for what
        has no form, or takes more than `BODY_BYTES_MAX`."""
        ...

    def unpack(self, number: int, slices: list[Any]) -> Any:
        """Raises PeerError when all slices together are not that message."""
        ...


class Slice:
    """Of a message that is handed over as an object."""

    __slots__ = ("begin", "end", "message")

    def __init__(self, message: Any, begin: int, end: int) -> None:
        self.message = message
        self.begin = begin
        self.end = end

    def __len__(self) -> int:
        return self.end - self.begin

    def __getitem__(self, key: slice, /) -> "Slice":
        begin, end, _ = key.indices(len(self))
        return Slice(self.message, self.begin + begin, self.begin + end)


class SharedBodies:
    """Nothing is encoded: every slice knows its message."""

    def pack(self, number: int, message: Any) -> Body:
        size = max(1, message.cost + message.bulk)
        if size > BODY_BYTES_MAX:
            raise UsageError(f"{type(message).__name__} takes {size} bytes; parts make {BODY_BYTES_MAX} at most")
        return Slice(message, 0, size)

    def unpack(self, number: int, slices: list[Any]) -> Any:
        last = slices[-1]
        if not isinstance(last, Slice):
            raise PeerError("a part that belongs to no message")
        return last.message


class Assembly:
    """The message that is coming in parts, if any. Keeps at most one body: `BODY_BYTES_MAX`."""

    __slots__ = ("_bodies", "_size", "_slices", "have")

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._slices: list[Any] = []
        self._size = 0
        self.have = 0
        """Bytes of it that are here."""

    def clear(self) -> None:
        """It came in another way."""
        self._slices = []
        self._size = self.have = 0

    def add(self, part: Part) -> bool:
        """True when the message is complete. Raises PeerError for what does not fit to the parts before it."""
        size, chunk = part.size, part.chunk
        end = part.at + len(chunk)
        if not 0 < len(chunk) <= end <= size <= BODY_BYTES_MAX or (end < size and len(chunk) < PART_BYTES_MIN):
            raise PeerError(f"a part from {part.at} to {end} of a message of {size} bytes")
        if self.have and size != self._size:
            raise PeerError(f"a message of {self._size} bytes goes on with {size} bytes")
        if part.at > self.have:
            raise PeerError(f"{part.at - self.have} bytes of message {part.number} are missing")
        if end > self.have:
            self._slices.append(chunk[self.have - part.at :] if part.at < self.have else chunk)
            self._size = size
            self.have = end
        return self.have == size

    def finish(self, number: int) -> Any:
        """The message."""
        slices = self._slices
        self.clear()
        return self._bodies.unpack(number, slices)
