"""The charts of a figure: a panel for each place of its grid, all on one scale, as SVG that stands in the page.

Whiskers reach from the least to the most of the runs. Each series has a colour and a form of its own (fill or hatching,
kind of line, kind of point), so nothing depends on colours alone. Colours are names of the page's style sheet, so one
drawing serves light, dark and print.

Charts are made with Altair and drawn when the page is made, by the Vega in `vl-convert`: the reader of the page needs
neither it nor a network. The description of a mark is its `aria-label`; `tips.js` shows it to who points at the mark.
"""

import itertools
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Final
from xml.etree import ElementTree

import altair as alt
import msgspec
import vl_convert
from markupsafe import Markup

from resprout.pipeline.report.figures import Cell, FigureAxis, Grid, Shape
from resprout.pipeline.report.measures import Quantity, Style, legible, style_for

_VEGA_LITE: Final = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
_DATA: Final = "panel"
_FONT: Final = "Liberation Sans"
"""Whose letters the drawer measures: it brings them with it, so every machine makes the same page. The page shows them
in its own type, which is about as wide."""
_CONFIG: Final = alt.Config(
    font=_FONT,
    view=alt.ViewConfig(stroke=None),
    axis=alt.AxisConfig(
        labelColor="var(--quiet)", titleColor="var(--quiet)", titleFontWeight="normal", labelFontSize=11,
        titleFontSize=11, domainColor="var(--quiet)", tickColor="var(--quiet)", gridColor="var(--grid)", titlePadding=9,
    ),
    title=alt.TitleConfig(color="var(--ink)", fontSize=12.5, fontWeight=600, anchor="start", frame="bounds", offset=10),
)  # fmt: skip
_NAMESPACES: Final = re.compile(r' xmlns(:\w+)?="[^"]*"')
_LONG: Final = re.compile(r"(\d\.\d\d)\d+")
_UNUSED: Final = ("font-family", "opacity", "role", "aria-roledescription", "pointer-events", "stroke-miterlimit")
"""What the page's style says for all, or what says nothing."""

WIDE: Final = (360, 236)
NARROW: Final = (290, 214)
_NARROW_FROM: Final = 4
"""So many panels in a row are drawn narrower."""

X_LOG_FROM: Final = 20.0
"""Labels that are numbers and lie further apart than this stand on a logarithmic axis."""
Y_LOG_FROM: Final = 10.0
"""Lines that span more than this many times their least are drawn on a logarithmic scale; bars always begin at zero."""
_INSET: Final = 16
"""Pixels between the ends of the axis and the first and last point of a line."""
_BAR_MOST: Final = 34
_ROOM: Final = 290
"""About the width of what is drawn in."""
_TITLE_LETTERS: Final = 30
_POWERS_WITH_STEPS: Final = 3
_NUMBERS: Final = ",.12~g"
_PERCENTILES: Final = "format(100 - 100 / datum.value, '.6~g')"


class ChartPlan(msgspec.Struct, frozen=True):
    """A chart without its data: panels of one figure differ in nothing else, and Altair takes its time to check one."""

    spec: dict[str, Any]

    def drawn(self, rows: Sequence[Mapping[str, Any]], title: str, told: str) -> Markup:
        """`told`: the whole of it in a sentence, for those who cannot see it."""
        spec = {**self.spec, "datasets": {**self.spec.get("datasets", {}), _DATA: rows}, "title": legible(title)}
        return _for_page(vl_convert.vegalite_to_svg(spec, vl_version=_VEGA_LITE, allowed_base_urls=[]), legible(told))


def planned(layers: Sequence[Any], size: tuple[int, int]) -> ChartPlan:
    width, height = size
    chart = alt.layer(
        *layers,
        width=width,
        height=height,
        autosize=alt.AutoSizeParams(type="fit", contains="padding"),
        padding=2,
        background="transparent",
        config=_CONFIG,
    )
    return ChartPlan(chart.to_dict())


def panel() -> Any:
    """A chart of the rows that `ChartPlan.drawn` is given."""
    return alt.Chart(alt.NamedData(name=_DATA))


