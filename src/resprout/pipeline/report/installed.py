"""Tables and computed figures that installed packages bring, for what no `[[figure]]` can say. A sweep names them.

[project.entry-points."resprout.tables"]
mine = "my_package:my_table"  # (Sequence[RunFacts]) -> PageTable

[project.entry-points."resprout.figures"]
mine = "my_package:my_figures"  # () -> tuple[Grid, ...]
"""

import functools
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from resprout.pipeline.errors import PipelineError
from resprout.pipeline.report.facts import RunFacts
from resprout.pipeline.report.figures import Grid
from resprout.pipeline.report.page_tables import PageTable

TABLES: Final = "resprout.tables"
COMPUTED: Final = "resprout.figures"


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
