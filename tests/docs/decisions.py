"""The indexes of decisions and of former records list every record by its title, in order, and use no number twice."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

FOLDERS: Final = (Path("docs/decisions"), Path("docs/history"))
_LINE: Final = re.compile(r"^\| \[(\d+)\]\(([^)]+)\) \| (.+?) \|(?: .*\|)?$", re.MULTILINE)


def complaints(root: Path) -> Iterator[str]:
    for folder in FOLDERS:
        yield from _complaints(root, folder)


def _complaints(root: Path, folder: Path) -> Iterator[str]:
    index = folder / "README.md"
    listed = _LINE.findall((root / index).read_text())
    records = [_record(file) for file in sorted((root / folder).glob("[0-9]*.md"))]
    for number, file, title in records:
        if not title:
            yield f"{folder / file}: the first line is not '# {number}: ' and a title"
        elif (number, file, title) not in listed:
            yield f"{index}: needs the line | [{number}]({file}) | {title} |"
    for line in listed:
        if line not in records:
            yield f"{index}: {line[0]}, {line[2]!r}: there is no such record"
    numbers = [number for number, _, _ in records]
    for number in sorted({number for number in numbers if numbers.count(number) > 1}):
        yield f"{folder}: two records have the number {number}"
    if listed != sorted(listed, key=lambda line: int(line[0])):
        yield f"{index}: not in the order of numbers"


def _record(file: Path) -> tuple[str, str, str]:
    """Return number, file and title of a record; the title is empty if the first line has none.

    Decisions write their number without leading zeros, former records with four digits.
    """
    digits, _, _ = file.name.partition("-")
    number = digits if len(digits) == 4 else digits.lstrip("0")
    first, _, _ = file.read_text().partition("\n")
    title = first.removeprefix(f"# {number}: ")
    return number, file.name, title if title != first else ""