def _for_page(svg: str, told: str) -> Markup:
    """Without what only a file by itself needs; a hundredth of a pixel is more exact than any screen."""
    opening, _, rest = svg.partition(">")
    root = ElementTree.fromstring(f"{_NAMESPACES.sub('', opening)}>{rest}")
    root.attrib = {"class": "chart", "viewBox": root.attrib["viewBox"], "role": "img", "aria-label": told}
    for parent in root.iter():
        for child in [child for child in parent if _is_empty(child)]:
            parent.remove(child)
        for name in ("d", "transform"):
            if name in parent.attrib:
                parent.set(name, _LONG.sub(r"\1", parent.attrib[name]))
        if parent is not root:
            for name in _UNUSED:
                parent.attrib.pop(name, None)
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _is_empty(element: ElementTree.Element) -> bool:
    """The grounds of groups, which are neither filled nor outlined here."""
    return (
        element.tag in ("rect", "path")
        and element.get("class") in ("background", "foreground", None)
        and (element.get("fill", "transparent") == "transparent" and element.get("stroke") is None)
    )


class Across(msgspec.Struct, frozen=True):
    """The horizontal axis: where each label stands, as Vega is told."""

    places: dict[str, Any]
    channel: Any


def across(axis: FigureAxis, labels: Sequence[str], shape: Shape, bars: int = 1) -> Across:
    """`bars`: how many stand side by side at each label."""
    title = wrapped(axis.title)
    if shape is Shape.BARS:
        return _of_words(labels, title, _bar_scale(labels, bars))
    numbers = _percentiles(labels) if axis.is_percentile else _rising(labels)
    if numbers is None or len(labels) == 1:
        return _of_words(labels, title, alt.Scale(type="point", domain=_legible(labels), padding=0.5))
    first, last = numbers[0], numbers[-1]
    is_log = axis.is_percentile or (first > 0 and last / first >= X_LOG_FROM)
    scale = alt.Scale(type="log" if is_log else "linear", domain=[first, last], nice=False, zero=False, padding=_INSET)
    written: dict[str, Any] = {"labelExpr": _PERCENTILES} if axis.is_percentile else {"format": _NUMBERS}
    marks = alt.Axis(title=title, values=numbers, grid=False, labelOverlap="greedy", labelFlush=False, **written)
    return Across(dict(zip(labels, numbers, strict=True)), alt.X("x:Q", scale=scale, axis=marks))


def upward(grid: Grid, style: Style) -> Any:
    """The same for all panels of a figure, so that they can be compared."""
    least, most = (_extent(grid)[place] / style.unit.size for place in (0, 1))
    title = titled(grid.figure.value, style)
    if is_log(grid):
        marks = log_marks(least, most)
        scale = alt.Scale(type="log", domain=[marks[0], marks[-1]], nice=False)
        return alt.Y("value:Q", scale=scale, axis=y_axis(title, marks))
    if begins_above_zero(grid):
        scale = alt.Scale(domain=[least, most], nice=True, zero=False)
    else:
        scale = alt.Scale(domain=[0, most or 1], nice=True)
    return alt.Y("value:Q", scale=scale, axis=y_axis(title))


def is_log(grid: Grid) -> bool:
    least, most = _extent(grid)
    return grid.figure.shape is Shape.LINES and least > 0 and most / least >= Y_LOG_FROM


def begins_above_zero(grid: Grid) -> bool:
    """Shares that are nearly all look alike beside nothing."""
    least, most = _extent(grid)
    return grid.figure.quantity is Quantity.SHARE and grid.figure.shape is Shape.LINES and 0 < least < most


def y_axis(title: str, marks: Sequence[float] = ()) -> Any:
    """`marks`: where lines are drawn across, unless that is left to Vega."""
    where: dict[str, Any] = {"values": list(marks)} if marks else {"tickCount": 5}
    return alt.Axis(title=wrapped(title), labelOverlap="greedy", format=_NUMBERS, **where)


def titled(value: str, style: Style) -> str:
    return f"{value}, {style.unit.name}" if style.unit.name else value


def wrapped(title: str) -> list[str]:
    return textwrap.wrap(legible(title), _TITLE_LETTERS) or [""]


def _extent(grid: Grid) -> tuple[float, float]:
    return min(cell.low for cell in grid.cells.values()), max(cell.high for cell in grid.cells.values())


