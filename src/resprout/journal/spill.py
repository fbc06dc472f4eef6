"""Bytes that wait on a disk for as long as this process needs them: in files to which is only added, each of which is
dropped when nothing in it is needed any more. Nothing of it is meant to survive, so nothing is ever synced.
"""

import zlib
from typing import Final, NamedTuple, Protocol

from resprout.core.errors import StoreError

FILE_BYTES_MAX: Final = 16 << 20
FILE_BYTES_MIN: Final = 1 << 10
FILES_AIMED_AT: Final = 32
"""So many files share the room: one small thing that is needed for long holds that share of it."""


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
    __slots__ = ("name", "needed", "size")

    def __init__(self, name: str) -> None:
        self.name = name
        self.size = 0
        self.needed = 0
        """Places in it that somebody needs."""


class SpillSegments:
    """A `SpillStore`."""

    def __init__(self, files: SpillFiles, most: int) -> None:
        self._files = files
        self._most = most
        self._file_bytes = max(FILE_BYTES_MIN, min(FILE_BYTES_MAX, most // FILES_AIMED_AT))
        self._all: dict[int, _SpillFile] = {}
        self._number = 0
        """Of the file that is being written; what is needed of it or not, it stays."""
        self.used = 0
        self.places = 0
        self.trouble = ""

    def put(self, content: bytes) -> SpillPlace | None:
        if self.used + len(content) > self._most:
            self.trouble = f"{self._most} bytes are the most that may be spilled"
            return None
        try:
            file = self._writable()
            self._files.append(file.name, content)
        except OSError as error:
            self.trouble = error.strerror or str(error)
            self._give_up()
            return None
        place = SpillPlace(self._number, file.size, len(content), zlib.crc32(content))
        file.size += len(content)
        file.needed += 1
        self.places += 1
        self.used += len(content)
        return place

    def get(self, place: SpillPlace) -> bytes:
        name = self._all[place.file].name
        try:
            content = self._files.read(name, place.at, place.size)
        except OSError as error:
            raise StoreError(f"what was spilled cannot be read: {error.strerror or error}") from None
        if len(content) != place.size or zlib.crc32(content) != place.check:
            raise StoreError("what was spilled is not what is read")
        return content

    def forget(self, place: SpillPlace) -> None:
        file = self._all[place.file]
        file.needed -= 1
        self.places -= 1
        if not file.needed and (place.file != self._number or 2 * file.size >= self._file_bytes):
            self._drop(place.file)

    def _writable(self) -> _SpillFile:
        file = self._all.get(self._number)
        if file is None or file.size >= self._file_bytes:
            self._leave()
            self._number += 1
            name = f"{self._number:08}.spill"
            self._files.create(name)
            file = self._all[self._number] = _SpillFile(name)
        return file

    def _leave(self) -> None:
        """Nothing is added any more to the file that was being written."""
        file = self._all.get(self._number)
        if file is not None and not file.needed:
            self._drop(self._number)

    def _give_up(self) -> None:
        """Who knows how much of the last write is in that file: the next one goes to another."""
        self._leave()
        self._number += 1

    def _drop(self, number: int) -> None:
        file = self._all.pop(number)
        self.used -= file.size
        try:
            self._files.remove(file.name)
        except OSError as error:  # it takes room, and nobody is the worse for it
            self.trouble = error.strerror or str(error)
