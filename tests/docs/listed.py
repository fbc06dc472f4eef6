"""Ready-made scenarios and sweeps, and the documents themselves, are in the lists that readers look through."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

LISTS: Final = {
    "docs/scenarios.md": ("src/resprout/scenario/files/*.toml", "src/resprout_lab/scenarios/*.toml"),
    "docs/sweeps.md": ("src/resprout_lab/sweeps/*.toml",),
    "docs/README.md": ("docs/*.md", "docs/howto/*.md", "docs/stacks/*.md", "docs/experiments/*.md"),
}
"""List -> the files that it names: each by its path from the folder of the list, or else by its name."""


def complaints(root: Path) -> Iterator[str]:
    for name, patterns in LISTS.items():
        document = root / name
        text = document.read_text() if document.exists() else ""
        for file in sorted(file for pattern in patterns for file in root.glob(pattern)):
            inside = file.relative_to(document.parent).as_posix() if file.is_relative_to(document.parent) else file.name
            if file != document and f"`{inside}`" not in text and f"({inside})" not in text:
                yield f"{name}: does not list {file.relative_to(root)}"
