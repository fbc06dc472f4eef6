"""Many publishers in one process: each publishes a stream of its own, and whoever hears them tells them apart.

A payload begins with its number in its stream, and the number of its publisher follows. The closing message of each
stream carries its count.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from resprout.cli.load.stream import CLOSING, PROBE, describe, number_of

NUMBER_BYTES: Final = 8
PUBLISHER_BYTES: Final = 4


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
