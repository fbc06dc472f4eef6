"""Files of a virtual disk, for a journal: a crash takes what was not synced, all of it or a part.

Of bytes that were appended and not synced, a crash leaves a prefix, in which a piece may be zeros: pages reach a disk
in any order. Of names that came or went and were not synced, it leaves a prefix, too: file systems keep a journal of
those.
"""

import errno
import os
from collections.abc import Callable
from random import Random

_Change = tuple[str, "_File | None"]
"""A name, and the file that it stands for from then on; None: no file."""


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
