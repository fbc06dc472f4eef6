"""The one place where commands write to a terminal, a pipe or a log: everything is escaped here (docs/decisions/23).

Lines for people go through `tell`, JSON through `json_line`, messages of a subscription through `cli.loop.Output`. No
other module of the commands prints (tests/cli/test_console.py). `table_lines` aligns the columns of a table;
`progress_line` and `count_runs` show how far a command is.
"""

import logging
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from types import TracebackType
from typing import Any

import click
import msgspec

from resprout.core.errors import LINE_LETTERS_MAX, escape, escape_json


def tell(line: str, *, err: bool = False) -> None:
    """Print one line; what would end it, or steer the terminal, is escaped."""
    overwrite("")
    click.echo(escape(line, letters_max=LINE_LETTERS_MAX), err=err)


def tell_lines(lines: Iterable[str], *, err: bool = False) -> None:
    for line in lines:
        tell(line, err=err)


def tell_json(value: Any, *, err: bool = False) -> None:
    """Print the value as JSON on one line, however long."""
    click.echo(json_line(value), err=err)


def json_line(value: Any) -> str:
    """Return the value as JSON on one line, without letters that steer a terminal."""
    return escape_json(msgspec.json.encode(value).decode())


_progress_line = ""


def overwrite(line: str) -> None:
    """Replace the progress line of a terminal by this one, or remove it; nothing in a pipe."""
    global _progress_line
    if sys.stderr.isatty() and line != _progress_line:
        fitting = escape(line, letters_max=LINE_LETTERS_MAX)[: shutil.get_terminal_size().columns - 1]
        click.echo(f"\r\033[K{fitting}", nl=False, err=True)
        _progress_line = line


@contextmanager
def full_screen() -> Iterator[Callable[[Iterable[str]], None]]:
    """Give a function that draws lines on a screen of their own. The screen is restored at the end."""

    def draw(lines: Iterable[str]) -> None:
        columns, rows = shutil.get_terminal_size()
        fitting = [escape(line, letters_max=LINE_LETTERS_MAX)[:columns] for line in islice(lines, rows - 1)]
        click.echo("\033[H\033[J" + "\n".join(fitting))

    click.echo("\033[?1049h\033[?25l", nl=False)
    try:
        yield draw
    finally:
        click.echo("\033[?25h\033[?1049l", nl=False)


class _EscapingFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return escape(super().format(record), keep="\t\n")


def escape_strays() -> None:
    """Escape what Python itself would print: records that no handler takes, and the traceback of a fault of ours."""
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    handler.setFormatter(_EscapingFormatter("%(message)s"))
    logging.lastResort = handler
    sys.excepthook = _tell_fault


def _tell_fault(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    for part in traceback.format_exception(kind, error, trace):
        tell_lines(part.rstrip("\n").split("\n"), err=True)


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