def log_marks(least: float, most: float) -> list[float]:
    """Round numbers around these two; over few powers of ten, with 2 and 5 of each."""
    first, last = math.floor(math.log10(least)), math.ceil(math.log10(most))
    steps = (1, 2, 5) if last - first <= _POWERS_WITH_STEPS else (1,)
    marks = [float(f"{step}e{power}") for power in range(first, last + 1) for step in steps]
    low = max(mark for mark in marks if mark <= least * (1 + 1e-9))
    high = min(mark for mark in marks if mark >= most * (1 - 1e-9))
    return [mark for mark in marks if low <= mark <= high]


def _of_words(labels: Sequence[str], title: list[str], scale: Any) -> Across:
    marks = alt.Axis(title=title, labelAngle=0, labelOverlap="greedy", labelLimit=_ROOM / max(1, min(len(labels), 4)))
    channel = alt.X("x:N", sort=None, scale=scale, axis=marks)
    return Across(dict(zip(labels, _legible(labels), strict=True)), channel)


def _bar_scale(labels: Sequence[str], bars: int) -> Any:
    """Few bars do not grow as wide as their place."""
    gap = min(0.92, max(0.28, 1 - len(labels) * bars * _BAR_MOST / _ROOM))
    return alt.Scale(type="band", domain=_legible(labels), paddingInner=gap, paddingOuter=gap / 2)


def _legible(labels: Sequence[str]) -> list[str]:
    return list(map(legible, labels))


def _percentiles(labels: Sequence[str]) -> list[float]:
    """The more nines, the further to the right: every tenth of what is left takes as much room."""
    return [100 / (100 - float(label)) for label in labels]


def _rising(labels: Sequence[str]) -> list[float] | None:
    """None unless all are numbers, each larger than the one before."""
    try:
        numbers = [float(label) for label in labels]
    except ValueError:
        return None
    rise = all(math.isfinite(number) for number in numbers) and all(a < b for a, b in itertools.pairwise(numbers))
    return numbers if rise else None


class Panels(msgspec.Struct, frozen=True):
    drawings: tuple[Markup, ...]
    look: str
    """How they are arranged: a class of the style sheet."""


def charts(grid: Grid) -> Panels:
    is_narrow = len(grid.panels) >= _NARROW_FROM
    figure, style = grid.figure, style_of(grid)
    along = across(figure.x, grid.xs, figure.shape, len(grid.series))
    draw = _bars if figure.shape is Shape.BARS else _lines
    plan = planned(draw(along, upward(grid, style), grid.series), NARROW if is_narrow else WIDE)
    drawer = _Drawer(grid, style, along, plan)
    places = dict.fromkeys((row, panel) for row, panel, _, _ in grid.cells)
    panels = [drawer.panel(row, panel) for row in grid.rows for panel in grid.panels if (row, panel) in places]
    return Panels(tuple(panels), "narrow" if is_narrow else "one" if len(panels) == 1 else "")


def style_of(grid: Grid) -> Style:
    return style_for(grid.figure.quantity, [cell.median for cell in grid.cells.values()])


class _Drawer(msgspec.Struct, frozen=True):
    grid: Grid
    style: Style
    along: Across
    plan: ChartPlan

    def panel(self, row: str, panel: str) -> Markup:
        figure = self.grid.figure
        title = ", ".join(axis.named(label) for axis, label in ((figure.panels, panel), (figure.rows, row)) if axis)
        told = f"{figure.what}{title and ', '}{title}, by {figure.x.title}; numbers in the table"
        return self.plan.drawn(self._rows(row, panel), title, told)

    def _rows(self, row: str, panel: str) -> list[dict[str, Any]]:
        size, grid = self.style.unit.size, self.grid
        return [
            {
                "x": self.along.places[x],
                "series": legible(name),
                "value": cell.median / size,
                "low": cell.low / size,
                "high": cell.high / size,
                "tip": legible(self._tip(name, x, cell)),
            }
            for name in grid.series
            for x in grid.xs
            if (cell := grid.cells.get((row, panel, x, name))) is not None
        ]

    def _tip(self, name: str, x: str, cell: Cell) -> str:
        runs = f"{cell.runs} runs, {self.style.span(cell.low, cell.high)}" if cell.runs > 1 else "one run"
        runs = runs if cell.runs else "computed"
        where = self.grid.figure.x.named(x)
        return f"{name}, {where}: {self.style.text(cell.median)} ({runs})"


