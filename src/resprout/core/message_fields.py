"""Fields that messages of several protocols share: bounded numbers, watermarks of origins, and bundles.

A number has up to two bounds:

- A *constant* one (`msgspec.Meta`). The decoder enforces it, and it is the same for every node. So a node that keeps to
  it never relays a number that the next node refuses: a node that sends one is itself at fault, and loses its
  connection.
- A *derived* one (`Derived`), from what the receiver knows: its clock, what it has handed out, what it was asked. The
  code that handles the message enforces it. A number that others have said before is never a reason to cut off the
  broker that relays it; it is limited or ignored instead.

Counters of honest nodes stop at `NUMBER_MAX` (`next_number`), so that they stay within the constant bound whatever a
peer has claimed. `tools/message_bounds.py` writes all of this into docs/messages.md.

`Mark` is one watermark: how far an origin has come, as brokers and clients tell it to each other. `BundleMessage` and
`FreeBundleMessage` are the bases of messages that carry a bundle; they say how much of a window and of a frame it
takes.
"""

import enum
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Protocol

import msgspec

from resprout.core import limits
from resprout.core.bundle import Bundle, Origin
from resprout.core.contract import ProtocolMessage

NUMBER_MAX: Final = 1 << 53
"""Of incarnations, versions and sequence numbers: far beyond any honest one, and far from the end of 64 bits."""
STAMP_MAX: Final = 1 << 62
"""Of Lamport stamps. Clocks are limited to far less (`order.clock`)."""
EPOCH_MAX: Final = (1 << 22) - 1
PLACE_MAX: Final = (1 << 40) - 1
"""Of the place of a total within the epoch of one root; both together fit into 63 bits (`TotalSequence`)."""
HOPS_MAX: Final = 1 << 16
TIME_MAX: Final = 1 << 60
"""Microseconds: 36,000 years."""
ECHOED_MAX: Final = 1 << 62

BoundedNumber = Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MAX)]
"""A count, a version, an incarnation or a sequence number."""
GrowingNumber = Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MAX >> 1)]
"""A number from which the receiver goes on counting: others can follow, whatever a liar says."""
Stamp = Annotated[int, msgspec.Meta(ge=0, le=STAMP_MAX)]
MaybeStamp = Annotated[int, msgspec.Meta(ge=-1, le=STAMP_MAX)]
"""-1: there is none."""
Epoch = Annotated[int, msgspec.Meta(ge=0, le=EPOCH_MAX)]
PlaceNumber = Annotated[int, msgspec.Meta(ge=0, le=PLACE_MAX)]
TotalSequence = Annotated[int, msgspec.Meta(ge=-1, le=EPOCH_MAX << 40 | PLACE_MAX)]
"""Epoch and place of a total as one number; -1 for what has none."""
Hops = Annotated[int, msgspec.Meta(ge=0, le=HOPS_MAX)]
EchoedNumber = Annotated[int, msgspec.Meta(ge=0, le=ECHOED_MAX)]
"""A number that only comes back to the node that chose it."""
PositionOffset = Annotated[int, msgspec.Meta(ge=-2, le=NUMBER_MAX)]
"""Position in a log or journal, or a negative constant that stands for one."""
PartitionCount = Annotated[int, msgspec.Meta(ge=1, le=limits.PARTITIONS)]
"""Number of partitions of a log."""
SeveralPartitions = Annotated[int, msgspec.Meta(ge=0, le=limits.PARTITIONS)]
"""Number of partitions of a log that has several; otherwise 0."""
Microseconds = Annotated[int, msgspec.Meta(ge=0, le=TIME_MAX)]

Offsets = tuple[Annotated[int, msgspec.Meta(ge=0, le=limits.BUNDLE_MESSAGES - 1)], ...]
"""Places of messages in a bundle."""
Side = Annotated[int, msgspec.Meta(ge=-1, le=1 << 12)]
"""A member of a repair by its number; -1: a dead broker's clients."""

Reached = int
"""The last number of one origin."""

NOTHING: Final[Reached] = 0


