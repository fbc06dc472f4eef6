"""How far long work has come: on a terminal, and nothing in a pipe."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from resprout.cli.terminal import TerminalConsole


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
