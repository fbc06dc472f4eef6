"""What a broker says to those who started it: where it listens, and later what they should know."""

import contextlib
import sys
from pathlib import Path

from resprout.core.contract import Note
from resprout.core.errors import UsageError
from resprout.net.address import Address
from resprout.net.announce import Announcement, SaidNote, as_line
from resprout.net.clock import now_us


class Voice:
    """People read standard error; with `as_json`, a program reads standard output."""

    def __init__(self, name: str, file: Path | None, as_json: bool) -> None:
        self._name = name
        self._file = file
        self._as_json = as_json
        self._last = ""

    def announce(self, address: Address, pid: int, incarnation: int) -> None:
        announcement = Announcement(self._name, str(address), pid, incarnation)
        if self._file is not None:
            _write_whole(self._file, as_line(announcement))
        _print(as_line(announcement) if self._as_json else f"{self._name} listens on {address}")

    def say(self, text: str) -> None:
        """Once: an attempt that fails again and again for the same reason is worth one line."""
        if text != self._last:
            self._last = text
            with contextlib.suppress(OSError):
                print(text, file=sys.stderr, flush=True)

    def note(self, note: Note) -> None:
        if self._as_json:
            _print(as_line(SaidNote(note.kind, now_us(), note.columns)))
        else:
            self.say(f"{self._name}: {note.kind.replace('_', ' ')}: {note.columns.get('detail', '')}")


def _print(line: str) -> None:
    """A reader that has gone away is no reason to stop serving the others."""
    with contextlib.suppress(OSError):
        print(line, flush=True)


def _write_whole(path: Path, line: str) -> None:
    """Whoever waits for the file never sees half of it."""
    draft = path.with_name(f"{path.name}.part")
    try:
        draft.write_text(f"{line}\n")
        draft.replace(path)
    except OSError as error:
        raise UsageError(f"--announce {path}: {error.strerror or error}") from None
