"""Tables and progress on a terminal: the part of `cli.console` that needs `rich`, which takes its time to import."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from resprout.core.escaping import escape


class TerminalConsole(Console):
    """A console of `rich` that writes its own control sequences, and escapes those of others."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control or text.isprintable() else Segment(escape(text, keep="\t\n"), style)

    def on_broken_pipe(self) -> None:
        """Leave it to `main` what a reader that has gone away means."""
        raise BrokenPipeError
