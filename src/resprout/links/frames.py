"""What two link layers send each other on a connection, and large messages in parts.

The opener sends `Hello`, the other side `SessionWelcome` (or `Goodbye`), then both send `Data` until either sends
`Goodbye` or the connection breaks. A large message travels as several `Part`, and signs of life as `Express`. A session
outlives its connections: `epoch` names it, and `received` tells from where to resume, down to the bytes of a message
in parts.

A message that is large becomes a *body*, of which each part is a slice, so that other frames can be sent between the
parts. On a network the body is the encoded message. Where frames are handed over as objects (in a simulator, in tests)
it is the message itself: as long as its bytes would be, and never encoded.

The timers of the links stand here as well, because structures are not compiled. Acknowledgements and the watch serve
all sessions with one timer each.
"""

from typing import Annotated, Any, ClassVar, Final, Generic, Protocol, TypeVar

import msgspec

from resprout.core import limits
from resprout.core.contract import EndCode, Timer
from resprout.core.errors import PeerError, UsageError
from resprout.core.message_fields import BoundedNumber, Derived, EchoedNumber, Otherwise
from resprout.links.flight import PART_BYTES_MIN

M = TypeVar("M")

LIFE: Final = Derived("30 days ahead of the wall clock", Otherwise.REFUSED)
SENT: Final = Derived("what was sent to the peer in this session", Otherwise.CUT_OFF)
GRANTED: Final = Derived("no less than was granted before", Otherwise.CUT_OFF)
GRANTED_AGAIN: Final = Derived("no less than was granted before", Otherwise.LIMITED)
NEXT: Final = Derived("what follows on what has come in this session", Otherwise.CUT_OFF)
WHOLE: Final = Derived("one message, and the same for all its parts", Otherwise.CUT_OFF)

PROTOCOL_VERSION = 1
"""What frames and messages mean. Raised by a release that says what the one before does not understand; each release
still understands all that the one before says."""

BODY_BYTES_MAX: Final = limits.FRAME_BYTES
"""Bytes of one message in parts, unless brokers are configured with a larger `max_payload` (`Bodies.bytes_max`)."""


class Hello(msgspec.Struct, frozen=True, tag=1, array_like=True):
    """First frame of the side that opened the connection."""

    version: BoundedNumber
    name: str
    role: str
    incarnation: Annotated[BoundedNumber, LIFE]
    peer: str
    """Whom the opener believes to reach: a wrong address is noticed here."""
    peer_incarnation: BoundedNumber | None
    """The life of the peer that the session was begun with; None while no `SessionWelcome` for it has come. Without it,
    an opener that missed the `SessionWelcome` of a restarted peer could not be told from one that has seen it."""
    epoch: EchoedNumber
    """The session to resume or to begin; the opener numbers them within its incarnation."""
    received: Annotated[BoundedNumber, SENT]
    """How many messages of the peer in this session have been taken."""
    grant: Annotated[EchoedNumber, GRANTED_AGAIN]
    """Bytes that the peer may send in all, counted from the beginning of the session."""
    part: Annotated[BoundedNumber, SENT] = 0
    """How many bytes of the message after those have come."""
    express: Annotated[BoundedNumber, SENT] = 0
    """How many messages of the express lane have been taken."""


class SessionWelcome(msgspec.Struct, frozen=True, tag=2, array_like=True):
    """Answer to `Hello`: the session stands. One that cannot be resumed is answered by `Goodbye`."""

    version: BoundedNumber
    name: str
    role: str
    incarnation: Annotated[BoundedNumber, LIFE]
    epoch: EchoedNumber
    received: Annotated[BoundedNumber, SENT]
    grant: Annotated[EchoedNumber, GRANTED_AGAIN]
    part: Annotated[BoundedNumber, SENT] = 0
    express: Annotated[BoundedNumber, SENT] = 0


class Data(msgspec.Struct, Generic[M], frozen=True, tag=3, array_like=True, gc=False):
    """Messages `first ..`, and how far the other direction has come. No messages: an acknowledgement or a heartbeat."""

    first: Annotated[BoundedNumber, NEXT]
    """Sequence number of the first message in this session, from 1."""
    received: Annotated[BoundedNumber, SENT]
    grant: Annotated[EchoedNumber, GRANTED]
    messages: tuple[M, ...]
    hurry: bool = False
    """The sender waits for the acknowledgement: it is due at once."""


