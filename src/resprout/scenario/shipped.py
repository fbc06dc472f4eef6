"""Scenarios and sweeps that come with installed packages, by name: `resprout sim bank` works in any folder.

Those of this package are in `scenario/files`. Another package adds its own with an entry point of the group
`resprout.experiments` whose value is the name of the package: the files of its folders `scenarios` and `sweeps`.
"""

import functools
from pathlib import Path
from typing import Final, Literal

from resprout.scenario.source import ScenarioError, TomlSource, read_source

Kind = Literal["scenarios", "sweeps"]
GROUP: Final = "resprout.experiments"
OWN: Final = Path(__file__).parent / "files"


@functools.cache
def shipped(kind: Kind) -> dict[str, Path]:
    """Return the files of every installed package, by name. Of two with one name the file of this package counts."""
    import importlib.util  # here: brokers read no scenarios, and these take time to import
    from importlib.metadata import entry_points

    folders = [OWN] if kind == "scenarios" else []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        found = importlib.util.find_spec(entry.value)
        folders += [Path(place) / kind for place in (found.submodule_search_locations or ())] if found else []
    files = [path for folder in reversed(folders) for path in sorted(folder.glob("*.toml"))]
    return {path.stem: path for path in files}


def read_shipped(path: str | Path, kind: Kind) -> TomlSource:
    """Read a file, or one that comes with a package if `path` is a plain name and no such file exists."""
    return read_source(find_file(path, kind), str(path))


def find_file(path: str | Path, kind: Kind) -> Path:
    """Return the file that a path or a name stands for. Raises ScenarioError for a name that no package has."""
    text, named = str(path), Path(path)
    if named.name != text or named.suffix == ".toml" or _exists(named):
        return named
    if (found := shipped(kind).get(text)) is None:
        known = ", ".join(sorted(shipped(kind)))
        raise ScenarioError(f"{text}: no such file, and no installed package has {kind} of that name: {known}")
    return found


def _exists(path: Path) -> bool:
    """Whether it names a file, or could never name one: then reading it tells why."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return True
