"""How much room there is for what a broker writes, and what that means for those who publish.

A *store* is a folder that the broker writes to: `journal` (its own records), `events` and `spill`. A store is

- `ok` with more room than `warn_free_bytes`;
- `low` with less: the operator is told;
- `full` with less than `min_free_bytes`, or when a write failed: optional data is dropped or refused, and publishers
  are held for the rest.

A full store is `ok` again when there is a quarter more than `min_free_bytes` and writes succeed, so that it does not
change with every batch.
"""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

OK: Final = "ok"
LOW: Final = "low"
FULL: Final = "full"

FreeBytes = Callable[[Path], int]


def free_bytes(path: Path) -> int:
    """Bytes that this process may still write there. OSError when that cannot be found out."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


class StoreRoom:
    """The room of one store. `look` may be called by any thread; everything else by the event loop."""

    def __init__(
        self, name: str, path: Path, least: int, warn: int, is_optional: bool, free: FreeBytes = free_bytes
    ) -> None:
        """`is_optional`: nobody is held when it is full."""
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
            self.trouble = ""  # nothing may come for long, so nobody would find out by writing

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
        room = f"{self.free} bytes are free" if self.free >= 0 else "nobody knows how much is free"
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