class Part(msgspec.Struct, frozen=True, tag=5, array_like=True, gc=False):
    """A piece of one message that is too large to travel in one go. The next message follows the last piece."""

    number: Annotated[BoundedNumber, NEXT]
    """Of the message, in the same count as `Data.first`."""
    at: Annotated[BoundedNumber, NEXT]
    """Where the piece begins, in bytes."""
    size: Annotated[BoundedNumber, WHOLE]
    """Of the whole."""
    hurry: bool
    chunk: bytes


class Parted(msgspec.Struct, frozen=True, tag=6, array_like=True, gc=False):
    """An acknowledgement in the middle of a message: so many have been received, and so much of the next one."""

    hurry: ClassVar[bool] = False

    received: Annotated[BoundedNumber, SENT]
    grant: Annotated[EchoedNumber, GRANTED]
    part: Annotated[BoundedNumber, SENT]


class Express(msgspec.Struct, Generic[M], frozen=True, tag=7, array_like=True, gc=False):
    """Messages that overtake those of `Data`: the second lane of the session, with numbers of its own."""

    hurry: ClassVar[bool] = False

    first: Annotated[BoundedNumber, NEXT]
    received: Annotated[BoundedNumber, SENT]
    messages: tuple[M, ...]


class Goodbye(msgspec.Struct, frozen=True, tag=4, array_like=True):
    """The session is over, for this reason; last frame on the connection."""

    reason: str
    incarnation: BoundedNumber = 0
    """Of the sender, in answer to a `Hello` that was meant for it: it tells the opener whether the life it had the
    session with has ended the session, or has ended itself. 0 elsewhere."""
    code: EndCode = EndCode.NONE


FRAMES: Final[tuple[type[msgspec.Struct], ...]] = (Hello, SessionWelcome, Data, Part, Parted, Express, Goodbye)
"""All of them."""


class AcknowledgeDue(Timer, frozen=True):
    """When to acknowledge what no data has acknowledged meanwhile. A peer that waits for room does not depend on it."""

    @property
    def background(self) -> bool:
        return True


class FreeAcknowledgeDue(AcknowledgeDue, frozen=True):
    """When to acknowledge what cost nothing, and has found nothing to ride on."""


class TurnOver(Timer, frozen=True):
    """When to ship what waits for whatever else comes at the same moment."""


class WatchDue(Timer, frozen=True):
    """When to look at every connection: is a heartbeat due, has the peer fallen silent."""

    @property
    def background(self) -> bool:
        return True


class ReconnectDue(Timer, frozen=True):
    """When to try again to connect to a peer. Not housekeeping: messages may be waiting on either side."""

    peer: str


class LingerOver(Timer, frozen=True):
    """When to give up a session whose peer has opened it, lost its connection and not come back."""

    peer: str


class Body(Protocol):
    """Anything that has a length and can be sliced."""

    def __len__(self) -> int: ...

    def __getitem__(self, key: slice, /) -> Any: ...


class Bodies(Protocol):
    """How messages become bodies, and slices of bodies messages."""

    @property
    def bytes_max(self) -> int:
        """Bytes that one body may have, sent or received: `BODY_BYTES_MAX` or more."""
        ...

    def pack(self, number: int, message: Any) -> Body:
        """Equal messages have equal bodies: a resumed transfer goes on in the middle of one. Raises UsageError for what
        has no form, or takes more than `bytes_max`."""
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

    def __init__(self, bytes_max: int = BODY_BYTES_MAX) -> None:
        self.bytes_max = bytes_max

    def pack(self, number: int, message: Any) -> Body:
        size = max(1, message.cost + message.bulk)
        if size > self.bytes_max:
            raise UsageError(f"{type(message).__name__} takes {size} bytes; parts make {self.bytes_max} at most")
        return Slice(message, 0, size)

    def unpack(self, number: int, slices: list[Any]) -> Any:
        last = slices[-1]
        if not isinstance(last, Slice):
            raise PeerError("a part that belongs to no message")
        return last.message


class Assembly:
    """The message that is coming in parts, if any. Keeps at most one body: `Bodies.bytes_max`."""

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
        if not 0 < len(chunk) <= end <= size <= self._bodies.bytes_max or (end < size and len(chunk) < PART_BYTES_MIN):
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
