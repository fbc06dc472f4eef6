"""The one place where commands write to a terminal, a pipe or a log: everything is escaped here (docs/decisions/23).

Lines for people go through `tell`, JSON through `json_line`, messages of a
subscription through `cli.standard_io.Output`. No other module of the commands prints (tests/cli/test_console.py).
"""

import logging
import shutil
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
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
