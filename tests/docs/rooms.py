"""architecture.md names every file of every room, and none that does not exist.

A room is a package of `src/resprout`, or one module that stands by itself. Its entry begins with its path in bold and
names its files in backticks, without the ending; `bank*` stands for several. What else is in backticks in an entry is
no name of a file: it has a capital, a dot, or a slash.
"""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

DOCUMENT: Final = Path("docs/architecture.md")
SOURCES: Final = Path("src/resprout")
_ENTRY: Final = re.compile(r"^- ((?:\*\*[\w/]+\*\*(?:, )?)+): (.*?)(?=\n- |\n\n|\Z)", re.MULTILINE | re.DOTALL)
_NAME: Final = re.compile(r"`([a-z0-9_]+\*?)`")


def complaints(root: Path) -> Iterator[str]:
    entries = _entries((root / DOCUMENT).read_text())
    rooms = _rooms(root / SOURCES)
    for room in rooms.keys() - entries.keys():
        yield f"{DOCUMENT}: the room {room} has no entry"
    for room in entries.keys() - rooms.keys():
        yield f"{DOCUMENT}: there is no room {room}"
    for room in entries.keys() & rooms.keys():
        named, files = entries[room], rooms[room]
        for file in files:
            if not any(fnmatchcase(file, name) for name in named):
                yield f"{DOCUMENT}: {room} does not name {file}"
        for name in named:
            if not any(fnmatchcase(file, name) for file in files):
                yield f"{DOCUMENT}: {room} names {name}, which is not there"


def _entries(text: str) -> dict[str, list[str]]:
    """Room -> the names in its entry."""
    _, _, list_of_rooms = text.partition("### What is in which room")
    list_of_rooms, _, _ = list_of_rooms.partition("\n## ")
    return {
        room: _NAME.findall(entry)
        for rooms, entry in _ENTRY.findall(list_of_rooms)
        for room in re.findall(r"\*\*(.+?)\*\*", rooms)
    }


def _rooms(sources: Path) -> dict[str, list[str]]:
    """Room -> its files; a module at the top is a room without files."""
    rooms: dict[str, list[str]] = {}
    for file in sorted(sources.rglob("*.py")):
        if file.stem.startswith("__"):
            continue
        if file.parent == sources:
            rooms[file.stem] = []
        else:
            rooms.setdefault(file.parent.relative_to(sources).as_posix(), []).append(file.stem)
    return rooms
