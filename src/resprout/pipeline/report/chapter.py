"""What a chapter of the page is: an experiment with a sweep of its own, and its figures."""

from collections.abc import Callable, Sequence

import msgspec

from resprout.pipeline.report.facts import RunFacts
from resprout.pipeline.report.figures import Figure, Grid
from resprout.pipeline.report.page_tables import PageTable


class Chapter(msgspec.Struct, frozen=True, kw_only=True):
    experiment: str
    """The name of the sweep."""
    title: str
    about: str
    sweep: str
    """The file that makes its runs."""
    figures: tuple[Figure, ...]
    computed: Callable[[], tuple[Grid, ...]] | None = None
    """Figures that need no runs."""
    table: Callable[[Sequence[RunFacts]], PageTable] | None = None
    """Of all its runs; comes before the figures."""

    @property
    def series(self) -> str:
        """The document that its experiment is from: `seed000`."""
        return self.experiment.partition("-")[0]
