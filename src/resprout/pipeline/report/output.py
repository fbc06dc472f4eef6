"""The command that makes the page, and the file that the page goes to: checked before any work is done, written whole
or not at all.
"""

import importlib.util
import os
import shlex
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from resprout.pipeline.errors import NoSparkError, PipelineError
from resprout.pipeline.stores import Location

_DRAWER: Final = {"altair": "altair", "jinja2": "jinja2", "vl_convert": "vl-convert-python"}
"""What the page is drawn and put together with, and what its packages are called."""


def check_drawer() -> None:
    """NoSparkError when what draws the page is not installed: better said before the work than after it."""
    if missing := [package for name, package in _DRAWER.items() if importlib.util.find_spec(name) is None]:
        raise NoSparkError(f"the page needs {', '.join(missing)}: pip install 'resprout[report]'")


def check_target(path: Path, option: str = "--out") -> None:
    """PipelineError when a page cannot be written there; `option` is what named it."""
    if path.is_dir():
        raise PipelineError(f"{option} {path}: that is a folder; name a file in it")
    if not path.parent.is_dir():
        raise PipelineError(f"{option} {path}: there is no folder {path.parent}")


def write_whole(path: Path, text: str, option: str = "--out") -> None:
    """Whoever opens the file sees the old page or the new one."""
    try:
        handle, draft = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    except OSError as error:
        raise PipelineError(f"{option} {path}: cannot be written: {_reason(error)}") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        Path(draft).chmod(0o666 & ~_umask())
        Path(draft).replace(path)
    except OSError as error:
        Path(draft).unlink(missing_ok=True)
        raise PipelineError(f"{option} {path}: cannot be written: {_reason(error)}") from None


def _umask() -> int:
    """What the user keeps from others; it can only be asked by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


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
