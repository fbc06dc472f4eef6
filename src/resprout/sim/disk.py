"""A disk that keeps what was made durable and nothing else.

A record is *written* first and *durable* one disk latency later, in the order of writing. A crash takes what was not
yet durable. There is no torn record and no bit rot here: records are whole or absent.
"""

from collections import deque


class Disk:
    __slots__ = ("_records", "_written")

    def __init__(self) -> None:
        self._records: list[bytes] = []
        self._written: deque[bytes] = deque()

    @property
    def records(self) -> tuple[bytes, ...]:
        """What a recovery reads: the durable records, oldest first."""
        return tuple(self._records)

    def write(self, record: bytes) -> None:
        self._written.append(record)

    def settle(self) -> None:
        """The oldest written record is durable now."""
        self._records.append(self._written.popleft())

    def forget_before_latest(self, count: int) -> None:
        """Keep only the latest `count` durable records."""
        if count < len(self._records):
            del self._records[: len(self._records) - max(count, 0)]

    def crash(self) -> None:
        self._written.clear()

    def wipe(self) -> None:
        """An empty disk takes its place."""
        self._written.clear()
        self._records.clear()
