"""Tables as values, for `templates/parts.html`. On a phone, each row of a wide table becomes a card.

A cell with a verdict comes first in its row, so that a phone shows it however wide the table is. `numbers_table` has
the numbers of a figure. `anchor` and `run_anchor` name the targets of links inside the page.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from resprout.pipeline.report.facts import RunFacts, RunStanding
from resprout.pipeline.report.figures import Cell, Grid
from resprout.pipeline.report.measures import NONE, Style, style_for

Labels = tuple[str, ...]

WIDE_COLUMNS: Final = 5
"""Columns that a phone does not show side by side."""


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

    @property
    def columns(self) -> tuple[str, ...]:
        """The name of each column, with the name of its group before it."""
        if len(self.heads) < 2:
            return tuple(cell.text for row in self.heads for cell in row.cells for _ in range(cell.colspan))
        below = iter(self.heads[1].cells)
        return tuple(
            cell.text if cell.rowspan > 1 else f"{cell.text} {next(below).text}"
            for cell in self.heads[0].cells
            for _ in range(cell.colspan)
        )

    @property
    def is_wide(self) -> bool:
        return len(self.columns) >= WIDE_COLUMNS


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


class _Columns(msgspec.Struct, frozen=True):
    """What each series gets: always its median; the rest only where it says something."""

    series: tuple[str, ...]
    style: Style
    has_range: bool
    has_runs: bool

    @property
    def names(self) -> list[str]:
        return ["median", *(["range"] if self.has_range else []), *(["runs"] if self.has_runs else [])]

    @property
    def is_pair(self) -> bool:
        return len(self.series) == 2

    def heads(self, axes: Sequence[str]) -> tuple[PageRow, ...]:
        names = self.names
        deep = 2 if len(names) > 1 else 1
        scope, look = ("colgroup", "group") if deep > 1 else ("col", "num group")
        top = [PageCell(axis, scope="col", rowspan=deep) for axis in axes]
        top += [PageCell(name, scope=scope, colspan=len(names), look=look) for name in self.series]
        if self.is_pair:
            top.append(PageCell("ratio", scope="col", rowspan=deep, look="num group"))
        if deep == 1:
            return (PageRow(tuple(top)),)
        below = [
            PageCell(name, scope="col", look="num" if place else "num group")
            for _ in self.series
            for place, name in enumerate(names)
        ]
        return PageRow(tuple(top)), PageRow(tuple(below))

    def cells(self, cells: Sequence[Cell | None]) -> tuple[PageCell, ...]:
        out = []
        for cell in cells:
            out.append(PageCell(self.style.number(cell.median if cell else None), look="num group"))
            if self.has_range:
                out.append(PageCell(self.style.span(cell.low, cell.high) if cell else NONE, look="num range"))
            if self.has_runs:
                out.append(PageCell(str(cell.runs) if cell else NONE, look="num range"))
        if self.is_pair:
            out.append(PageCell(_ratio(*cells), look="num group"))
        return tuple(out)


def numbers_table(grid: Grid) -> PageTable:
    """One row for each place of the figure, all series side by side."""
    figure, found = grid.figure, list(grid.cells.values())
    columns = _Columns(
        series=grid.series,
        style=style_for(figure.quantity, [cell.median for cell in found]),
        has_range=any(cell.low != cell.high for cell in found),
        has_runs=len({cell.runs for cell in found}) > 1,
    )
    axes = [axis for axis in (figure.rows, figure.panels, figure.x) if axis is not None]
    rows = []
    for row, panel, x in ((row, panel, x) for row in grid.rows for panel in grid.panels for x in grid.xs):
        cells = [grid.cells.get((row, panel, x, name)) for name in grid.series]
        if any(cells):
            places = ((row, figure.rows), (panel, figure.panels), (x, figure.x))
            labels = tuple(label for label, axis in places if axis is not None)
            rows.append(LabelledRow(labels, columns.cells(cells)))
    return PageTable(
        label=f"{figure.title}: the numbers",
        caption=_caption(grid, columns),
        heads=columns.heads([axis.title for axis in axes]),
        rows=tuple(rows_by_label(rows)),
    )


def _caption(grid: Grid, columns: _Columns) -> str:
    unit = columns.style.unit.name
    what = grid.figure.what + (f", in {unit}" if unit else "")
    ratio = f"; ratio: {columns.series[0]} to {columns.series[1]}" if columns.is_pair else ""
    if grid.runs <= 1:
        return f"{what}; {'one run each' if grid.runs else 'computed'}{ratio}"
    runs = "" if columns.has_runs else f" of {grid.runs} runs"
    spread = "; range: the least to the most" if columns.has_range else ", which are all alike"
    return f"{what}: median{runs}{spread}{ratio}"


def _ratio(ours: Cell | None, theirs: Cell | None) -> str:
    return f"{ours.median / theirs.median:.2f}" if ours and theirs and theirs.median else NONE


def anchor(experiment: str) -> str:
    return f"at-{_plain(experiment)}"


def run_anchor(facts: RunFacts) -> str:
    return f"run-{_plain(facts.run.experiment)}.{_plain(facts.name)}"


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]", lambda odd: f"_{ord(odd[0]):x}_", name)
