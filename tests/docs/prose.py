"""Links lead to files and headings that exist; files, imports and functions (`file.py:name`) that are named exist; and
lines can be read.

Former records (`docs/history`) are never changed, so files that they name, and documents beside them that they link to,
may be gone. Their links to each other may not.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

DOCUMENTS: Final = ("*.md", "docs/*.md", "docs/*/*.md")
HISTORY: Final = Path("docs/history")
SOURCES: Final = ("src/resprout", "src/resprout_lab", "src", ".")
"""Where the path of a file may begin; a name without a path may be anywhere."""
DEFAULT_STACK: Final = "src/resprout/stacks/resprout"
"""Where the path of a file that is named with a function may begin, too."""
LINE_MAX: Final = 130
"""Tables and what stands in blocks of code aside: they cannot be broken."""
_LINK: Final = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_FILE: Final = re.compile(r"`([\w/.-]+\.py)`")
_NAMED: Final = re.compile(r"`([\w/.-]+\.py):([\w.]+)`")
_IMPORT: Final = re.compile(r"\bfrom (resprout[\w.]*) import ([\w, ]+)")
_HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)
_DEFINITIONS: Final = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_CODE: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def complaints(root: Path) -> Iterator[str]:
    modules = {file.name for folder in ("src", "tests", "benchmarks") for file in (root / folder).rglob("*.py")}
    for pattern in DOCUMENTS:
        for file in sorted(root.glob(pattern)):
            text = file.read_text()
            name = file.relative_to(root)
            yield from (f"{name}: {complaint}" for complaint in _long_lines(text))
            prose = _CODE.sub("", text)
            is_former = name.parent == HISTORY and name.name != "README.md"
            yield from (f"{name}: {complaint}" for complaint in _broken_links(file, prose, inside_only=is_former))
            if not is_former and name.name != "CHANGELOG.md":
                yield from (f"{name}: {complaint}" for complaint in _missing_files(root, prose, modules))
                yield from (f"{name}: {complaint}" for complaint in _missing_names(root, prose))
                yield from (f"{name}: {complaint}" for complaint in _missing_imports(root, text))


def _long_lines(text: str) -> Iterator[str]:
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        is_code ^= line.startswith("```")
        if len(line) > LINE_MAX and not is_code and not line.startswith("|"):
            yield f"line {number} has {len(line)} characters, {LINE_MAX} are the most"


def _broken_links(file: Path, prose: str, inside_only: bool) -> Iterator[str]:
    """Yield links that lead nowhere; with `inside_only` only those to files of the same folder."""
    for link in _LINK.findall(prose):
        if "://" in link or (inside_only and link.startswith("../")):
            continue
        path, _, anchor = link.partition("#")
        target = (file.parent / path).resolve() if path else file
        if not target.exists():
            yield f"the link {link} leads nowhere"
        elif anchor and anchor not in _anchors(target):
            yield f"the link {link} leads to no heading"


def _anchors(file: Path) -> set[str]:
    """Of the headings, as web pages name them: small letters and hyphens, what is neither left out."""
    headings = _HEADING.findall(_CODE.sub("", file.read_text()))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _missing_files(root: Path, prose: str, modules: set[str]) -> Iterator[str]:
    for name in dict.fromkeys(_FILE.findall(prose)):
        there = name in modules if "/" not in name else any((root / source / name).exists() for source in SOURCES)
        if not there:
            yield f"names {name}, which does not exist"


def _missing_names(root: Path, prose: str) -> Iterator[str]:
    """Yield each `file.py:name` whose file does not define that class, function or `Class.method`."""
    for file, name in dict.fromkeys(_NAMED.findall(prose)):
        places = [root / source / file for source in (*SOURCES, DEFAULT_STACK)]
        if not any(name in _definitions(place) for place in places if place.exists()):
            yield f"names {file}:{name}, which does not exist"


@cache
def _definitions(file: Path) -> frozenset[str]:
    """Classes and functions of a file, and methods as `Class.method`."""
    found: set[str] = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, _DEFINITIONS):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found.update(f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, _DEFINITIONS))
    return frozenset(found)


def _missing_imports(root: Path, text: str) -> Iterator[str]:
    for module, names in dict.fromkeys(_IMPORT.findall(text)):
        place = root / "src" / Path(*module.split("."))
        files = [file for file in (place.with_suffix(".py"), place / "__init__.py") if file.exists()]
        for name in (name.strip() for name in names.split(",")):
            if not any(re.search(rf"\b{name}\b", file.read_text()) for file in files):
                yield f"imports {name} from {module}, which has none"
