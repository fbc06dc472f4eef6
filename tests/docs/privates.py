"""Tests look at behaviour: uses of private attributes of others are counted, and their number does not grow.

Those that are left look at what nothing else shows (a structure that has to hold together after every step), or break a
broker on purpose, or take its time away. A name that stands there as text, alone or behind a module of the sources,
counts as well: it is there to replace what it names. Tests of the corrections to a document (`test_*_corrections.py`)
are not counted: each takes one correction out again, and that is inside; nor are those of this check.
"""

import ast
import re
from pathlib import Path
from typing import Final

ALLOWED: Final = 24
"""So many are left. Whoever removes one lowers it."""

OWN: Final = frozenset(("self", "cls"))
NO_SECRET: Final = frozenset(("_exit", "_replace", "_asdict", "_fields"))
"""Of the standard library, where an underscore keeps names apart."""
_NAME: Final = re.compile(r"(resprout\.[\w.]+\.)?_(?:[a-z]\w+|[A-Z][A-Z0-9_]+)")


def complaints(root: Path) -> list[str]:
    paths = [path for path in sorted((root / "tests").rglob("*.py")) if not path.name.endswith("_corrections.py")]
    found = [use for path in paths if path.parent.name != "docs" for use in uses(path, root)]
    if len(found) <= ALLOWED:
        return []
    where = ", ".join(found[-5:])
    return [f"tests use {len(found)} private attributes of others, at most {ALLOWED} are allowed; among them: {where}"]


def uses(path: Path, root: Path) -> list[str]:
    """Where, and what."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and not _is_own(node.value):
            name = node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _NAME.fullmatch(node.value):
            name = node.value.rpartition(".")[2]  # to be got or replaced by its name: that is no other use
        else:
            continue
        if _is_private(name):
            found.append(f"{path.relative_to(root)}:{node.lineno} {name}")
    return found


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in NO_SECRET


def _is_own(value: ast.expr) -> bool:
    """Of the object itself, or of what it inherits from."""
    return (isinstance(value, ast.Name) and value.id in OWN) or (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "super"
    )
