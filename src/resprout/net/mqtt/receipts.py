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
        """Stream and number of retained publications."""

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
        """Stream and number of the retained publications that are not stored yet."""
        return frozenset(self._retained)

    def has_any(self, publications: frozenset[tuple[str, int]]) -> bool:
        """Return whether one of these retained publications is not stored yet."""
        return not self._retained.isdisjoint(publications)

    def take_safe(self, stream: str, last: int) -> list[Awaited]:
        """Remove and return the publications up to this number. `settle_retained` follows."""
        found: list[Awaited] = []
        waiting = self._waiting.get(stream)
        while waiting and waiting[0].seq <= last:
            found.append(waiting.popleft())
        return found

    def settle_retained(self, stream: str, last: int) -> None:
        """Record that the retained publications up to this number are stored."""
        self._retained = {one for one in self._retained if one[0] != stream or one[1] > last}

    def take_refused(self, stream: str, first: int, last: int) -> list[Awaited]:
        """Remove and return the publications between these numbers."""
        waiting = self._of(stream)
        found = [one for one in waiting if first <= one.seq <= last]
        self._waiting[stream] = deque([one for one in waiting if not first <= one.seq <= last])
        self._retained.difference_update([(stream, one.seq) for one in found])
        return found
