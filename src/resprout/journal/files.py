"""What a journal asks of a disk: a folder of files to which is only ever added.

Drivers have one each: `net.disk` real files, `sim.files` virtual ones, which lose at a crash what was not synced. All
of it may raise OSError. What was appended is durable after `sync`, names that came, went or changed after
`sync_names`.
"""

from typing import Protocol


class Files(Protocol):
    def names(self) -> list[str]:
        """In any order."""
        ...

    def size(self, name: str) -> int: ...

    def read(self, name: str, at: int, count: int) -> bytes:
        """Fewer bytes only where the file ends."""
        ...

    def create(self, name: str) -> None:
        """Empty, whatever was there before."""
        ...

    def append(self, name: str, content: bytes) -> None: ...

    def truncate(self, name: str, size: int) -> None:
        """Durable with the next `sync`."""
        ...

    def sync(self, name: str) -> None: ...

    def sync_names(self) -> None: ...

    def rename(self, name: str, to: str) -> None:
        """Replaces what is there under the other name."""
        ...

    def link(self, name: str, to: str) -> None:
        """A second name for a file. FileExistsError when there is a file of that name."""
        ...

    def remove(self, name: str) -> None:
        """Nothing where there is none."""
        ...

    def place_of(self, name: str) -> str:
        """What people call it."""
        ...
