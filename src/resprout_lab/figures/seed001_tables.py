"""Reader of the Markdown tables of a page, as numbers."""

import re
from typing import NamedTuple

Table = dict[str, dict[str, float]]
"""Numbers by first cell of their row, and by column. Of columns with one name the first counts."""


def number(cell: str) -> float:
    text = cell.replace(",", "").strip()
    return float(text.removesuffix(" M")) * (1e6 if text.endswith(" M") else 1)


def tables_of(text: str, section: str) -> list[Table]:
    """Return the tables of numbers below the heading that begins like this, in order."""
    start = re.search(rf"^#+ {re.escape(section)}[: ].*$", text, re.M)
    if start is None:
        raise KeyError(section)
    body = re.split(r"^#+ ", text[start.end() :], maxsplit=1, flags=re.M)[0]
    found = []
    for block in re.findall(r"(?:^\|.*\|\n)+", body, re.M):
        head, _, *rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in block.splitlines()]
        table: Table = {}
        for row in rows:
            columns: dict[str, float] = {}
            for name, cell in zip(head[1:], row[1:], strict=True):
                columns.setdefault(name.strip("`"), number(cell))
            table[row[0]] = columns
        found.append(table)
    return found


class PageNumbers(NamedTuple):
    """The numbers of the large sweeps."""

    text: str

    def column(self, section: str, place: int, name: str) -> list[float]:
        return [row[name] for row in tables_of(self.text, section)[place].values()]
