"""No two public classes of the sources share a name: whoever reads one knows which is meant.

The same holds for a name that a module gives to a type (`Pair = tuple[str, str]`), where others import it.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SOURCES: Final = Path("src/resprout")


def complaints(root: Path) -> Iterator[str]:
    trees = {file: ast.parse(file.read_text()) for file in sorted((root / SOURCES).rglob("*.py"))}
    imported = {pair for tree in trees.values() for pair in _imports(tree)}
    defined: dict[str, dict[str, str]] = {}
    for file, tree in trees.items():
        module = ".".join(file.relative_to(root / SOURCES.parent).with_suffix("").parts)
        for node in tree.body:
            name = _class_or_alias(node)
            is_class = isinstance(node, ast.ClassDef)
            is_public = is_class or (module, name) in imported
            if name is not None and not name.startswith("_") and is_public:
                what = "a class" if is_class else "a type"
                defined.setdefault(name, {})[file.relative_to(root).as_posix()] = what
    for name, places in defined.items():
        (first, _), *others = places.items()
        if others:
            yield f"{first}: {name} is also the name of " + " and ".join(f"{what} in {file}" for file, what in others)


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(module, name)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from ((node.module, alias.name) for alias in node.names)


def _class_or_alias(node: ast.stmt) -> str | None:
    """What is written like a class, and is one or stands for a type."""
    if isinstance(node, ast.ClassDef):
        return node.name
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        name = node.targets[0].id
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        name = node.target.id
    else:
        return None
    return name if name[:1].isupper() and not name.isupper() else None
