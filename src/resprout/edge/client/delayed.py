"""Deliveries that came before their time, or too late.

A plain subscriber keeps delayed messages itself until their time has come: no broker has to, so none can lose them. It
takes no message after its expiry. What it may keep is bounded; it drops delayed messages beyond that, and is told.
"""

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Final

from resprout.core.bundle import Bundle
from resprout.core.guarantee import Guarantee
from resprout.core.limits import Attributes
from resprout.core.message import Message
from resprout.core.seen import as_ranges
from resprout.core.timing import due_of, has_expired, is_timed
from resprout.edge.durable_messages import Span
from resprout.values.rows import is_retained

DELAYED_BYTES: Final = 16 << 20
"""Delayed messages that a client keeps."""
TOO_MUCH: Final = f"more than {DELAYED_BYTES >> 20} MiB of delayed messages wait in this client"


class SortedOut:
    """The places of messages in a bundle, by what becomes of them."""

    __slots__ = ("due", "expired", "now")

    def __init__(self) -> None:
        self.now: list[int] = []
        self.due: dict[int, int] = {}
        """Of delayed messages: when they are due, in microseconds since 1970."""
        self.expired: list[int] = []


def sort_out(bundle: Bundle, rows: Sequence[Attributes], wall_us: int | None) -> SortedOut | None:
    """Return what becomes of the messages of a bundle that came at this time; None: all of them are delivered."""
    if wall_us is None or not is_timed(bundle.attributes) or is_retained(bundle):
        return None
    found, is_eventual = SortedOut(), bundle.guarantee is Guarantee.EVENTUAL
    for at, row in enumerate(rows):
        if has_expired(row, wall_us):
            found.expired.append(at)
        elif is_eventual and (due_us := due_of(row)) > wall_us:
            found.due[at] = due_us
        else:
            found.now.append(at)
    return found if found.expired or found.due else None


def spans_at(bundle: Bundle, seqs: Sequence[int], places: Sequence[int]) -> tuple[Span, ...]:
    """Return the messages at these places. `seqs`: the numbers of all messages of the bundle."""
    return tuple([Span(*bundle.origin, first, last) for first, last in as_ranges([seqs[at] for at in places])])


class DelayedMessages:
    """Messages that wait for their time in a client."""

    def __init__(self) -> None:
        self.bytes = 0
        self._heap: list[tuple[int, int, int, Message]] = []
        self._serial = 0

    @property
    def next_us(self) -> int:
        """When the first one is due, in microseconds since 1970; 0: none waits."""
        return self._heap[0][0] if self._heap else 0

    def add(self, message: Message, due_us: int, size: int) -> bool:
        """Keep a message. Return False if there is no room."""
        if self.bytes + size > DELAYED_BYTES:
            return False
        self.bytes += size
        self._serial += 1
        heappush(self._heap, (due_us, self._serial, size, message))
        return True

    def take_due(self, wall_us: int) -> list[Message]:
        """Return the messages whose time has come, in the order of their times."""
        found: list[Message] = []
        while self._heap and self._heap[0][0] <= wall_us:
            _, _, size, message = heappop(self._heap)
            self.bytes -= size
            found.append(message)
        return found
