"""The reference of the Python API lists every public name."""

import re
from collections.abc import Iterator
from pathlib import Path

import resprout


def complaints(root: Path) -> Iterator[str]:
    text = (root / "docs" / "api.md").read_text()
    public = {f"resprout.{name}" for name in resprout.__all__ if name not in ("spark", "sync")}
    public |= {f"resprout.sync.{name}" for name in resprout.sync.__all__}
    listed = set(re.findall(r"auto\w+:: ([\w.]+)", text))
    yield from (f"docs/api.md: does not list {name}" for name in public - listed)
