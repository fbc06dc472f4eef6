"""No two public classes of the sources share a name: whoever reads one knows which is meant."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SOURCES: Final = Path("src/resprout")


def complaints(root: Path) -> Iterator[str]:
    defined: dict[str, list[str]] = {}
    for file in sorted((root / SOURCES).rglob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                defined.setdefault(node.name, []).append(file.relative_to(root).as_posix())
    for name, files in defined.items():
        if len(files) > 1:
            yield f"{files[0]}: {name} is also the name of a class in {' and '.join(files[1:])}"
