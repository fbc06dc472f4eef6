"""A scenario before it is understood: the TOML tree, and for everything in it the place to blame.

Overrides (`--set path.to.option=value`) change the tree and blame themselves from then on.
"""

import copy
import itertools
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path as FilePath
from typing import Any, Final, NoReturn

from resprout.scenario.errors import ScenarioError
from resprout.scenario.positions import TomlPath, find_positions

SOURCE_BYTES_MAX: Final = 64 << 20

_POSITION: Final = re.compile(r"\(at line (\d+), column \d+\)")


class TomlSource:
    """A TOML tree with places. `name` is how the user calls it: a file's path, or a word such as `<drawn>`."""

    __slots__ = ("_lines", "_overridden", "name", "tree")

    def __init__(self, name: str, tree: dict[str, Any], lines: dict[TomlPath, int]) -> None:
        self.name = name
        self.tree = tree
        self._lines = lines
        self._overridden: dict[TomlPath, str] = {}

    def place(self, path: TomlPath) -> str:
        """Where this stands; else what was overridden inside it; else the nearest thing around it that has a place."""
        around = [path[:end] for end in range(len(path), 0, -1)]
        for nearest in around:  # before any line: an override replaces everything below it
            if nearest in self._overridden:
                return self._overridden[nearest]
        if path not in self._lines:
            inside = (place for below, place in self._overridden.items() if path and below[: len(path)] == path)
            if (place := next(inside, None)) is not None:
                return place
        for nearest in around:
            if nearest in self._lines:
                return f"{self.name}:{self._lines[nearest]}"
        return self.name

    def fail(self, path: TomlPath, reason: str) -> NoReturn:
        raise ScenarioError(f"{self.place(path)}: {reason}")

    def overridden(self, overrides: Iterable[str]) -> "TomlSource":
        changed = TomlSource(self.name, copy.deepcopy(self.tree), self._lines)
        changed._overridden = dict(self._overridden)
        for text in overrides:
            path, value = _assignment(text, changed.tree)
            _put(changed.tree, path, value)
            changed._overridden[path] = f"--set {text}"
        return changed


def read_source(path: str | FilePath) -> TomlSource:
    """A scenario file. Raises ScenarioError when it cannot be read or is not TOML."""
    try:
        with FilePath(path).open("rb") as file:
            data = file.read(SOURCE_BYTES_MAX + 1)
        text = data.decode()
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ScenarioError(f"{path}: not UTF-8 text") from None
    if len(data) > SOURCE_BYTES_MAX:
        raise ScenarioError(f"{path}: larger than {SOURCE_BYTES_MAX >> 20} MiB")
    return parse_source(text, str(path))


def parse_source(text: str, name: str) -> TomlSource:
    """A scenario given as text; `name` stands for the file in errors."""
    try:
        return TomlSource(name, tomllib.loads(text), find_positions(text))
    except tomllib.TOMLDecodeError as error:
        reason = str(error).partition("\n")[0]
        found = _POSITION.search(reason)
        line = int(found[1]) if found else text.rstrip().count("\n") + 1
        raise ScenarioError(f"{name}:{line}: not TOML: {_POSITION.sub('', reason).strip()}") from None
    except RecursionError:
        raise ScenarioError(f"{name}: nested too deeply") from None


def apply_overrides(source: TomlSource, overrides: Iterable[str]) -> TomlSource:
    """A changed copy.

    Each override is `path.to.option=value`. A step into a list is an index, or the `name` of an element (`broker.b1`);
    the index after the last appends a table. The value is a TOML value; anything else is taken as a text, so
    `latency=5ms` needs no quotes.
    """
    return source.overridden(overrides)


def _assignment(text: str, tree: dict[str, Any]) -> tuple[TomlPath, Any]:
    steps, equals, value = text.partition("=")
    keys = [step.strip() for step in steps.split(".")]
    if not equals or not all(keys):
        raise ScenarioError(f"--set {text}: write path.to.option=value")
    path: TomlPath = ()
    here: Any = tree
    for key in keys:
        step = _step(here, key, text)
        path = (*path, step)
        here = _child(here, step)
    return path, _value(value.strip())


def _step(here: Any, key: str, text: str) -> str | int:
    if isinstance(here, dict):
        return key
    if not isinstance(here, list):
        raise ScenarioError(f"--set {text}: there is nothing to name by {key!r} inside a single value")
    if key.isascii() and key.isdigit():
        if int(key) > len(here):
            raise ScenarioError(f"--set {text}: there are only {len(here)} before index {key}")
        return int(key)
    for number, element in enumerate(here):
        if isinstance(element, dict) and element.get("name") == key:
            return number
    raise ScenarioError(f"--set {text}: no element named {key!r}; lists take an index or a name")


def _child(here: Any, step: str | int) -> Any:
    """What stands there; where nothing does yet, what an assignment beneath it would create."""
    if isinstance(here, dict):
        return here.get(str(step), [] if step in ("broker", "client", "workload", "fault") else {})
    assert isinstance(step, int)
    return here[step] if step < len(here) else {}


def _put(tree: dict[str, Any], path: TomlPath, value: Any) -> None:
    here: Any = tree
    for step, following in itertools.pairwise(path):
        if isinstance(here, list):
            assert isinstance(step, int)
            if step == len(here):
                here.append({})
            here = here[step]
        else:
            here = here.setdefault(step, [] if isinstance(following, int) else {})
    if isinstance(here, list) and path[-1] == len(here):
        here.append(value)
    else:
        here[path[-1]] = value


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"] if "\n" not in text else text
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
