"""How a session ships where not everything may leave at once: as far as `flight` allows, large messages in parts."""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from resprout.core.contract import Effect, Transmit
from resprout.links.frames import Data, Part
from resprout.links.session import MESSAGES_PER_FRAME

if TYPE_CHECKING:
    from resprout.links.link import LinkSession

T = TypeVar("T")


def ship_in_parts(link: "LinkSession", now_us: int, out: list[Effect], *, bounded: bool = True) -> None:
    """Transmit what may leave now; all of it unless `bounded`. If something has to wait, an acknowledgement is asked
    for, and comes at once: whoever waits never depends on a timer."""
    _Shipping(link, now_us, out, bounded).ship()


class _Shipping:
    """One time that a link ships."""

    def __init__(self, link: "LinkSession", now_us: int, out: list[Effect], bounded: bool) -> None:
        self._link = link
        self._now_us = now_us
        self._out = out
        self._bounded = bounded
        self._batch: list[Any] = []
        self._batch_bytes = 0

    def ship(self) -> None:
        link = self._link
        part_bytes = link.flight.part_bytes
        for message, begin, end in self._unshipped():
            weight = end - begin
            if self._batch and (self._batch_bytes + weight > part_bytes or len(self._batch) == MESSAGES_PER_FRAME):
                self._ship_batch()
            if weight and self._is_full(end - link.departed if message.pressing else 0):
                break
            if link.body is None and (weight <= part_bytes or not link.pack(message)):
                self._batch.append(message)
                self._batch_bytes += weight
                link.departed = end
            elif not self._ship_parts(begin, end):
                break
        if self._batch:
            self._ship_batch()
        if link.shipped < link.sent and not link.flight.marks:
            self._ask()

    def _unshipped(self) -> Iterator[tuple[Any, int, int]]:
        link = self._link
        skip = link.shipped - link.confirmed
        begin = link.weighs(skip)
        for message, end in zip(_behind(link.outbox, skip), _behind(link.weights, skip), strict=True):
            yield message, begin, end
            begin = end

    def _is_full(self, pressing_bytes: int = 0) -> bool:
        link = self._link
        return self._bounded and link.flight.is_full(link.departed - link.acknowledged, pressing_bytes)

    def _ship_batch(self) -> None:
        link = self._link
        first = link.shipped + 1
        received, granted = link.standing()
        link.shipped += len(self._batch)
        frame = Data(first, received, granted, tuple(self._batch), self._hurries())
        self._out.append(Transmit(link.connection, frame))
        self._batch = []
        self._batch_bytes = 0

    def _ship_parts(self, begin: int, end: int) -> bool:
        """False when the message has to go on later."""
        link = self._link
        number = link.shipped + 1
        body = link.body
        assert body is not None, "it was packed"
        size = len(body)
        while link.part_at < size:
            if self._is_full():
                return False
            at = link.part_at
            chunk = body[at : at + link.flight.part_bytes]
            link.part_at += len(chunk)
            link.departed = end if link.part_at == size else min(end, begin + link.part_at)
            self._out.append(Transmit(link.connection, Part(number, at, size, self._hurries(), chunk)))
        link.body = None
        link.part_at = 0
        link.shipped = number
        return True

    def _hurries(self) -> bool:
        """Whether the frame that leaves now is to be acknowledged at once. Several are while a lot is on its way, so
        that the link never runs empty; and whatever took of what all have in common, so that others may."""
        link = self._link
        flight = link.flight
        since = link.departed - flight.marked
        if since <= 0:
            return False
        if (
            self._is_full()
            or 4 * since >= flight.bytes_max
            or link.sent_bytes >= link.announced
            or (flight.taken_bytes and not flight.marks)
        ):
            flight.mark(link.departed, link.acknowledged, self._now_us)
            return True
        return False

    def _ask(self) -> None:
        """What may be on its way was more before, and nobody was asked to acknowledge it."""
        link = self._link
        link.flight.mark(link.departed, link.acknowledged, self._now_us)
        self._out.append(Transmit(link.connection, Data(link.shipped + 1, *link.standing(), (), True)))


def _behind(line: deque[T], skip: int) -> Iterable[T]:
    """What lies behind the first ones, without a walk along those where they are the most."""
    left = len(line) - skip
    if left >= skip:
        return islice(line, skip, None)
    last = list(islice(reversed(line), left))
    last.reverse()
    return last
