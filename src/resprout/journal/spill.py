"""Bytes that wait on a disk for as long as this process needs them: in files to which is only added, each of which is
dropped when nothing in it is needed any more. Nothing of it is meant to survive, so nothing is ever synced.
"""

import zlib
from typing import Final, NamedTuple, Protocol

from resprout.core.errors import StoreError

FILE_BYTES_MAX: Final = 16 << 20
FILE_BYTES_MIN: Final = 1 << 10
FILES_AIMED_AT: Final = 32
"""So many files share the room."""


class SpillFiles(Protocol):
    """What is asked of a disk. All of it may raise OSError."""

    def create(self, name: str) -> None: ...
    def append(self, name: str, content: bytes) -> None: ...
    def read(self, name: str, at: int, count: int) -> bytes: ...
    def remove(self, name: str) -> None: ...


class SpillPlace(NamedTuple):
    file: int
    at: int
    size: int
    check: int


class _SpillFile:
    __slots__ = ("name", "needed", "needed_bytes", "size")

    def __init__(self, name: str) -> None:
        self.name = name
        self.size = 0
        self.needed = 0
        """Things in it that somebody needs."""
        self.needed_bytes = 0


class SpillSegments:
    """A `SpillStore`. Things are known by numbers, because they may be moved."""

    def __init__(self, files: SpillFiles, most: int) -> None:
        self._files = files
        self._most = most
        self._file_bytes = max(FILE_BYTES_MIN, min(FILE_BYTES_MAX, most // FILES_AIMED_AT))
        self._all: dict[int, _SpillFile] = {}
        self._written = 0
        """The file that is being written; what is needed of it or not, it stays."""
        self._where: dict[int, SpillPlace] = {}
        self._next = 0
        self.used = 0
        self.trouble = ""

    @property
    def places(self) -> int:
        return len(self._where)

    def put(self, content: bytes) -> int | None:
        if self.used + len(content) > self._most:
            self._gather()
        if self.used + len(content) > self._most:
            self.trouble = f"{self._most} bytes are the most that may be spilled"
            return None
        place = self._append(content)
        if place is None:
            return None
        self._next += 1
        self._where[self._next] = place
        return self._next

    def get(self, number: int) -> bytes:
        place = self._where[number]
        name = self._all[place.file].name
        try:
            content = self._files.read(name, place.at, place.size)
        except OSError as error:
            raise StoreError(f"what was spilled cannot be read: {error.strerror or error}") from None
        if len(content) != place.size or zlib.crc32(content) != place.check:
            raise StoreError("what was spilled is not what is read")
        return content

    def forget(self, number: int) -> None:
        self._leave_place(self._where.pop(number))

    def _append(self, content: bytes) -> SpillPlace | None:
        try:
            file = self._writable()
            self._files.append(file.name, content)
        except OSError as error:
            self.trouble = error.strerror or str(error)
            self._give_up()
            return None
        place = SpillPlace(self._written, file.size, len(content), zlib.crc32(content))
        file.size += len(content)
        file.needed += 1
        file.needed_bytes += len(content)
        self.used += len(content)
        return place

    def _leave_place(self, place: SpillPlace) -> None:
        file = self._all[place.file]
        file.needed -= 1
        file.needed_bytes -= place.size
        if not file.needed and (place.file != self._written or 2 * file.size >= self._file_bytes):
            self._drop(place.file)

    def _gather(self) -> None:
        """What is needed for long may lie between much that was not: move the rest of the file with the least, if that
        is worth it. For a moment it is there twice."""
        others = [(file.needed_bytes, number) for number, file in self._all.items() if number != self._written]
        if not others:
            return
        needed_bytes, least = min(others)
        if 2 * needed_bytes > self._all[least].size:
            return
        for number, place in [pair for pair in self._where.items() if pair[1].file == least]:
            moved = self._append(self.get(number))
            if moved is None:
                return
            self._where[number] = moved
            self._leave_place(place)

    def _writable(self) -> _SpillFile:
        file = self._all.get(self._written)
        if file is None or file.size >= self._file_bytes:
            self._leave_file()
            self._written += 1
            name = f"{self._written:08}.spill"
            self._files.create(name)
            file = self._all[self._written] = _SpillFile(name)
        return file

    def _leave_file(self) -> None:
        """Nothing is added any more to the one that was being written."""
        file = self._all.get(self._written)
        if file is not None and not file.needed:
            self._drop(self._written)

    def _give_up(self) -> None:
        """Who knows how much of the last write is in that file: the next one goes to another."""
        self._leave_file()
        self._written += 1

    def _drop(self, number: int) -> None:
        file = self._all.pop(number)
        self.used -= file.size
        try:
            self._files.remove(file.name)
        except OSError as error:  # the file takes room, and has no other effect
            self.trouble = error.strerror or str(error)
