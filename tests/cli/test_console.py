"""No module prints around `resprout.cli.console`, where all output is escaped (docs/decisions/23)."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import resprout

ROOT = Path(resprout.__file__).parent

ALLOWED = {
    "cli/console.py": "the one place",
    "cli/loop.py": "messages of a subscription: escapes text, writes bytes as they are",
    "cli/load/worker.py": "a process that talks JSON with the benchmark that started it",
    "net/disk.py": "writes files",
    "net/run/exchange.py": "writes files",
    "net/run/worker.py": "a process that talks JSON with the coordinator that started it",
    "pipeline/session.py": "says to a terminal that an interrupt waits for Spark",
}
"""Modules that may write, and why."""

STREAMS = {"sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__"}
WRITERS = {
    "print", "pprint", "click.echo", "click.secho", "click.echo_via_pager", "os.write", "warnings.warn",
    "traceback.print_exc", "traceback.print_exception", "rich.print", "Console", "rich.console.Console",
    "logging.StreamHandler", "logging.basicConfig",
}  # fmt: skip


MARKS = (*(writer.rpartition(".")[2] for writer in WRITERS), "stdout", "stderr", "__stdout__", "__stderr__")


def prints_in(source: str) -> Iterator[tuple[int, str]]:
    """Calls that write to a terminal, with their lines. Most files name none of them, and need not be parsed."""
    if not any(mark in source for mark in MARKS):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            called = _dotted(node.func)
            stream, _, method = called.rpartition(".")
            if called in WRITERS or (method in ("write", "writelines") and stream.removesuffix(".buffer") in STREAMS):
                yield node.lineno, called
            elif any(_dotted(word.value) in STREAMS for word in node.keywords) or any(
                _dotted(argument) in STREAMS for argument in node.args if called != "isinstance"
            ):
                yield node.lineno, f"{called} is given a stream"


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


@pytest.mark.parametrize(
    "source",
    [
        "print('x')",
        "click.echo(name)",
        "import sys\nsys.stdout.write(name)",
        "sys.stderr.buffer.write(b'')",
        "print(name, file=sys.stderr)",
        "json.dump(found, sys.stdout)",
        "Console().print(name)",
        "os.write(1, name)",
    ],
)
def test_the_check_finds_what_prints(source: str) -> None:
    assert list(prints_in(source))


def test_nobody_prints_around_the_console() -> None:
    found = [
        f"{name}:{line}: {called}"
        for path in sorted(ROOT.rglob("*.py"))
        if (name := path.relative_to(ROOT).as_posix()) not in ALLOWED
        for line, called in prints_in(path.read_text())
    ]
    assert not found, "write with resprout.cli.console instead"


def test_those_who_may_print_do() -> None:
    """A module that has stopped to print is no exception any more."""
    for name in ALLOWED:
        assert name == "cli/console.py" or list(prints_in((ROOT / name).read_text())), name
