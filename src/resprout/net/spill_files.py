"""Files without a name, for what a broker spills: when the process ends, however it ends, they are gone.

They lie in the broker's data folder, or where the system keeps what is temporary.
"""

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from resprout.net.disk import write_all


class UnnamedFiles:
    """The `SpillFiles` of a store. Each stays open as long as it is there."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self.is_full: Callable[[], bool] = lambda: False
        """Whether room on the disk is so scarce that nothing more is spilled."""
        self._open: dict[str, int] = {}

    def create(self, name: str) -> None:
        with tempfile.TemporaryFile(dir=self._folder, prefix="spill-") as file:
            self._open[name] = os.dup(file.fileno())

    def append(self, name: str, content: bytes) -> None:
        if self.is_full():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_all(self._open[name], content)

    def read(self, name: str, at: int, count: int) -> bytes:
        pieces: list[bytes] = []
        while count and (piece := os.pread(self._open[name], count, at)):
            pieces.append(piece)
            at += len(piece)
            count -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def remove(self, name: str) -> None:
        os.close(self._open.pop(name))

    def close(self) -> None:
        for name in list(self._open):
            self.remove(name)
