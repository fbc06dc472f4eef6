"""Records that survive the process: one file to which is only ever added.

    file   = magic, entry ...
    entry  = length of content (4 bytes), CRC-32 of kind and content (4 bytes), kind (1 byte), content
    kind R = a record;  kind F = forget all records but the latest so many (content: 8 bytes)

`apply` returns when everything it was given is on the disk (`fdatasync`). A crash in the middle of it leaves a tail
that is no whole entry: the next `open_records` cuts it off and says so. When more than half of the file is dead, what
lives is written to a new file that takes the place of the old one. After an error the file is in nobody knows what
state, and no further use of it is allowed.

Not done here: repairing what the disk has spoiled. An entry that was whole once and is not any more ends the file, too.
"""

import os
import struct
import zlib
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from resprout.core.contract import Forget, Persist
from resprout.core.errors import ResproutError, UsageError

MAGIC: Final = b"resprout records 1\n"
COMPACT_BYTES_MIN: Final = 1 << 16
"""Fewer dead bytes than this are not worth a new file, whatever their share."""

COPY_BYTES: Final = 1 << 20

_HEADER: Final = struct.Struct(">IIB")
_COUNT: Final = struct.Struct(">Q")
_RECORD: Final = ord("R")
_FORGET: Final = ord("F")
_CREATE: Final = os.O_CREAT | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC


class DiskError(ResproutError):
    """What had to be kept could not be written."""


class RecordFile:
    """Made by `open_records`. Used by one thread at a time."""

    def __init__(self, path: Path, descriptor: int, size: int, alive: deque[int]) -> None:
        self.path = path
        self._descriptor = descriptor
        self._size = size
        self._alive = alive
        """Where the entries of records begin that are not forgotten."""
        self._broken = False

    @property
    def size_bytes(self) -> int:
        return self._size

    def read(self) -> list[bytes]:
        """The records that are not forgotten, oldest first. DiskError when they cannot be read."""
        try:
            content = self.path.read_bytes()
        except OSError as error:
            raise DiskError(f"{self.path}: {error.strerror or error}") from None
        return [_content_at(content, place) for place in self._alive]

    def apply(self, changes: Sequence[Persist | Forget]) -> None:
        """In this order; durable when it returns. DiskError when they cannot be kept."""
        if self._broken:
            raise DiskError(f"{self.path}: no more is written after an error")
        self._broken = True
        try:
            _write_all(self._descriptor, b"".join(map(self._note, changes)))
            os.fdatasync(self._descriptor)
            dead = self._first_alive - len(MAGIC)
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

    def _note(self, change: Persist | Forget) -> bytes:
        if isinstance(change, Persist):
            entry = _entry(_RECORD, change.record)
            self._alive.append(self._size)
        else:
            entry = _entry(_FORGET, _COUNT.pack(max(0, change.count)))
            _forget(self._alive, change.count)
        self._size += len(entry)
        return entry

    def _compact(self) -> None:
        """What is said in the rest of the file about forgetting was said of older records, and changes nothing."""
        moved = self._first_alive - len(MAGIC)
        draft = self.path.with_name(f"{self.path.name}.new")
        descriptor = os.open(draft, _CREATE | os.O_TRUNC, 0o600)
        try:
            _write_all(descriptor, MAGIC)
            at = self._first_alive
            while piece := os.pread(self._descriptor, COPY_BYTES, at):
                _write_all(descriptor, piece)
                at += len(piece)
            os.fsync(descriptor)
            draft.replace(self.path)
            sync_folder(self.path.parent)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(self._descriptor)
        self._descriptor = descriptor
        self._size -= moved
        self._alive = deque(place - moved for place in self._alive)


def open_records(path: Path) -> tuple[RecordFile, str]:
    """The file, made when there is none, and a line of warning when a part of it is lost (otherwise nothing).

    UsageError when it is some other file; DiskError when it cannot be read or written.
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


def sync_folder(folder: Path) -> None:
    """Makes new names in it durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _recover(path: Path, descriptor: int) -> tuple[RecordFile, str]:
    content = path.read_bytes()
    if not MAGIC.startswith(content[: len(MAGIC)]):
        raise UsageError(f"{path} is no file of records")
    if len(content) < len(MAGIC):  # new, or its maker did not come far
        os.ftruncate(descriptor, 0)
        _write_all(descriptor, MAGIC)
        os.fsync(descriptor)
        sync_folder(path.parent)
        return RecordFile(path, descriptor, len(MAGIC), deque()), ""
    alive, end = _survey(content)
    lost = len(content) - end
    if lost:
        os.ftruncate(descriptor, end)
        os.fsync(descriptor)
    warning = f"{path}: its last {lost} bytes are no whole record and were cut off" if lost else ""
    return RecordFile(path, descriptor, end, alive), warning


def _survey(content: bytes) -> tuple[deque[int], int]:
    """Where the records begin that are alive, and where the last whole entry ends."""
    alive: deque[int] = deque()
    at = len(MAGIC)
    while at + _HEADER.size <= len(content):
        length, checksum, kind = _HEADER.unpack_from(content, at)
        body = _content_at(content, at)
        if len(body) < length or _checksum(kind, body) != checksum:
            break
        if kind == _RECORD:
            alive.append(at)
        elif kind == _FORGET and length == _COUNT.size:
            _forget(alive, _COUNT.unpack(body)[0])
        else:
            break
        at += _HEADER.size + length
    return alive, at


def _content_at(content: bytes, place: int) -> bytes:
    begin = place + _HEADER.size
    return content[begin : begin + _HEADER.unpack_from(content, place)[0]]


def _forget(alive: deque[int], count: int) -> None:
    """Keep the latest so many."""
    while len(alive) > max(0, count):
        alive.popleft()


def _entry(kind: int, content: bytes) -> bytes:
    return _HEADER.pack(len(content), _checksum(kind, content), kind) + content


def _checksum(kind: int, content: bytes) -> int:
    return zlib.crc32(content, kind)


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
