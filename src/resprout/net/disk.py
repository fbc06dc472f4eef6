"""What every writer to a disk needs."""

import os
from pathlib import Path

from resprout.core.errors import ResproutError


class DiskError(ResproutError):
    """What had to be kept could not be written."""


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
