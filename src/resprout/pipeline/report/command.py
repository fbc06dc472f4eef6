"""What the command was given: the page says how to make it again."""

import shlex
from pathlib import Path

import msgspec

from resprout.pipeline.stores import Location


class GivenCommand(msgspec.Struct, frozen=True):
    """As it was typed."""

    folders: tuple[Location, ...]
    out: Path
    sweeps: tuple[Path, ...] = ()
    """Files whose figures count instead of those of the archives."""

    @property
    def report(self) -> str:
        words = ["resprout", "report", *map(str, self.folders), "--out", str(self.out)]
        return shlex.join([*words, *(word for path in self.sweeps for word in ("--sweep", str(path)))])

    @property
    def folder(self) -> str:
        """Where runs go that are made again."""
        return shlex.quote(str(self.folders[0])) if len(self.folders) == 1 else "DIR"
