"""The messages of a load, and the proof that all of them came, in order.

A payload begins with its number. Payloads are made before the clock starts, as many as fit into `RING_BYTES`, and then
used again and again; the closing message of a stream carries the count, so that a stream that lost a whole turn of the
ring is noticed as well. A paced message also carries the time at which it was published.

Many publishers in one process (`CrowdSource`) publish a stream each. The number of the publisher follows the number in
the stream, and `CrowdCheck` tells the streams apart by it.
"""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Final

SIZE_MIN: Final = 16
"""A number and a time."""

RING_BYTES: Final = 16 << 20
RING_MESSAGES_MAX: Final = 1 << 14
BLOCK: Final = 256
"""Messages between two turns of the event loop, unless another number is asked for. A stream that is limited by time
looks at the clock as often."""

CLOSING: Final = 1 << 63
"""Added to the number of the message that ends a stream."""
PROBE: Final = (1 << 64) - 1

Take = Callable[[bytes], bool]
"""Is handed every payload that comes; true when that was the last one."""

NUMBER_BYTES: Final = 8
PUBLISHER_BYTES: Final = 4


def ring_of(size: int) -> list[bytes]:
    return [_payload(number, size) for number in range(min(RING_MESSAGES_MAX, RING_BYTES // size))]


def probe(size: int) -> bytes:
    return _payload(PROBE, size)


def stamped(number: int, size: int) -> bytes:
    return (number.to_bytes(8, "big") + time.monotonic_ns().to_bytes(8, "big")).ljust(size, b".")


class StreamSource:
    """A stream to publish: `count` messages, or as many as `seconds` allow."""

    def __init__(self, size: int, count: int | None, seconds: float | None = None, per_turn: int = BLOCK) -> None:
        self.count = 0
        self._size = size
        self._per_turn = per_turn
        self._limit = count - 1 if count is not None else None
        self._seconds = seconds
        self._ring = ring_of(size)

    def blocks(self) -> Iterator[Sequence[bytes]]:
        """What is published between two turns of the loop."""
        ring, limit, per_turn = self._ring, self._limit, self._per_turn
        deadline = time.monotonic() + self._seconds if self._seconds is not None else None
        while self.count != limit and (deadline is None or time.monotonic() < deadline):
            place = self.count % len(ring)
            most = per_turn if limit is None else min(per_turn, limit - self.count)
            block = ring[place : place + most]
            self.count += len(block)
            yield block
        self.count += 1
        yield [_payload(CLOSING | self.count, self._size)]


class StreamCheck:
    """Compares what comes with what was published. The last payload is the closing one, or the first wrong one."""

    def __init__(self, size: int) -> None:
        self.count = 0
        self.failure: str | None = None
        self._walk = self._compare(ring_of(size))
        next(self._walk)
        self.take: Take = self._walk.send

    def _compare(self, ring: Sequence[bytes]) -> Generator[bool, bytes, None]:
        """A generator keeps its place for less than a method call costs, and this runs once per message."""
        payload = yield False
        while True:
            for expected in ring:
                while payload != expected:
                    payload = yield self._odd(payload, number_of(expected))
                payload = yield False
            self.count += len(ring)

    def _odd(self, payload: bytes, expected: int) -> bool:
        number = number_of(payload)
        if number == PROBE:
            return False
        self.count += expected + 1
        if number != CLOSING | self.count:
            self.failure = f"message {expected} was due (counted round a ring), {describe(number)} came"
        return True


class PacedCheck:
    """The same for a paced stream, with the time that each message took."""

    def __init__(self) -> None:
        self.count = 0
        self.failure: str | None = None
        self.latencies_us: list[int] = []

    def take(self, payload: bytes) -> bool:
        now_ns = time.monotonic_ns()
        number = number_of(payload)
        if number == PROBE:
            return False
        closing = bool(number & CLOSING)
        if number & ~CLOSING != self.count:
            self.failure = f"message {self.count} was due, {describe(number)} came"
            return True
        self.count += 1
        self.latencies_us.append((now_ns - int.from_bytes(payload[8:16], "big")) // 1_000)
        return closing


def paced_number(number: int, count: int) -> int:
    """The number that a paced message carries: the last one says so."""
    return number | CLOSING if number == count - 1 else number


def _payload(number: int, size: int) -> bytes:
    return number.to_bytes(8, "big").ljust(size, b".")


def number_of(payload: bytes) -> int:
    return int.from_bytes(payload[:8], "big")


def describe(number: int) -> str:
    return f"the end of a stream of {number & ~CLOSING}" if number & CLOSING else f"message {number}"


class CrowdSource:
    """The stream of one publisher of a crowd."""

    def __init__(self, publisher: int, size: int, count: int, per_turn: int) -> None:
        self.count = count
        self._tail = publisher.to_bytes(PUBLISHER_BYTES, "big").ljust(size - NUMBER_BYTES, b".")
        self._per_turn = per_turn

    def blocks(self) -> Iterator[Sequence[bytes]]:
        """What is published between two turns of the loop."""
        tail, last = self._tail, self.count - 1
        for at in range(0, last, self._per_turn):
            end = min(at + self._per_turn, last)
            yield [number.to_bytes(NUMBER_BYTES, "big") + tail for number in range(at, end)]
        yield [(CLOSING | self.count).to_bytes(NUMBER_BYTES, "big") + tail]


class CrowdCheck:
    """Whether each stream comes whole and in order. The last payload is the last that closes one, or a wrong one."""

    def __init__(self, streams: int) -> None:
        self.count = 0
        self.failure: str | None = None
        self._due = [0] * streams
        self._open = streams

    def take(self, payload: bytes) -> bool:
        number = number_of(payload)
        if number == PROBE:
            return False
        publisher = int.from_bytes(payload[NUMBER_BYTES : NUMBER_BYTES + PUBLISHER_BYTES], "big")
        due = self._due[publisher] if publisher < len(self._due) else -1
        if number == due:
            self._due[publisher] = due + 1
            return False
        if due < 0 or number != CLOSING | (due + 1):
            self.failure = f"publisher {publisher}: message {due} was due, {describe(number)} came"
            return True
        self._due[publisher] = -1
        self.count += due + 1
        self._open -= 1
        return self._open == 0


def shares(count: int, publishers: int) -> int:
    """Messages of each, so that all together publish about as many."""
    return max(1, count // publishers)
