"""What can be wrong with a journal."""

import errno
from typing import Final

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
