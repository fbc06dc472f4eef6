"""The index of decisions lists every record by its title, in order, and no number is used twice."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

FOLDER: Final = Path("docs/decisions")
INDEX: Final = FOLDER / "README.md"
_LINE: Final = re.compile(r"^\| \[(\d{4})\]\(([^)]+)\) \| (.+?) \| .*\|$", re.MULTILINE)


def complaints(root: Path) -> Iterator[str]:
    listed = _LINE.findall((root / INDEX).read_text())
    records = [_record(file) for file in sorted((root / FOLDER).glob("[0-9]*.md"))]
    for number, file, title in records:
        if not title:
            yield f"{FOLDER / file}: the first line is not '# {number}: ' and a title"
        elif (number, file, title) not in listed:
            yield f"{INDEX}: needs the line | [{number}]({file}) | {title} | |"
    for line in listed:
        if line not in records:
            yield f"{INDEX}: {line[0]}, {line[2]!r}: there is no such record"
    numbers = [number for number, _, _ in records]
    for number in sorted({number for number in numbers if numbers.count(number) > 1}):
        yield f"{FOLDER}: two records have the number {number}"
    if listed != sorted(listed):
        yield f"{INDEX}: not in the order of numbers"


def _record(file: Path) -> tuple[str, str, str]:
    """Number, file and title; an empty title when the first line has none."""
    number = file.name[:4]
    first, _, _ = file.read_text().partition("\n")
    title = first.removeprefix(f"# {number}: ")
    return number, file.name, title if title != first else ""
