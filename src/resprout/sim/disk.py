"""The disk of a virtual node: the journal that real brokers have, on virtual files.

A record is *written* first and *durable* one disk latency later, in the order of writing. A crash takes what was not
yet durable; of what was being written a part may be left, which the journal cuts off.

The files are virtual. Of bytes that were appended and not synced, a crash leaves a prefix, in which a piece may be
zeros: pages reach a disk in any order. Of names that came or went and were not synced, it leaves a prefix, too: file
systems keep a journal of those.
"""

import errno
import os
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Final

import msgspec

from resprout.core.contract import Forget, Persist
from resprout.journal.interface import DiskError, JournalOptions
from resprout.journal.journal import Records, begin_journal, open_journal

_Change = tuple[str, "_File | None"]
"""A name, and the file that it stands for from then on; None: no file."""

_OPTIONS: Final = JournalOptions(segment_bytes=32 << 10)
"""Small, so that runs come past the end of a segment."""


class _File:
    __slots__ = ("content", "synced")

    def __init__(self) -> None:
        self.content = bytearray()
        self.synced = 0


class VirtualFiles:
    """The `Files` of a journal. `before` is told of each change before it is made, and may raise."""

    def __init__(self, before: Callable[[str, str], None] = lambda what, name: None) -> None:
        self.before = before
        self.room: int | None = None
        """So many more bytes can be written; None: any number."""
        self._files: dict[str, _File] = {}
        self._durable: dict[str, _File] = {}
        """As they are after a crash at least."""
        self._changes: list[_Change] = []
        """Of names, since they were synced."""

    def names(self) -> list[str]:
        return list(self._files)

    def size(self, name: str) -> int:
        return len(self._find(name).content)

    def read(self, name: str, at: int, count: int) -> bytes:
        return bytes(self._find(name).content[at : at + count])

    def create(self, name: str) -> None:
        self.before("create", name)
        self._change((name, _File()))

    def append(self, name: str, content: bytes) -> None:
        """Without room for all of it, a part is written."""
        self.before("append", name)
        file = self._find(name)
        if self.room is not None and len(content) > self.room:
            file.content += content[: self.room]
            self.room = 0
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.room is not None:
            self.room -= len(content)
        file.content += content

    def truncate(self, name: str, size: int) -> None:
        self.before("truncate", name)
        file = self._find(name)
        del file.content[size:]
        file.synced = min(file.synced, size)

    def sync(self, name: str) -> None:
        self.before("sync", name)
        file = self._find(name)
        file.synced = len(file.content)

    def sync_names(self) -> None:
        self.before("sync_names", "")
        self._changes.clear()
        self._durable = dict(self._files)

    def rename(self, name: str, to: str) -> None:
        self.before("rename", name)
        self._change((to, self._find(name)), (name, None))

    def link(self, name: str, to: str) -> None:
        self.before("link", name)
        if to in self._files:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        self._change((to, self._find(name)))

    def remove(self, name: str) -> None:
        self.before("remove", name)
        if name in self._files:
            self._change((name, None))

    def place_of(self, name: str) -> str:
        return f"disk/{name}"

    def crash(self, rng: Random) -> None:
        """What is left is what somebody finds after the loss of power."""
        for name, file in self._changes[: rng.randint(0, len(self._changes))]:
            self._put(self._durable, name, file)
        self._changes.clear()
        self._files = dict(self._durable)
        for file in self._files.values():
            loose = len(file.content) - file.synced
            if loose:
                del file.content[file.synced + rng.randint(0, loose) :]
                end = len(file.content)
                if end > file.synced and rng.random() < 0.3:
                    begin = rng.randrange(file.synced, end)
                    length = min(rng.randint(1, 64), end - begin)
                    file.content[begin : begin + length] = bytes(length)
                file.synced = end

    def spoil(self, name: str, at: int, mask: int) -> None:
        """Flip bits of a byte."""
        self._find(name).content[at] ^= mask

    def _find(self, name: str) -> _File:
        if name not in self._files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return self._files[name]

    def _change(self, *changes: _Change) -> None:
        for name, file in changes:
            self._put(self._files, name, file)
            self._changes.append((name, file))

    @staticmethod
    def _put(names: dict[str, _File], name: str, file: "_File | None") -> None:
        if file is None:
            names.pop(name, None)
        else:
            names[name] = file


