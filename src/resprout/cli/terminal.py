"""Tables for a terminal or a pipe, and a line that tells how far a command is."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from resprout.cli.console import overwrite


def table_lines(rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()) -> list[str]:
    """Return the rows as lines with aligned columns; the columns in `numbers` are aligned on the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if at in numbers else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


@contextmanager
def progress_line(first: str) -> Iterator[Callable[[str], None] | None]:
    """Show a line on a terminal that each call replaces, and remove it at the end. In a pipe: None."""
    if not sys.stderr.isatty():
        yield None
        return
    overwrite(first)
    try:
        yield overwrite
    finally:
        overwrite("")


class RunCount:
    """The number of runs done, on a terminal, with the time that the rest will take."""

    def __init__(self, verb: str, done: int) -> None:
        self._verb = verb
        self._before = done
        self._began = time.monotonic()

    def show(self, done: int, of: int) -> None:
        rate = (done - self._before) / max(time.monotonic() - self._began, 0.001)
        left = f", about {(of - done) / rate:,.0f} s left" if rate else ""
        overwrite(f"{done} of {of} runs {self._verb}{left}")

    def hide(self) -> None:
        """Before something else is written."""
        overwrite("")


@contextmanager
def count_runs(verb: str, done: int = 0) -> Iterator[RunCount]:
    """Show how many runs are done while the block runs. Those `done` at the beginning do not count for the rate."""
    count = RunCount(verb, done)
    try:
        yield count
    finally:
        count.hide()
