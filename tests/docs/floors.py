"""Files and lines of each floor today, for the last table of walks.md: `python -m tests.docs.floors`."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SOURCES: Final = Path("src/resprout")
DOCUMENT: Final = Path("docs/walks.md")
_ROW: Final = re.compile(r"^(\| (`[^|]+?) \| [^|]*→ )([\d,]+)( \| [^|]*→ )([\d,]+)( \|)$", re.MULTILINE)


def rewritten(root: Path) -> str:
    """The document with the figures of today; what is beside them stays."""
    return _ROW.sub(lambda row: _row(root, row), (root / DOCUMENT).read_text())


def _row(root: Path, row: re.Match[str]) -> str:
    files = [file for room in _rooms(row[2]) for file in sorted((root / SOURCES / room).rglob("*.py"))]
    lines = sum(len(file.read_text().splitlines()) for file in files)
    return f"{row[1]}{len(files)}{row[4]}{lines:,}{row[6]}"


def _rooms(title: str) -> Iterator[str]:
    """Those in backticks before any comma that begins a remark; a name without a path is beside the one before it."""
    folder = ""
    for name in re.findall(r"`([\w/]+)`", title.partition(", with ")[0]):
        folder = name.rpartition("/")[0] if "/" in name else folder
        yield name if "/" in name or not folder else f"{folder}/{name}"


if __name__ == "__main__":
    here = Path(__file__).resolve().parents[2]
    text = rewritten(here)
    (here / DOCUMENT).write_text(text)
    sys.stdout.write("\n".join("".join(row.groups()[:1] + row.groups()[2:]) for row in _ROW.finditer(text)) + "\n")
