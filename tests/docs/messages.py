"""wire.md lists every tag with its message, protocol.md those of the default stack; neither lists what is not there."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

WIRE: Final = Path("docs/wire.md")
PROTOCOL: Final = Path("docs/protocol.md")
SOURCES: Final = (Path("src/resprout"), Path("src/resprout_lab"))
_CLASS: Final = re.compile(
    r"^class ([A-Z]\w*)\(\s*(?:\w*Message|Delivery|RoutedPublication|msgspec\.Struct)\b[^()]*?\btag=(\d+)", re.MULTILINE
)
_IN_PROSE: Final = re.compile(r"\b(\d+)\s+`([A-Z]\w*)`")
_IN_FRAMES: Final = re.compile(r"^\| (\d+) \| `([A-Z]\w*)` \|", re.MULTILINE)
_ROW: Final = re.compile(r"^\| (?:`([\w/]+\.py)`)? ?\| ([\d, -]+) \| (.*) \|$", re.MULTILINE)

Tagged = set[tuple[int, str]]


def complaints(root: Path) -> Iterator[str]:
    files = {name: tagged for sources in SOURCES for name, tagged in _tagged(root / sources).items()}
    exist: Tagged = set().union(*files.values())
    yield from _differences(WIRE, _in_wire((root / WIRE).read_text()), exist)
    yield from _in_protocol((root / PROTOCOL).read_text(), files)


def _tagged(sources: Path) -> dict[str, Tagged]:
    """File -> the messages and frames that it defines."""
    found: dict[str, Tagged] = {}
    for file in sorted(sources.rglob("*.py")):
        if classes := _CLASS.findall(file.read_text()):
            found[file.relative_to(sources).as_posix()] = {(int(tag), name) for name, tag in classes}
    return found


def _in_wire(text: str) -> Tagged:
    _, _, messages = text.partition("\n## Messages\n")
    messages, _, _ = messages.partition("\n## ")
    return {(int(tag), name) for tag, name in _IN_PROSE.findall(messages) + _IN_FRAMES.findall(text)}


def _in_protocol(text: str, files: dict[str, Tagged]) -> Iterator[str]:
    """A row gives a file, or none where it goes on with the one before, its tags and the names."""
    _, _, table = text.partition("\n## Messages\n")
    table, _, _ = table.partition("\n## ")
    file, named = "", dict[str, Tagged]()
    for path, tags, words in _ROW.findall(table):
        file = path or file
        if file not in files:
            yield f"{PROTOCOL}: {file} has no messages"
            continue
        inside = {pair for pair in files[file] if pair[0] in _numbers(tags)}
        names = set(re.findall(r"`([A-Z]\w*)`", words))
        for name in sorted(names - {name for _, name in inside}):
            yield f"{PROTOCOL}: lists {name}, which {file} does not have at {tags}"
        named.setdefault(file, set()).update(pair for pair in inside if pair[1] in names)
    for file, listed in named.items():
        yield from _differences(PROTOCOL, listed, files[file])


def _numbers(text: str) -> set[int]:
    """Of "16-23, 30"."""
    numbers: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def _differences(document: Path, listed: Tagged, exist: Tagged) -> Iterator[str]:
    for tag, name in sorted(exist - listed):
        yield f"{document}: does not list {tag} {name}"
    for tag, name in sorted(listed - exist):
        yield f"{document}: lists {tag} {name}, which does not exist"
