"""Deliveries that came before their time, or too late.

A plain subscriber keeps delayed messages itself until their time has come: no broker has to, so none can lose them. It
takes no message after its expiry. What it may keep is bounded; it drops those that are due last beyond that, and is
told. So messages that are due in a hundred years keep no others out.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from operator import itemgetter
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


MESSAGE_BYTES: Final = 300
"""Approximate memory of a message besides its payload."""
ATTRIBUTE_BYTES: Final = 100
"""Approximate memory of an attribute besides its name and text."""


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


def spans_of(messages: Iterable[Message]) -> tuple[Span, ...]:
    """Return these messages; of neighbours in a stream, one span."""
    spans: list[Span] = []
    for seq, message in sorted([(each.seq, each) for each in messages], key=itemgetter(0)):
        span = Span(message.publisher, message.stream, message.epoch, seq, seq)
        if spans and spans[-1].origin == span.origin and spans[-1].last == seq - 1:
            span = Span(*span.origin, spans.pop().first, seq)
        spans.append(span)
    return tuple(spans)


class DelayedMessages:
    """Messages that wait for their time in a client."""

    def __init__(self) -> None:
        self.bytes = 0
        self._waiting: list[tuple[int, int, int, Message]] = []
        """Time, serial number and size of each message, in the order of their times."""
        self._serial = 0

    @property
    def next_us(self) -> int:
        """When the first one is due, in microseconds since 1970; 0: none waits."""
        return self._waiting[0][0] if self._waiting else 0

    def add(self, message: Message, due_us: int) -> list[Message]:
        """Keep a message. Return those for which there is no room: the last ones."""
        size = _size_of(message)
        self.bytes += size
        self._serial += 1
        insort(self._waiting, (due_us, self._serial, size, message))
        dropped: list[Message] = []
        while self.bytes > DELAYED_BYTES:
            _, _, size, last = self._waiting.pop()
            self.bytes -= size
            dropped.append(last)
        return dropped

    def take_due(self, wall_us: int) -> list[Message]:
        """Return the messages whose time has come, in the order of their times."""
        end = bisect_left(self._waiting, (wall_us + 1,))
        due, self._waiting = self._waiting[:end], self._waiting[end:]
        self.bytes -= sum([size for _, _, size, _ in due])
        return [message for *_, message in due]


def _size_of(message: Message) -> int:
    """Return about the memory that a message takes. Its bundle may hold others that are far smaller."""
    values = message.attributes.values()
    texts = sum(map(len, message.attributes)) + sum([len(value) for value in values if isinstance(value, str)])
    return MESSAGE_BYTES + len(message.payload) + ATTRIBUTE_BYTES * len(values) + texts
