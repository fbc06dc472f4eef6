"""Tables as values, for `templates/parts.html`: in a box that scrolls by itself when the page is narrow.

A cell with a verdict comes first in its row, so that a phone shows it however wide the table is.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from resprout.pipeline.report.standing import RunStanding

Labels = tuple[str, ...]


class PageCell(msgspec.Struct, frozen=True):
    text: str = ""
    standing: RunStanding | None = None
    """Shown before the text, as is `strong`."""
    strong: str = ""
    scope: str = ""
    """Of a cell that is a heading."""
    look: str = ""
    rowspan: int = 1
    colspan: int = 1


class PageRow(msgspec.Struct, frozen=True):
    cells: tuple[PageCell, ...]
    is_first: bool = False
    """Of a group."""
    id: str = ""
    """What links inside the page call it."""


class PageTable(msgspec.Struct, frozen=True):
    label: str
    """Names the box for those who reach it with the keyboard to scroll it."""
    caption: str
    heads: tuple[PageRow, ...]
    rows: tuple[PageRow, ...]


class LabelledRow(msgspec.Struct, frozen=True):
    labels: Labels
    cells: tuple[PageCell, ...]
    verdict: PageCell | None = None
    id: str = ""


def header(*names: str, numeric_from: int = 1) -> tuple[PageRow, ...]:
    cells = [
        PageCell(name, scope="col", look="num" if place >= numeric_from else "") for place, name in enumerate(names)
    ]
    return (PageRow(tuple(cells)),)


def rows_by_label(rows: Sequence[LabelledRow]) -> Iterator[PageRow]:
    """Rows that begin with some labels each; a label that stands for several rows in turn is written once."""
    for number, row in enumerate(rows):
        heads = [] if row.verdict is None else [row.verdict]
        is_first = len(row.labels) > 1
        for depth, label in enumerate(row.labels):
            shared = row.labels[: depth + 1]
            if number and rows[number - 1].labels[: depth + 1] == shared:
                is_first = False
                continue
            span = next((n for n, other in enumerate(rows[number:]) if other.labels[: depth + 1] != shared), None)
            span = len(rows) - number if span is None else span
            heads.append(PageCell(label, scope="rowgroup" if span > 1 else "row", rowspan=span))
        yield PageRow((*heads, *row.cells), is_first, row.id)


def cells_of(texts: Iterable[str], numeric_from: int = 0) -> tuple[PageCell, ...]:
    return tuple(PageCell(text, look="num" if place >= numeric_from else "") for place, text in enumerate(texts))
