"""Publications of one session that wait for their receipt from the tree (`AwaitedReceipts`)."""

from collections import deque
from typing import Final, NamedTuple

QOS_0: Final = 0
"""Token of a retained publication with QoS 0, which has no acknowledgement."""


class Awaited(NamedTuple):
    seq: int
    token: int
    """Token of the machine; the negative number of a note; or `QOS_0`."""
    is_retained: bool
    is_unheard: bool
    """Whether no subscription matched the publication."""


class AwaitedReceipts:
    def __init__(self) -> None:
        self._waiting: dict[str, deque[Awaited]] = {}
        """By stream; a deque takes 760 bytes, and most clients publish nothing."""
        self._retained: set[tuple[str, int]] = set()
        """Stream and number of retained publications that are not applied yet."""
        self._safe: dict[str, int] = {}
        """By stream: the number up to which publications are safe."""

    def __bool__(self) -> bool:
        return any(self._waiting.values())

    def add(self, stream: str, seq: int, token: int, is_retained: bool = False, is_unheard: bool = False) -> None:
        """Add a publication. Numbers rise within a stream."""
        self._of(stream).append(Awaited(seq, token, is_retained, is_unheard))
        if is_retained:
            self._retained.add((stream, seq))

    def _of(self, stream: str) -> deque[Awaited]:
        if (waiting := self._waiting.get(stream)) is None:
            waiting = self._waiting[stream] = deque()
        return waiting

    @property
    def retained(self) -> frozenset[tuple[str, int]]:
        """Stream and number of the retained publications that are not applied yet."""
        return frozenset(self._retained)

    def has_any(self, publications: frozenset[tuple[str, int]]) -> bool:
        """Return whether one of these retained publications is not applied yet."""
        return not self._retained.isdisjoint(publications)

    def take_safe(self, stream: str, last: int) -> list[Awaited]:
        """Remove and return publications: those up to this number are safe. A retained one waits until it is applied,
        and those behind it in the stream wait for it."""
        self._safe[stream] = last
        return self._take(stream)

    def take_applied(self, stream: str, seq: int) -> list[Awaited]:
        """Remove and return publications: a retained one is applied to the last values of this broker."""
        self._retained.discard((stream, seq))
        return self._take(stream)

    def _take(self, stream: str) -> list[Awaited]:
        found: list[Awaited] = []
        waiting, last = self._waiting.get(stream), self._safe.get(stream, 0)
        while waiting and waiting[0].seq <= last and (stream, waiting[0].seq) not in self._retained:
            found.append(waiting.popleft())
        return found

    def take_refused(self, stream: str, first: int, last: int) -> list[Awaited]:
        """Remove and return the publications between these numbers."""
        waiting = self._of(stream)
        found = [one for one in waiting if first <= one.seq <= last]
        self._waiting[stream] = deque([one for one in waiting if not first <= one.seq <= last])
        self._retained.difference_update([(stream, one.seq) for one in found])
        return found
