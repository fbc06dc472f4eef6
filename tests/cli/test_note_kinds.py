"""The table of the log in docs/monitoring.md lists every kind of note that a broker can write, with its level."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from resprout.cli.voice import LEVELS
from resprout.net.disk_space import ROOM_KINDS

ROOT = Path(__file__).parents[2]
FOLDERS = ("cli", "core", "edge", "links", "net", "order", "overlay", "replicas", "spread", "stacks")
CALLS = {"Note": 0, "note": 0, "log": 1}
"""Who writes a note, and which of the arguments is its kind."""


def in_code() -> set[str]:
    product, lab = ROOT / "src" / "resprout", ROOT / "src" / "resprout_lab"
    files = (file for folder in (*(product / name for name in FOLDERS), lab) for file in folder.rglob("*.py"))
    kinds = {kind for file in files for kind in _kinds(ast.parse(file.read_text()))}
    return kinds | set(ROOM_KINDS.values())


def _kinds(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "retire":
            defaults = [one.value for one in node.args.defaults if isinstance(one, ast.Constant)]
            yield from (one for one in defaults if isinstance(one, str))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "retire":
            yield from (
                str(one.value.value)
                for one in node.keywords
                if one.arg == "kind" and isinstance(one.value, ast.Constant)
            )
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            place = CALLS.get(name.lstrip("_"))
            if place is not None and len(node.args) > place:
                kind = node.args[place]
                if isinstance(kind, ast.IfExp):
                    yield from (str(one.value) for one in (kind.body, kind.orelse) if isinstance(one, ast.Constant))
                elif isinstance(kind, ast.Constant) and isinstance(kind.value, str):
                    yield kind.value


def in_table() -> dict[str, str]:
    """Level by kind."""
    _, _, log = (ROOT / "docs" / "monitoring.md").read_text().partition("| kind | level |")
    rows = re.findall(r"^\| (`[^|]*`) \| ([^|]*) \|", log, re.MULTILINE)
    found: dict[str, str] = {}
    for kinds, levels in rows:
        names, words = re.findall(r"`(\w+)`", kinds), levels.split(", ")
        found |= dict(zip(names, words if len(words) == len(names) else words * len(names), strict=True))
    return found


def test_every_kind_of_note_is_in_the_table_with_its_level() -> None:
    table = in_table()
    assert sorted(table) == sorted(in_code())
    levels = {kind: LEVELS.get(kind, "info" if kind == "start" else "warning") for kind in table}
    assert table == levels
