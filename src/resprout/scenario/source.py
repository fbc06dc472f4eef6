"""A scenario before it is understood: its file, the TOML tree, and the line to blame for everything in the tree.

A scenario is named by a path, or by the plain name of one that comes with an installed package: `resprout sim bank`
works in any folder. This package has its files in `scenario/files`. Another package adds its own with an entry point of
the group `resprout.experiments` whose value is the name of the package: the files of its folders `scenarios` and
`sweeps`.

Overrides (`--set path.to.option=value`) change the tree and are blamed from then on.

`tomllib` tells values without their places, and a scenario's error must name its line. So `find_positions` scans the
text for the line of every key, table and array element. The text is one that `tomllib` has already accepted: the
scanner follows the grammar only as far as needed to find keys and the extent of values, and judges nothing. A path is
what one would subscript with: `("broker", 3, "parent")`.
"""

import bisect
import copy
import functools
import itertools
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from pathlib import Path as FilePath
from typing import Any, Final, Literal, NoReturn

from resprout.core.errors import UsageError

SOURCE_BYTES_MAX: Final = 64 << 20

_POSITION: Final = re.compile(r"\(at line (\d+), column \d+\)")

TomlPath = tuple[str | int, ...]

_BLANK: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE: Final = re.compile(r"[ \t]*")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_PLAIN: Final = re.compile(r"[^,\]}#\n]+")  # numbers, booleans, dates
_TEXT: Final = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"{3,5}'
    r"|'''(?:[^']|'(?!''))*'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)

Kind = Literal["scenarios", "sweeps"]
GROUP: Final = "resprout.experiments"
OWN: Final = Path(__file__).parent / "files"


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


def read_source(path: str | FilePath, name: str | None = None) -> TomlSource:
    """Read a scenario file; `name` stands for it in errors. Raises ScenarioError if it is not readable TOML."""
    name = name or str(path)
    try:
        with FilePath(path).open("rb") as file:
            data = file.read(SOURCE_BYTES_MAX + 1)
        text = data.decode()
    except OSError as error:
        raise ScenarioError(f"{name}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ScenarioError(f"{name}: not UTF-8 text") from None
    if len(data) > SOURCE_BYTES_MAX:
        raise ScenarioError(f"{name}: larger than {SOURCE_BYTES_MAX >> 20} MiB")
    return parse_source(text, name)


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


def find_positions(text: str) -> dict[TomlPath, int]:
    """Lines, counted from 1, of everything in a valid TOML text that has a path."""
    scanner = _Scanner(text)
    scanner.document()
    return scanner.lines


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[TomlPath, int] = {}
        self._tables: dict[TomlPath, int] = {}  # arrays of tables: how many so far
        self._breaks = [i for i, letter in enumerate(text) if letter == "\n"]

    def document(self) -> None:
        table: TomlPath = ()
        self._skip(_BLANK)
        while self.at < len(self.text):
            table = self._header() if self._sees("[") else self._entry(table)
            self._skip(_BLANK)

    def _header(self) -> TomlPath:
        start = self.at
        repeated = self._sees("[[")
        self.at += 2 if repeated else 1
        keys = self._keys()
        self.at += 2 if repeated else 1
        path = self._inside(keys)
        if repeated:
            number = self._tables.get(path, 0)
            self._tables[path] = number + 1
            self._mark(path, start)
            path = (*path, number)
        self._mark(path, start)
        return path

    def _inside(self, keys: list[str]) -> TomlPath:
        """A header's path: what it names within an array of tables belongs to the latest table there."""
        path: TomlPath = ()
        for i, key in enumerate(keys):
            path = (*path, key)
            if path in self._tables and i < len(keys) - 1:
                path = (*path, self._tables[path] - 1)
        return path

    def _entry(self, table: TomlPath) -> TomlPath:
        """`key = value`, of a table or an inline table; returns the table, which goes on."""
        start = self.at
        path = table
        for key in self._keys():
            path = (*path, key)
            self._mark(path, start)
        self._expect("=")
        self._skip(_SPACE)
        self._value(path)
        return table

    def _keys(self) -> list[str]:
        keys = []
        while True:
            self._skip(_SPACE)
            if self.text[self.at] in "\"'":
                keys.append(tomllib.loads(f"key = {self._skip(_TEXT)}")["key"])
            else:
                keys.append(self._skip(_BARE_KEY))
            self._skip(_SPACE)
            if not self._sees("."):
                return keys
            self.at += 1

    def _value(self, path: TomlPath) -> None:
        if self._sees("["):
            self._array(path)
        elif self._sees("{"):
            self._inline_table(path)
        elif self.text[self.at] in "\"'":
            self._skip(_TEXT)
        else:
            self._skip(_PLAIN)

    def _array(self, path: TomlPath) -> None:
        self.at += 1
        number = 0
        self._skip(_BLANK)
        while not self._sees("]"):
            self._mark((*path, number), self.at)
            self._value((*path, number))
            number += 1
            self._skip(_BLANK)
            if self._sees(","):
                self.at += 1
                self._skip(_BLANK)
        self.at += 1

    def _inline_table(self, path: TomlPath) -> None:
        self.at += 1
        self._skip(_BLANK)
        while not self._sees("}"):
            self._entry(path)
            self._skip(_BLANK)
            if self._sees(","):
                self.at += 1
                self._skip(_BLANK)
        self.at += 1

    def _mark(self, path: TomlPath, start: int) -> None:
        self.lines.setdefault(path, bisect.bisect_left(self._breaks, start) + 1)

    def _sees(self, token: str) -> bool:
        return self.text.startswith(token, self.at)

    def _expect(self, token: str) -> None:
        assert self._sees(token), f"{token!r} expected at {self.at}: tomllib accepted what this scanner does not follow"
        self.at += len(token)

    def _skip(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        assert found is not None, f"lost at {self.at}: tomllib accepted what this scanner does not follow"
        self.at = found.end()
        return found.group()


class ScenarioError(UsageError):
    """A scenario cannot be run as written. One line: the place (file and line, or the override), then the reason."""


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
