"""Records that survive the process: one file to which is only ever added.

`apply` returns when everything it was given is on the disk (`fdatasync`). A crash in the middle of it leaves a tail
that is not whole: the next `open_records` cuts it off and says so. What was whole once and is not any more is never cut
off: it is refused, with the place (`record_damage`). When more than half of the file is dead, what lives is written to
a new file that takes the place of the old one. After an error the file is in nobody knows what state, and no further
use of it is allowed.
"""

import os
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from resprout.core.contract import Forget, Persist
from resprout.net.disk import DiskError, sync_folder, write_all
from resprout.net.record_damage import survey_or_refuse
from resprout.net.record_format import HEAD_BYTES, MAGIC, content_at, entry_of, forget, mark, new_head

COMPACT_BYTES_MIN: Final = 1 << 16
"""Fewer dead bytes than this are not worth a new file, whatever their share."""

COPY_BYTES: Final = 1 << 20

_CREATE: Final = os.O_CREAT | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC


class RecordFile:
    """Made by `open_records`. Used by one thread at a time."""

    def __init__(self, path: Path, descriptor: int, seed: int, size: int, alive: deque[int]) -> None:
        self.path = path
        self._descriptor = descriptor
        self._seed = seed
        self._size = size
        self._alive = alive
        """Where the entries of records begin that are not forgotten."""
        self._broken = False

    def read(self) -> list[bytes]:
        """The records that are not forgotten, oldest first. DiskError when they cannot be read."""
        try:
            content = self.path.read_bytes()
        except OSError as error:
            raise DiskError(f"{self.path}: {error.strerror or error}") from None
        return [content_at(content, place) for place in self._alive]

    def apply(self, changes: Sequence[Persist | Forget]) -> None:
        """In this order; durable when it returns. DiskError when they cannot be kept."""
        if self._broken:
            raise DiskError(f"{self.path}: no more is written after an error")
        self._broken = True
        try:
            write_all(self._descriptor, b"".join(self._note(change, not n) for n, change in enumerate(changes)))
            os.fdatasync(self._descriptor)
            dead = self._first_alive - HEAD_BYTES
            if dead >= COMPACT_BYTES_MIN and dead > self._size // 2:
                self._compact()
        except OSError as error:
            raise DiskError(f"{self.path}: {error.strerror or error}") from None
        self._broken = False

    def close(self) -> None:
        os.close(self._descriptor)

    @property
    def _first_alive(self) -> int:
        return self._alive[0] if self._alive else self._size

    def _note(self, change: Persist | Forget, is_first: bool) -> bytes:
        entry = entry_of(change, self._seed, is_first)
        if isinstance(change, Persist):
            self._alive.append(self._size)
        else:
            forget(self._alive, change.count)
        self._size += len(entry)
        return entry

    def _compact(self) -> None:
        """What is said in the rest of the file about forgetting was said of older records, and changes nothing."""
        moved = self._first_alive - HEAD_BYTES
        draft = self.path.with_name(f"{self.path.name}.new")
        descriptor = os.open(draft, _CREATE | os.O_TRUNC, 0o600)
        try:
            write_all(descriptor, os.pread(self._descriptor, HEAD_BYTES, 0))
            at = self._first_alive
            while piece := os.pread(self._descriptor, COPY_BYTES, at):
                write_all(descriptor, piece)
                at += len(piece)
            seal = mark(len(self._alive), self._seed)
            write_all(descriptor, seal)
            os.fsync(descriptor)
            draft.replace(self.path)
            sync_folder(self.path.parent)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(self._descriptor)
        self._descriptor = descriptor
        self._size += len(seal) - moved
        self._alive = deque(place - moved for place in self._alive)


def open_records(path: Path) -> tuple[RecordFile, str]:
    """The file, made when there is none, and a line of warning when a torn write was cut off (otherwise nothing).

    UsageError when it is some other file, or damaged; DiskError when it cannot be read or written.
    """
    try:
        descriptor = os.open(path, _CREATE, 0o600)
        try:
            return _recover(path, descriptor)
        except BaseException:
            os.close(descriptor)
            raise
    except OSError as error:
        raise DiskError(f"{path}: {error.strerror or error}") from None


def _recover(path: Path, descriptor: int) -> tuple[RecordFile, str]:
    content = path.read_bytes()
    if len(content) < HEAD_BYTES and MAGIC.startswith(content[: len(MAGIC)]):  # new, or its maker did not come far
        head, seed = new_head()
        os.ftruncate(descriptor, 0)
        write_all(descriptor, head)
        os.fsync(descriptor)
        sync_folder(path.parent)
        return RecordFile(path, descriptor, seed, HEAD_BYTES, deque()), ""
    found, seed = survey_or_refuse(path, content)
    torn = len(content) - found.end
    if torn:
        os.ftruncate(descriptor, found.end)
        os.fsync(descriptor)
    warning = (
        f"{path}: a write was torn by a crash; its {torn} bytes, from {found.end} on, were cut off" if torn else ""
    )
    return RecordFile(path, descriptor, seed, found.end, found.alive), warning
