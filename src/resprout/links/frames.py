"""What two link layers say to each other on a connection.

The opener says `Hello`, the other side `SessionWelcome` (or `Goodbye`), then both send `Data` until either says
`Goodbye` or the connection breaks; a large message travels as several `Part`, and signs of life as `Express`. A session
outlives its connections: `epoch` names it, and `received` tells from where to resume, down to the bytes of a message
in parts.

The timers of the links stand here as well, because structures are not compiled. Acknowledgements and the watch serve
all sessions with one timer each.
"""

from typing import Annotated, ClassVar, Final, Generic, TypeVar

import msgspec

from resprout.core.contract import EndCode, Timer
from resprout.core.message_fields import BoundedNumber, Derived, EchoedNumber, Otherwise

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