class StoreOnDisk:
    """A journal with a name of its own, for the replica of a log. What is appended is written at once, and is on the
    disk when the driver says so."""

    def __init__(self) -> None:
        self._files = VirtualFiles()
        self._rng = Random(2)
        self._options = _OPTIONS
        self._kept: Records | None = None
        self._is_forgotten = True
        """Whether its records are needed until they are forgotten; otherwise retention drops them."""

    def open(self, options: JournalOptions, is_forgotten: bool) -> Records:
        """A life of the node opens it with its options."""
        self._is_forgotten = is_forgotten
        self._options = msgspec.structs.replace(options, segment_bytes=min(options.segment_bytes, 32 << 10))
        return self.records

    @property
    def records(self) -> Records:
        if self._kept is None:
            self._kept = Records(open_journal(self._files, self._options, lambda: self._rng.getrandbits(32), 0))
        return self._kept

    def append(self, record: bytes, now_us: int) -> None:
        """Entries of a log need not be remembered as needed one by one: retention drops them."""
        journal = self.records.journal
        if self._is_forgotten:
            self.records.apply([Persist(record)], now_us)
        else:
            journal.append([record], now_us, journal.next + 1)

    def forget(self, count: int, now_us: int) -> None:
        if count < len(self.records):
            self.records.apply([Forget(count)], now_us)

    def reset(self, position: int) -> None:
        journal = begin_journal(self._files, self._options, lambda: self._rng.getrandbits(32), position, 0)
        self._kept = Records(journal)

    def crash(self) -> None:
        self._files.crash(self._rng)
        self._kept = None


class Disk:
    __slots__ = ("_files", "_kept", "_rng", "_written", "is_full", "is_low", "stores")

    def __init__(self) -> None:
        self.is_low = False
        """There is so little room that clients are held."""
        self.is_full = False
        """Nothing becomes durable until there is room."""
        self._files = VirtualFiles()
        self._kept: Records | None = None
        """None: nobody has looked since the last crash, or ever."""
        self._rng = Random(1)
        """What a crash leaves of a write, and the seeds of segments."""
        self._written: deque[bytes | tuple[str, bytes]] = deque()
        """Records, and those of stores with the name of the store."""
        self.stores: dict[str, StoreOnDisk] = {}

    @property
    def records(self) -> tuple[bytes, ...]:
        """What a recovery reads: the durable records, oldest first."""
        return tuple(self._journal().read()) if self._kept is not None or self._files.names() else ()

    def write(self, record: bytes | tuple[str, bytes]) -> None:
        self._written.append(record)

    def settle(self, now_us: int = 0) -> None:
        """The oldest written record is durable now."""
        written = self._written.popleft()
        if isinstance(written, tuple):
            store, record = written
            self.stores[store].append(record, now_us)
        else:
            self._journal().apply([Persist(written)], now_us)

    def forget_in_store(self, store: str, count: int, now_us: int) -> None:
        """Keep only the latest `count` records of a store; all other stores are on the disk before that."""
        for each in self.stores.values():
            each.records.journal.sync()
        self.stores[store].forget(count, now_us)

    def trim_store(self, store: str, position: int) -> None:
        """Remove the segments of a store before a position; all stores are on the disk before that."""
        for each in self.stores.values():
            each.records.journal.sync()
        self.stores[store].records.journal.trim(position)

    def forget_before_latest(self, count: int, now_us: int = 0) -> None:
        """Keep only the latest `count` durable records."""
        if count < len(self._journal()):
            self._journal().apply([Forget(count)], now_us)

    def crash(self) -> None:
        if self._written:
            if isinstance(self._written[0], bytes):
                self._tear(self._written[0])
            self._written.clear()
        for store in self.stores.values():
            store.crash()
        if self._kept is not None:
            self._files.crash(self._rng)
            self._kept = None

    def wipe(self) -> None:
        """An empty disk takes its place."""
        self._written.clear()
        self._files = VirtualFiles()
        self._kept = None
        self.stores.clear()

    def _journal(self) -> Records:
        if self._kept is None:
            self._kept = Records(open_journal(self._files, _OPTIONS, lambda: self._rng.getrandbits(32), 0))
        return self._kept

    def _tear(self, record: bytes) -> None:
        """It was being written when the node went down."""
        kept = self._journal()
        self._files.room = self._rng.randint(0, len(record))
        try:
            kept.apply([Persist(record)], 0)
        except DiskError:
            pass
        finally:
            self._files.room = None
