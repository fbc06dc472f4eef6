"""What a chapter of the page is: an experiment with a sweep of its own, and its figures."""

from collections.abc import Callable

import msgspec

from resprout.pipeline.report.figures import Figure, Grid


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

    @property
    def series(self) -> str:
        """The document that its experiment is from: `seed000`."""
        return self.experiment.partition("-")[0]
