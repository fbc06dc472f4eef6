"""Tests look at behaviour: uses of private attributes of others are counted, and their number does not grow.

Those that are left look at what nothing else shows (a structure that has to hold together after every step), or break a
broker on purpose, or take its time away. A name that is given as text, to replace what it names, counts as well. Tests
of the corrections to a document (`test_*_corrections.py`) are not counted: each takes one correction out again, and
that is inside.
"""

import ast
from pathlib import Path
from typing import Final

ALLOWED: Final = 17
"""So many are left. Whoever removes one lowers it."""

OWN: Final = frozenset(("self", "cls"))
NO_SECRET: Final = frozenset(("_exit", "_replace", "_asdict", "_fields"))
"""Of the standard library, where an underscore keeps names apart."""


def complaints(root: Path) -> list[str]:
    paths = [path for path in sorted((root / "tests").rglob("*.py")) if not path.name.endswith("_corrections.py")]
    found = [use for path in paths for use in uses(path, root)]
    if len(found) <= ALLOWED:
        return []
    where = ", ".join(found[-5:])
    return [f"tests use {len(found)} private attributes of others, at most {ALLOWED} are allowed; among them: {where}"]


def uses(path: Path, root: Path) -> list[str]:
    """Where, and what."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and _is_private(node.attr) and not _is_own(node.value):
            found.append(f"{path.relative_to(root)}:{node.lineno} {node.attr}")
        elif isinstance(node, ast.Call) and (name := _named(node)) is not None and _is_private(name):
            found.append(f"{path.relative_to(root)}:{node.lineno} {name}")
    return found


def _named(call: ast.Call) -> str | None:
    """What is got or replaced by its name, as text: that is no other use."""
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if called in ("setattr", "getattr", "object") and len(call.args) >= 2:
        name = call.args[1]
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            return name.value
    return None


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in NO_SECRET


def _is_own(value: ast.expr) -> bool:
    """Of the object itself, or of what it inherits from."""
    return (isinstance(value, ast.Name) and value.id in OWN) or (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "super"
    )
