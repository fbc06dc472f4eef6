"""What the command was given: the page says how to make it again."""

import shlex
from pathlib import Path

import msgspec

from resprout.pipeline.stores import Location


class GivenCommand(msgspec.Struct, frozen=True):
    """As it was typed."""

    folders: tuple[Location, ...]
    out: Path

    @property
    def report(self) -> str:
        return f"resprout report {shlex.join(map(str, self.folders))} --out {shlex.quote(str(self.out))}"

    @property
    def folder(self) -> str:
        """Where runs go that are made again."""
        return shlex.quote(str(self.folders[0])) if len(self.folders) == 1 else "DIR"
