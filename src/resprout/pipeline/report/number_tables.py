"""Tables: the numbers below a figure, and any other rows in a box that scrolls by itself when the page is narrow."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from resprout.pipeline.report.figures import Cell, Grid
from resprout.pipeline.report.markup import Content, Markup, element
from resprout.pipeline.report.quantities import NONE, Style, style_for

Labels = tuple[str, ...]


def boxed_table(caption: Content, heads: Content, rows: Content, label: str) -> Markup:
    """`label` names the box for those who reach it with the keyboard to scroll it."""
    about = element("caption", element("span", caption))
    table = element("table", about, element("thead", heads), element("tbody", rows))
    return element("div", table, class_="box", tabindex="0", role="region", aria_label=label)


def header(*names: str, numeric_from: int = 1) -> Markup:
    cells = [
        element("th", name, scope="col", class_="num" if place >= numeric_from else None)
        for place, name in enumerate(names)
    ]
    return element("tr", cells)


def rows_by_label(rows: Sequence[tuple[Labels, Content]]) -> Iterator[Markup]:
    """Rows that begin with some labels each; a label that stands for several rows in turn is written once."""
    for number, (labels, cells) in enumerate(rows):
        heads = []
        for depth, label in enumerate(labels):
            shared = labels[: depth + 1]
            if number and rows[number - 1][0][: depth + 1] == shared:
                continue
            span = next((n for n, (other, _) in enumerate(rows[number:]) if other[: depth + 1] != shared), None)
            span = len(rows) - number if span is None else span
            scope = "rowgroup" if span > 1 else "row"
            heads.append(element("th", label, scope=scope, rowspan=span if span > 1 else None))
        is_first = len(heads) == len(labels) and len(labels) > 1
        yield element("tr", heads, cells, class_="first" if is_first else None)


def cells_of(texts: Iterable[Content], numeric_from: int = 0) -> list[Markup]:
    return [element("td", text, class_="num" if place >= numeric_from else None) for place, text in enumerate(texts)]


# -- the numbers of a figure -----------------------------------------------------------------------------------------


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

    def heads(self, axes: Sequence[str]) -> list[Markup]:
        names = self.names
        deep = 2 if len(names) > 1 else None
        top = [element("th", axis, scope="col", rowspan=deep) for axis in axes]
        top += [
            element(
                "th",
                name,
                scope="colgroup" if deep else "col",
                colspan=len(names),
                class_="group" if deep else "num group",
            )
            for name in self.series
        ]
        if self.is_pair:
            top.append(element("th", "ratio", scope="col", rowspan=deep, class_="num group"))
        below = [
            element("th", name, scope="col", class_="num group" if place == 0 else "num")
            for _ in self.series
            for place, name in enumerate(names)
        ]
        return [element("tr", top), *([element("tr", below)] if deep else [])]

    def cells(self, cells: Sequence[Cell | None]) -> list[Markup]:
        out = []
        for cell in cells:
            out.append(element("td", self.style.number(cell.median if cell else None), class_="num group"))
            if self.has_range:
                out.append(element("td", self.style.span(cell.low, cell.high) if cell else NONE, class_="num range"))
            if self.has_runs:
                out.append(element("td", str(cell.runs) if cell else NONE, class_="num range"))
        if self.is_pair:
            out.append(element("td", _ratio(*cells), class_="num group"))
        return out


def numbers_table(grid: Grid) -> Markup:
    """One row for each place of the figure, all series side by side."""
    figure, found = grid.figure, list(grid.cells.values())
    columns = _Columns(
        series=grid.series,
        style=style_for(figure.measure.quantity, [cell.median for cell in found]),
        has_range=any(cell.low != cell.high for cell in found),
        has_runs=len({cell.runs for cell in found}) > 1,
    )
    axes = [axis for axis in (figure.rows, figure.panels, figure.x) if axis is not None]
    rows = []
    for row, panel, x in ((row, panel, x) for row in grid.rows for panel in grid.panels for x in grid.xs):
        cells = [grid.cells.get((row, panel, x, name)) for name in grid.series]
        if any(cells):
            places = ((row, figure.rows), (panel, figure.panels), (x, figure.x))
            rows.append((tuple(label for label, axis in places if axis is not None), columns.cells(cells)))
    heads = columns.heads([axis.title for axis in axes])
    return boxed_table(_caption(grid, columns), heads, rows_by_label(rows), f"{figure.title}: the numbers")


def _caption(grid: Grid, columns: _Columns) -> str:
    unit = columns.style.unit.name
    what = grid.figure.what + (f", in {unit}" if unit else "")
    ratio = f"; ratio: {columns.series[0]} to {columns.series[1]}" if columns.is_pair else ""
    if grid.runs == 1:
        return f"{what}; one run each{ratio}"
    runs = "" if columns.has_runs else f" of {grid.runs} runs"
    spread = "; range: the least to the most" if columns.has_range else ", which are all alike"
    return f"{what}: median{runs}{spread}{ratio}"


def _ratio(ours: Cell | None, theirs: Cell | None) -> str:
    return f"{ours.median / theirs.median:.2f}" if ours and theirs and theirs.median else NONE
