"""Real files for a journal, in a folder of their own."""

import os
from pathlib import Path
from typing import Final

_APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC


def sync_folder(folder: Path) -> None:
    """Makes new names in it durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


class RealFiles:
    """The `Files` of a journal. The file that was written to last stays open."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written: tuple[str, int] | None = None
        """Its name and descriptor."""

    def names(self) -> list[str]:
        return [path.name for path in self._folder.iterdir()]

    def size(self, name: str) -> int:
        return (self._folder / name).stat().st_size

    def read(self, name: str, at: int, count: int) -> bytes:
        descriptor = os.open(self._folder / name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            pieces: list[bytes] = []
            while count and (piece := os.pread(descriptor, count, at)):
                pieces.append(piece)
                at += len(piece)
                count -= len(piece)
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        finally:
            os.close(descriptor)

    def create(self, name: str) -> None:
        self.close()
        descriptor = os.open(self._folder / name, _APPEND | os.O_CREAT | os.O_TRUNC, 0o600)
        self._written = (name, descriptor)

    def append(self, name: str, content: bytes) -> None:
        write_all(self._open(name), content)

    def truncate(self, name: str, size: int) -> None:
        os.ftruncate(self._open(name), size)

    def sync(self, name: str) -> None:
        os.fdatasync(self._open(name))

    def sync_names(self) -> None:
        sync_folder(self._folder)

    def rename(self, name: str, to: str) -> None:
        self.close()
        (self._folder / name).replace(self._folder / to)

    def link(self, name: str, to: str) -> None:
        os.link(self._folder / name, self._folder / to)

    def remove(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)

    def place_of(self, name: str) -> str:
        return str(self._folder / name)

    def close(self) -> None:
        if self._written is not None:
            os.close(self._written[1])
            self._written = None

    def _open(self, name: str) -> int:
        if self._written is None or self._written[0] != name:
            self.close()
            self._written = (name, os.open(self._folder / name, _APPEND))
        return self._written[1]
