"""What a broker says to those who started it: where it listens, and later what they should know."""

import contextlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from resprout.cli.console import tell, tell_json
from resprout.core.contract import Note
from resprout.core.errors import UsageError
from resprout.net.address import Address
from resprout.net.event_loop import now_us
from resprout.net.orders import Announcement, SaidNote, announcement_line

LOG_FORMATS: Final = ("short", "full", "json")

LEVELS: Final = {
    **dict.fromkeys(
        (
            "joined",
            "founded",
            "reunited",
            "repair_end",
            "enough_copies",
            "recovery",
            "events",
            "leader",
            "log_fed",
            "mqtt",
            "topic_ended",
            "http",
            "drain",
            "disk_ok",
            "reload",
        ),
        "info",
    ),
    **dict.fromkeys(("fenced", "two_networks", "name_refused", "disk_full", "reload_failed", "fatal"), "error"),
    "follow_up": "debug",
}
"""By kind of note; all others are warnings. What is for debugging is in traces only: there is one for each message."""


class LogLine(msgspec.Struct, frozen=True):
    """A line of the log as JSON."""

    time: str
    level: str
    broker: str
    kind: str
    detail: str


class Voice:
    """People read standard error; with `as_json`, a program reads standard output. `log_format`: how lines for people
    are written."""

    def __init__(self, name: str, file: Path | None, as_json: bool, log_format: str = LOG_FORMATS[0]) -> None:
        self._log_format = log_format
        self.name = name
        self._file = file
        self._as_json = as_json
        self._last = ""

    def announce(self, address: Address, pid: int, incarnation: int) -> None:
        announcement = Announcement(self.name, str(address), pid, incarnation)
        if self._file is not None:
            _write_whole(self._file, announcement_line(announcement))
        with _forgiving():
            if self._as_json:
                tell_json(announcement)
            else:
                tell(f"{self.name} listens on {address}")

    def say(self, text: str) -> None:
        """Once: an attempt that fails again and again for the same reason is worth one line."""
        if text != self._last:
            self._last = text
            self._log("info", "start", text, text)

    def fatal(self, text: str) -> None:
        """Why the process ends."""
        self._log("error", "fatal", text, f"resprout: {text}")

    def _log(self, level: str, kind: str, detail: str, short: str) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        with _forgiving():
            if self._log_format == "json":
                tell_json(LogLine(at, level, self.name, kind, detail), err=True)
            elif self._log_format == "full":
                tell(f"{at} {level.upper()} {self.name} {kind}: {detail}", err=True)
            else:
                tell(short, err=True)

    def note(self, note: Note) -> None:
        if LEVELS.get(note.kind) == "debug":
            return
        if self._as_json:
            with _forgiving():
                tell_json(SaidNote(note.kind, now_us(), note.columns))
            return
        detail = str(note.columns.get("detail", ""))
        short = f"{self.name}: {note.kind.replace('_', ' ')}: {detail}"
        if short != self._last or self._log_format != "short":
            self._last = short
            self._log(LEVELS.get(note.kind, "warning"), note.kind, detail, short)


def _forgiving() -> contextlib.AbstractContextManager[None]:
    """A reader that has gone away is no reason to stop serving the others."""
    return contextlib.suppress(OSError)


def _write_whole(path: Path, line: str) -> None:
    """Whoever waits for the file never sees half of it."""
    draft = path.with_name(f"{path.name}.part")
    try:
        draft.write_text(f"{line}\n")
        draft.replace(path)
    except OSError as error:
        raise UsageError(f"--announce {path}: {error.strerror or error}") from None
