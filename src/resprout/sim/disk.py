"""The disk of a virtual node: the journal that real brokers have, on virtual files.

A record is *written* first and *durable* one disk latency later, in the order of writing. A crash takes what was not
yet durable; of what was being written a part may be left, which the journal cuts off.
"""

from collections import deque
from random import Random
from typing import Final

from resprout.core.contract import Forget, Persist
from resprout.journal.errors import DiskError
from resprout.journal.journal import Records, open_journal
from resprout.journal.options import JournalOptions
from resprout.sim.files import VirtualFiles

_OPTIONS: Final = JournalOptions(segment_bytes=32 << 10)
"""Small, so that runs come past the end of a segment."""


class Disk:
    __slots__ = ("_files", "_kept", "_rng", "_written", "is_full", "is_low")

    def __init__(self) -> None:
        self.is_low = False
        """There is so little room that clients are held."""
        self.is_full = False
        """Nothing becomes durable until there is room."""
        self._files = VirtualFiles()
        self._kept: Records | None = None
        """None: nobody has looked since the last crash, or ever."""
        self._rng = Random(1)
        """What a crash leaves of a write, and the seeds of segments."""
        self._written: deque[bytes] = deque()

    @property
    def records(self) -> tuple[bytes, ...]:
        """What a recovery reads: the durable records, oldest first."""
        return tuple(self._journal().read()) if self._kept is not None or self._files.names() else ()

    def write(self, record: bytes) -> None:
        self._written.append(record)

    def settle(self, now_us: int = 0) -> None:
        """The oldest written record is durable now."""
        self._journal().apply([Persist(self._written.popleft())], now_us)

    def forget_before_latest(self, count: int, now_us: int = 0) -> None:
        """Keep only the latest `count` durable records."""
        if count < len(self._journal()):
            self._journal().apply([Forget(count)], now_us)

    def crash(self) -> None:
        if self._written:
            self._tear(self._written[0])
            self._written.clear()
        if self._kept is not None:
            self._files.crash(self._rng)
            self._kept = None

    def wipe(self) -> None:
        """An empty disk takes its place."""
        self._written.clear()
        self._files = VirtualFiles()
        self._kept = None

    def _journal(self) -> Records:
        if self._kept is None:
            self._kept = Records(open_journal(self._files, _OPTIONS, lambda: self._rng.getrandbits(32), 0))
        return self._kept

    def _tear(self, record: bytes) -> None:
        """It was being written when the node went down."""
        kept = self._journal()
        self._files.room = self._rng.randint(0, len(record))
        try:
            kept.apply([Persist(record)], 0)
        except DiskError:
            pass
        finally:
            self._files.room = None