class Otherwise(enum.Enum):
    """The consequence of a number beyond its bound."""

    CUT_OFF = "the sender is cut off"
    LIMITED = "the bound counts in its place"
    REPLACED = "the receiver puts its own in its place"
    IGNORED = "it has no effect"
    REFUSED = "the request is refused with a reason"


class Derived(msgspec.Struct, frozen=True):
    """A bound that the receiver derives. Put it beside the type of a field; it holds for every number inside the field,
    or for the one that `number` names."""

    bound: str
    otherwise: Otherwise
    number: str = ""


CLIENT_CLOCK: Final = "3 leads (2^40 each) above the wall clock in microseconds"
BROKER_CLOCK: Final = "2 leads (2^40 each) above the wall clock in microseconds"
ClientStamp = Annotated[Stamp, Derived(CLIENT_CLOCK, Otherwise.CUT_OFF)]
BrokerStamp = Annotated[Stamp, Derived(BROKER_CLOCK, Otherwise.REPLACED)]
MaybeBrokerStamp = Annotated[MaybeStamp, Derived(BROKER_CLOCK, Otherwise.REPLACED)]
CLIENT_STAMPED: Final = Derived(CLIENT_CLOCK, Otherwise.CUT_OFF, "stamp")
BROKER_STAMPED: Final = Derived(BROKER_CLOCK, Otherwise.REPLACED, "stamp")
"""Beside a bundle."""


def next_number(number: int) -> int:
    """Count on, and stop at `NUMBER_MAX`."""
    return min(number + 1, NUMBER_MAX)


def derived_of(hint: Any) -> tuple[Derived, ...]:
    """What is declared beside a type."""
    return tuple([item for item in getattr(hint, "__metadata__", ()) if isinstance(item, Derived)])


class Mark(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Everything of an origin up to this publication."""

    publisher: str
    stream: str
    incarnation: BoundedNumber
    seq: BoundedNumber

    @property
    def origin(self) -> Origin:
        return (self.publisher, self.stream, self.incarnation)


Marks = tuple[Mark, ...]

MARK_BYTES: Final = 96
"""At most what a mark takes in a frame: a name of 64 bytes, a stream, two numbers of 9 bytes and three headers."""

MARKS_MAX: Final = 20_000
"""In one message, so that it fits a frame whatever the names are; more of them come in parts."""


def in_parts(marks: Marks) -> list[tuple[Marks, bool]]:
    """What fits a message each, and whether more follows. There is always at least one part."""
    starts = range(0, len(marks), MARKS_MAX) or range(1)
    return [(marks[start : start + MARKS_MAX], start + MARKS_MAX < len(marks)) for start in starts]


def to_marks(reached: Mapping[Origin, Reached]) -> Marks:
    return tuple(Mark(*origin, at) for origin, at in reached.items())


def from_marks(marks: Iterable[Mark]) -> dict[Origin, Reached]:
    return raise_to({}, marks)


def raise_to(reached: dict[Origin, Reached], marks: Iterable[Mark]) -> dict[Origin, Reached]:
    """The further of both, in place."""
    for mark in marks:
        origin = mark.origin
        if mark.seq > reached.get(origin, NOTHING):
            reached[origin] = mark.seq
    return reached


def is_beyond(bundle: Bundle, reached: Mapping[Origin, Reached]) -> bool:
    """Whether the bundle lies after what was reached of its origin. Bundles are atomic, so one that was begun was
    reached, though a content filter may have left out its end."""
    return bundle.first > reached.get(bundle.origin, NOTHING)


class _Carrying(Protocol):
    @property
    def bundle(self) -> Bundle: ...


class BundleMessage(ProtocolMessage, frozen=True):
    """Carries a bundle, in a field of that name, at the bundle's cost; its keys come on top in the frame."""

    @property
    def cost(self: _Carrying) -> int:
        return self.bundle.cost

    @property
    def bulk(self: _Carrying) -> int:
        return self.bundle.key_bytes


class FreeBundleMessage(ProtocolMessage, frozen=True):
    """Carries a bundle that must pass where others may not: free, and as large in the frame as any."""

    @property
    def bulk(self: _Carrying) -> int:
        return self.bundle.cost + self.bundle.key_bytes
