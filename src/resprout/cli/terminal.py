"""Tables and progress bars on a terminal: the part of `cli.console` that needs `rich`, which is slow to import."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
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


class Shown:
    def __init__(self, bar: Progress | None, word: str, done: int, of: int | None) -> None:
        self._bar = bar
        self._task = bar.add_task(word, total=of, completed=done) if bar is not None else None

    def show(self, done: int, of: int) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, total=of)

    def hide(self) -> None:
        """Before something else is written."""
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def shown(word: str, done: int = 0, of: int | None = None) -> Iterator[Shown]:
    """A bar with the number of runs done and the time left; gone when the block is over. What is `done` when it begins
    tells nothing about the time that the rest takes."""
    console = TerminalConsole(stderr=True)
    if not console.is_terminal or not sys.stderr.isatty():
        yield Shown(None, word, done, of)
        return
    columns = (
        TextColumn("runs {task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        yield Shown(bar, word, done, of)
