"""The section of the page that a sweep asks for: the tables `[report]` and `[[figure]]` of its file.

`resprout sweep` keeps them beside the runs, so that `resprout report` needs nothing but the archive:

    ARCHIVE/figures/EXPERIMENT.json

A sweep may name tables and computed figures that installed packages bring, for what no `[[figure]]` can say:

    [project.entry-points."resprout.tables"]
    mine = "my_package:my_table"  # (Sequence[RunFacts]) -> PageTable

    [project.entry-points."resprout.figures"]
    mine = "my_package:my_figures"  # () -> tuple[Grid, ...]
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Final

import msgspec

from resprout.pipeline.errors import PipelineError
from resprout.pipeline.places import FIGURES_FOLDER, is_archive
from resprout.pipeline.report.facts import RunFacts
from resprout.pipeline.report.figures import Figure, FigureAxis, Grid, Shape
from resprout.pipeline.report.measures import MEASURES, RUN_AXES
from resprout.pipeline.report.page_tables import PageTable
from resprout.pipeline.stores import Location, found_in, put
from resprout.scenario.load import Sweep, load_sweep
from resprout.scenario.reader import TomlTable, suggestion
from resprout.scenario.source import read_shipped

FIGURES_MAX: Final = 100
ORDER_MAX: Final = 1_000_000
_AXES: Final = ("rows", "panels", "x", "series")
_KEYS: Final = ("title", "measure", "value", *_AXES, "shape", "note", "claim")

TABLES: Final = "resprout.tables"
COMPUTED: Final = "resprout.figures"


class SweepReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    experiment: str
    """The name of the sweep."""
    sweep: str
    """The file that makes its runs, as it was named to the command."""
    title: str = ""
    about: str = ""
    order: int = 0
    """The section comes after those of lower numbers; sections of one number are in the order of their names."""
    table: str = ""
    """Over all its runs, before the figures; the name of an entry point."""
    figures: tuple[Figure, ...] = ()
    computed: tuple[str, ...] = ()
    """Figures that need no runs, after the others; names of entry points."""

    @property
    def heading(self) -> str:
        return self.title or self.experiment

    @property
    def is_empty(self) -> bool:
        """The file has neither `[report]` nor `[[figure]]`."""
        return self == SweepReport(experiment=self.experiment, sweep=self.sweep)

    @property
    def has_figures(self) -> bool:
        """False for a report that leaves them to `general_figures`."""
        return bool(self.table or self.figures or self.computed)


# -- from a sweep file -------------------------------------------------------------------------------------------------


def load_report(path: str | Path) -> SweepReport:
    """Raise ScenarioError, in one line with the place, for a file with a table that cannot be drawn."""
    sweep = load_sweep(path)
    file = TomlTable(read_shipped(path, "sweeps"), ())
    figures = tuple(_figure(table, sweep) for table in file.tables("figure", FIGURES_MAX, "figure"))
    head = _head(TomlTable(file.source, ("report",), "report")) if "report" in file else {}
    return SweepReport(experiment=sweep.name, sweep=str(path), figures=figures, **head)


def _head(table: TomlTable) -> dict[str, Any]:
    table.only(("title", "about", "order", "table", "computed"))
    computed = table.texts("computed", FIGURES_MAX, ())
    for number, name in enumerate(computed):
        if name not in installed(COMPUTED):
            table.fail(("computed", number), f"unknown computed figure {name!r}{suggestion(name, installed(COMPUTED))}")
    return {
        "title": table.text("title", ""),
        "about": table.text("about", ""),
        "order": table.integer("order", -ORDER_MAX, ORDER_MAX, 0),
        "table": table.choice("table", installed(TABLES), ""),
        "computed": computed,
    }


def _figure(table: TomlTable, sweep: Sweep) -> Figure:
    title = table.text("title")
    table.what = f"figure {title!r}"
    table.only(_KEYS)
    x = _axis(table, "x")
    if x is None:
        table.fail("", "'x' is missing")
    figure = Figure(
        title=title,
        measure=table.choice("measure", MEASURES),
        value=table.text("value"),
        x=x,
        panels=_axis(table, "panels"),
        rows=_axis(table, "rows"),
        series=_axis(table, "series") or FigureAxis("stack", "stack"),
        shape=Shape(table.choice("shape", [shape.value for shape in Shape], Shape.BARS.value)),
        note=table.text("note", ""),
        claim=table.text("claim", ""),
    )
    _check_axes(table, figure, sweep)
    return figure


def _axis(table: TomlTable, key: str) -> FigureAxis | None:
    """A name, or a table that also says how readers call it."""
    if key not in table:
        return None
    value = table.values[key]
    if isinstance(value, str):
        return FigureAxis(value, value)
    if not isinstance(value, dict):
        table.fail(key, f"{key} must be the name of an axis, or a table with its name and title")
    own = TomlTable(table.source, (*table.path, key), f"{table.what}, {key}")
    own.only(("name", "title", "one", "many"))
    if ("one" in own) != ("many" in own):
        own.fail("", "'one' and 'many' come together")
    name = own.text("name")
    return FigureAxis(name, own.text("title", name), own.text("one", ""), own.text("many", ""))


def _check_axes(table: TomlTable, figure: Figure, sweep: Sweep) -> None:
    """Every axis exists, and all numbers of a place differ by their seed alone: that is what the page says of them."""
    measure = MEASURES[figure.measure]
    known = dict.fromkeys((*measure.axes, *(axis.name for axis in sweep.axes), *RUN_AXES))
    placed = set()
    for key, axis in zip(_AXES, figure.axes, strict=True):
        for name in axis.name.split(",") if axis is not None else ():
            if name not in known:
                table.fail(key, f"unknown axis {name!r}{suggestion(name, known)}")
            placed.add(name)
    varied = (*measure.axes, *(axis.name for axis in sweep.axes if len(axis.points) > 1))
    if mixed := [name for name in varied if name not in placed]:
        table.fail("", f"it has a number for each {mixed[0]}; give {mixed[0]!r} a place: x, panels, rows or series")


# -- beside the runs ---------------------------------------------------------------------------------------------------


def keep_report(archive: Location, report: SweepReport) -> None:
    """Replace what the archive holds of this experiment. The file appears whole."""
    path = archive / FIGURES_FOLDER / f"{report.experiment}.json"
    try:
        if report.is_empty:
            path.unlink(missing_ok=True)
        else:
            put(path, msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    except OSError as error:
        raise PipelineError(f"{path}: cannot be written: {(error.strerror or str(error)).lower()}") from None


def known_reports(folders: Iterable[Location], sweeps: Sequence[Path] = ()) -> list[SweepReport]:
    """The reports of these sweep files, and those that archives hold of other experiments. Of two archives, the first
    counts."""
    found: dict[str, SweepReport] = {}
    for path in sweeps:
        report = load_report(path)
        if (other := found.setdefault(report.experiment, report)) is not report:
            raise PipelineError(f"--sweep {path}: {other.sweep} is the sweep {report.experiment!r}, too")
    for folder in filter(is_archive, folders):
        for kept in found_in(folder / FIGURES_FOLDER, "*.json"):
            report = _read(kept)
            if report.experiment not in found:
                _check_names(kept, report)
                found[report.experiment] = report
    return [report for report in found.values() if not report.is_empty]


def _read(path: Location) -> SweepReport:
    try:
        return msgspec.json.decode(path.read_bytes(), type=SweepReport)
    except OSError as error:
        raise PipelineError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise PipelineError(f"{path}: damaged: {error}") from None


def _check_names(path: Location, report: SweepReport) -> None:
    """What was known to the program that kept the figures may be unknown to this one."""
    known = (
        ("measure", MEASURES, [figure.measure for figure in report.figures]),
        ("table", installed(TABLES), [report.table] if report.table else []),
        ("computed figure", installed(COMPUTED), report.computed),
    )
    for what, names, used in known:
        for name in used:
            if name not in names:
                instead = "install the package that has it, or give --sweep with a file that does without"
                raise PipelineError(f"{path}: unknown {what} {name!r}; {instead}")


@functools.cache
def installed(group: str) -> dict[str, EntryPoint]:
    """By name. Nothing is imported."""
    return {entry.name: entry for entry in sorted(entry_points(group=group), key=lambda entry: entry.name)}


def table_of(name: str, facts: Sequence[RunFacts]) -> PageTable:
    table: PageTable = _loaded(TABLES, name)(facts)
    return table


def computed_figures(name: str) -> tuple[Grid, ...]:
    grids: tuple[Grid, ...] = _loaded(COMPUTED, name)()
    return grids


def _loaded(group: str, name: str) -> Callable[..., Any]:
    entry = installed(group)[name]
    try:
        found: Callable[..., Any] = entry.load()
    except Exception as error:  # importing the module of another package can raise anything
        reason = " ".join(str(error).split())[:200]
        raise PipelineError(f"{name!r} ({entry.value}) cannot be loaded: {type(error).__name__}: {reason}") from None
    return found