def _bars(along: Across, up: Any, series: Sequence[str]) -> list[Any]:
    names, looks = list(map(legible, series)), looks_of(series)
    base = panel().encode(x=along.channel)
    if len(series) > 1:
        base = base.encode(xOffset=alt.XOffset("series:N", sort=None, scale=alt.Scale(domain=names)))
    bars = base.mark_bar(strokeWidth=1).encode(
        y=up,
        fill=alt.Fill("series:N", scale=_scale(names, [look.fill for look in looks]), legend=None),
        stroke=alt.Stroke("series:N", scale=_scale(names, [look.colour for look in looks]), legend=None),
        description="tip:N",
    )
    return [bars, *_whiskers(base)]


def _lines(along: Across, up: Any, series: Sequence[str]) -> list[Any]:
    base = panel().encode(x=along.channel)
    lines, points = lines_of(base.encode(y=up), series)
    return [lines, *_whiskers(base), points]


def lines_of(base: Any, series: Sequence[str], thickness: float = 2, points: int = 46) -> tuple[Any, Any]:
    """Lines of `series`, and the points on them, which tell their numbers."""
    names, looks = list(map(legible, series)), looks_of(series)
    colours = _scale(names, [look.colour for look in looks])
    dashes = _scale(names, [[int(length) for length in look.dash.split()] or [1, 0] for look in looks])
    return (
        base.mark_line(strokeWidth=thickness, aria=False).encode(
            stroke=alt.Stroke("series:N", scale=colours, legend=None),
            strokeDash=alt.StrokeDash("series:N", scale=dashes, legend=None),
        ),
        base.mark_point(size=points, strokeWidth=points / 46, opacity=1, stroke="var(--ground)").encode(
            fill=alt.Fill("series:N", scale=colours, legend=None),
            shape=alt.Shape("series:N", scale=_scale(names, [look.shape for look in looks]), legend=None),
            description="tip:N",
        ),
    )


def _whiskers(base: Any) -> list[Any]:
    """None where the least is the most."""
    spread = base.transform_filter("datum.low < datum.high")
    ends = [
        spread.mark_tick(aria=False, color="var(--ink)", size=6, thickness=1).encode(y=end)
        for end in ("low:Q", "high:Q")
    ]
    return [spread.mark_rule(aria=False, color="var(--ink)").encode(y="low:Q", y2="high:Q"), *ends]


def _scale(names: list[str], values: Sequence[Any]) -> Any:
    return alt.Scale(domain=names, range=list(values))


class SeriesLook(msgspec.Struct, frozen=True):
    colour: str
    fill: str
    """Of bars."""
    dash: str
    """Of lines: lengths of strokes and gaps; empty for a line without any."""
    shape: str
    """Of points, as Vega calls it."""
    sign: str
    """A letter of that shape, for legends."""


LOOKS: Final = (
    SeriesLook("var(--c0)", "var(--c0)", "", "circle", "●"),
    SeriesLook("var(--c1)", "url(#hatch1)", "6 3", "square", "■"),
    SeriesLook("var(--c2)", "var(--ground)", "2 3", "triangle-up", "▲"),
    SeriesLook("var(--c3)", "url(#hatch3)", "9 3 2 3", "diamond", "◆"),
    SeriesLook("var(--c4)", "var(--f4)", "12 4", "triangle-down", "▼"),
    SeriesLook("var(--c5)", "url(#hatch5)", "4 2 1 2", "cross", "✚"),
)
"""A seventh series would look like the first."""
_FIXED_LOOKS: Final = {"resprout": 0, "ginger": 1}


def looks_of(series: Sequence[str]) -> list[SeriesLook]:
    """The stacks that most figures compare look the same in all of them."""
    if not _FIXED_LOOKS.keys() & set(series):
        return [LOOKS[place % len(LOOKS)] for place in range(len(series))]
    others = [name for name in series if name not in _FIXED_LOOKS]
    places = [_FIXED_LOOKS[name] if name in _FIXED_LOOKS else len(_FIXED_LOOKS) + others.index(name) for name in series]
    return [LOOKS[place % len(LOOKS)] for place in places]
