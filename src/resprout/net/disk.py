"""Real files for a journal, unnamed files for what a broker spills, and how much room there is for both.

A *store* is a folder that the broker writes to: `journal` (its own records), `events` and `spill`. A store is

- `ok` with more room than `warn_free_bytes`;
- `low` with less: the operator is told;
- `full` with less than `min_free_bytes`, or when a write failed: optional data is dropped or refused, and publishers
  are held for the rest.

A full store is `ok` again when there is a quarter more than `min_free_bytes` and writes succeed, so that it does not
change with every batch.

Spill files have no name: when the process ends, however it ends, they are gone. They lie in the broker's data folder,
or in the system's folder for temporary files.
"""

import errno
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

_APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC

OK: Final = "ok"
LOW: Final = "low"
FULL: Final = "full"

FreeBytes = Callable[[Path], int]


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


def free_bytes(path: Path) -> int:
    """Bytes that this process may still write there. OSError when that cannot be found out."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


class StoreRoom:
    """The room of one store. `look` may be called by any thread; everything else by the event loop."""

    def __init__(
        self, name: str, path: Path, least: int, warn: int, is_optional: bool, free: FreeBytes = free_bytes
    ) -> None:
        """`is_optional`: no client is held back when it is full."""
        self.name = name
        self.path = path
        self.least = least
        self.warn = warn
        self.is_optional = is_optional
        self.free = -1
        """Bytes; -1 while it is not known."""
        self.trouble = ""
        """What the system said of the last write, if that failed."""
        self.failures = 0
        """Writes that failed since the process began."""
        self.lost = 0
        """Bundles of events that were not kept since the process began."""
        self.held_since: float | None = None
        self._find_free = free
        self._free_then = 0
        """When a write failed."""
        self._was_full = False

    def look(self) -> None:
        try:
            self.free = self._find_free(self.path)
        except OSError:
            self.free = -1
        if self.is_optional and self.free > max(self._free_then, self.least):
            self.trouble = ""  # there may be nothing to write for long, so a write cannot find out

    def failed(self, reason: str) -> None:
        self.trouble = reason
        self.failures += 1
        self._free_then = self.free

    def written(self) -> None:
        self.trouble = ""

    @property
    def state(self) -> str:
        if self.is_full:
            return FULL
        return LOW if 0 <= self.free < self.warn else OK

    @property
    def is_full(self) -> bool:
        if self.trouble:
            self._was_full = True
        elif self.free >= 0:
            self._was_full = self.free < (self._enough if self._was_full else self.least)
        return self._was_full

    @property
    def _enough(self) -> int:
        return self.least + self.least // 4

    @property
    def is_scarce(self) -> bool:
        """Half of what was set aside is gone, or a write failed: not even other brokers may send more."""
        return bool(self.trouble) or 0 <= self.free < self.least // 2

    def line(self) -> str:
        """For people."""
        room = f"{self.free} bytes are free" if self.free >= 0 else "the free space is not known"
        if self.trouble:
            return f"{self.path}: {self.trouble}; {room}"
        if self.is_full:
            return f"{self.path}: {room}; {self.least} must stay free (min_free_bytes), and {self._enough} end this"
        return f"{self.path}: {room}"


class Rooms:
    """The stores of one broker. `told` hears of each change of a state, with the state before."""

    def __init__(self, told: Callable[[StoreRoom, str], None]) -> None:
        self._all: dict[str, StoreRoom] = {}
        self._states: dict[str, str] = {}
        self._told = told

    def add(self, store: StoreRoom) -> StoreRoom:
        store.look()
        self._all[store.name] = store
        self._states.setdefault(store.name, OK)
        return store

    def __iter__(self) -> Iterator[StoreRoom]:
        return iter(list(self._all.values()))

    def get(self, name: str) -> StoreRoom | None:
        return self._all.get(name)

    def look(self) -> None:
        """Find out how much room there is. It may take a while where a disk hangs, so it is for a thread."""
        for store in list(self._all.values()):
            store.look()

    def tell(self) -> None:
        """Tell of what has changed since the last time."""
        for store in list(self._all.values()):
            state, before = store.state, self._states[store.name]
            if state != before:
                self._states[store.name] = state
                store.held_since = time.time() if state == FULL else None
                self._told(store, before)


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
