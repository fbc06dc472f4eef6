"""What a journal asks of a disk: a folder of files to which is only ever added.

Drivers have one each: `net.disk` real files, `sim.disk` virtual ones, which lose at a crash what was not synced. All
of it may raise OSError. What was appended is durable after `sync`, names that came, went or changed after
`sync_names`.

The errors say what can be wrong with a journal.
"""

import errno
from typing import Final, Protocol

from resprout.core.errors import ResproutError, UsageError

FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The disk, a quota, or the largest file that a process may write: what an operator can give more of."""


class DiskError(ResproutError):
    """What had to be kept could not be written, or not be read.

    `number` is the errno of the system, 0 if there is none. `is_written`: the records are in the file and have their
    positions, but could not be synced: call `Journal.sync` until it succeeds, and do not append them again.
    """

    def __init__(self, reason: str, number: int = 0, is_written: bool = False) -> None:
        super().__init__(reason)
        self.number = number
        self.is_written = is_written

    @property
    def is_full(self) -> bool:
        """There is no room. Trying again helps as soon as there is."""
        return self.number in FULL

    @property
    def is_passing(self) -> bool:
        """Trying again may help."""
        return self.is_full or self.number == errno.EIO


class DamagedError(UsageError):
    """A journal is not what was written, and not because a write was torn."""


class NotKeptError(UsageError):
    """The position lies before everything that the journal keeps, or behind its end."""


class Files(Protocol):
    def names(self) -> list[str]:
        """In any order."""
        ...

    def size(self, name: str) -> int: ...

    def read(self, name: str, at: int, count: int) -> bytes:
        """Fewer bytes only where the file ends."""
        ...

    def create(self, name: str) -> None:
        """Empty, whatever was there before."""
        ...

    def append(self, name: str, content: bytes) -> None: ...

    def truncate(self, name: str, size: int) -> None:
        """Durable with the next `sync`."""
        ...

    def sync(self, name: str) -> None: ...

    def sync_names(self) -> None: ...

    def rename(self, name: str, to: str) -> None:
        """Replaces what is there under the other name."""
        ...

    def link(self, name: str, to: str) -> None:
        """A second name for a file. FileExistsError when there is a file of that name."""
        ...

    def remove(self, name: str) -> None:
        """Nothing where there is none."""
        ...

    def place_of(self, name: str) -> str:
        """What people call it."""
        ...
