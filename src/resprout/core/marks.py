"""How far origins have come: one watermark each, as brokers and clients tell it to each other."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from resprout.core.bounds import BoundedNumber
from resprout.core.bundle import Bundle, Origin

Reached = int
"""The last number of one origin."""

NOTHING: Final[Reached] = 0


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
