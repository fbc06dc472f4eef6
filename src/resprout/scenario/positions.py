"""Where things stand in a TOML text: the line of every key, table and array element.

`tomllib` tells values without their places, and a scenario's error must name its line. This scanner runs over text that
`tomllib` has already accepted, so it follows the grammar only as far as needed to find keys and the extent of values;
it judges nothing. A path is what one would subscript with: `("broker", 3, "parent")`.
"""

import bisect
import re
import tomllib
from typing import Final

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
