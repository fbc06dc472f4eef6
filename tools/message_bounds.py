"""`python -m tools.message_bounds`: write docs/messages.md, the bounds of all numbers in frames and messages.

The rows come from the code: from the types of the fields (`core.message_fields`), from what is declared beside them,
and from the tables of the broker that say which peer may send which message. `--check` only compares, and ends with
status 1 when the page differs or a number has no bound.
"""

import argparse
import enum
import random
import sys
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, get_args, get_origin

import msgspec

from resprout.core import limits
from resprout.core.bundle import Bundle
from resprout.core.message_fields import NUMBER_MAX, STAMP_MAX, Derived, Otherwise, derived_of
from resprout.edge.messages import CLIENT_MESSAGES, ReadEvents
from resprout.links.frames import FRAMES
from resprout.logs.declaration import LogDeclaration
from resprout.net.sessions import MORE_FRAMES
from resprout.stacks.resprout import RESPROUT, ResproutOptions
from resprout.stacks.resprout.log_broker import LogBroker
from resprout.stacks.resprout.messages import PARCEL_ROWS, ParcelRows
from resprout.stacks.stack import BrokerSeat

PAGE: Final = Path("docs/messages.md")
IN_BUNDLE: Final[dict[str, tuple[int, int]]] = {
    "incarnation": (1, NUMBER_MAX),
    "first": (1, NUMBER_MAX),
    "count": (1, limits.BUNDLE_MESSAGES),
    "stamp": (0, STAMP_MAX),
}
"""Numbers of a bundle, as `wire.bundles` checks them."""
SPEAKERS: Final = ("client", "neighbour", "broker", "newcomer")
"""Who speaks at each desk of a broker, in the order of the desks."""


class Row(msgspec.Struct, frozen=True):
    """One number of one message, or of one row of a parcel."""

    message: type[msgspec.Struct]
    path: str
    """`field`, `field[]`, `field.inner`."""
    said_by: str
    least: int | None
    most: int | None
    derived: Derived | None

    @property
    def name(self) -> str:
        return f"{self.message.__name__}.{self.path}"

    @property
    def tag(self) -> int:
        return _tag(self.message)


def rows() -> list[Row]:
    """Return all numbers of the default stack: of frames and messages by tag, then of rows of parcels."""
    speakers = _speakers()
    messages = [kind for kind in RESPROUT.messages if kind is not ParcelRows]
    kinds = (*sorted((*FRAMES, *MORE_FRAMES, *messages), key=_tag), *sorted(PARCEL_ROWS, key=_tag))
    speakers |= dict.fromkeys(PARCEL_ROWS, speakers[ParcelRows])
    return [row for kind in kinds for row in _rows_of(kind, speakers.get(kind, "any peer"))]


def _tag(kind: type[msgspec.Struct]) -> int:
    tag = kind.__struct_config__.tag
    assert isinstance(tag, int)
    return tag


def _speakers() -> dict[type, str]:
    seat = BrokerSeat("b", 1, None, logs=(LogDeclaration("log", "#", ("b",)),))
    broker = LogBroker(seat, ResproutOptions(durable="journal"), random.Random(1))
    said: dict[type, list[str]] = {}
    for speaker, desk in zip(SPEAKERS, broker.desks, strict=True):
        for kind in desk.handlers:
            said.setdefault(kind, []).append(speaker)
    found = {kind: " or ".join(speakers) for kind, speakers in said.items()}
    for kind in CLIENT_MESSAGES:
        found.setdefault(kind, "client" if kind is ReadEvents else "its broker")
    return found


def _rows_of(kind: type[msgspec.Struct], said_by: str) -> Iterator[Row]:
    for path, least, most, derived in _numbers(kind, "", ()):
        yield Row(kind, path, said_by, least, most, derived)


Found = tuple[str, int | None, int | None, Derived | None]


def _numbers(hint: Any, path: str, declared: tuple[Derived, ...]) -> Iterator[Found]:
    """Every number inside a type."""
    least: int | None = None
    most: int | None = None
    if get_origin(hint) is Annotated:
        declared = derived_of(hint) or declared
        for meta in hint.__metadata__:
            if isinstance(meta, msgspec.Meta):
                least = int(meta.ge) if meta.ge is not None else least
                most = int(meta.le) if meta.le is not None else most
        hint = get_args(hint)[0]
    if hint is int or hint is float:
        yield path, least, most, declared[0] if declared else None
    elif hint is Bundle:
        for number, (low, high) in IN_BUNDLE.items():
            derived = next((each for each in declared if each.number == number), None)
            yield f"{path}.{number}", low, high, derived
    elif get_origin(hint) in (typing.Union, types.UnionType):
        for inner in get_args(hint):
            yield from _numbers(inner, path, declared)
    elif get_origin(hint) in (tuple, list):
        yield from _numbers(get_args(hint)[0], f"{path}[]", declared)
    elif isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        inner_hints = typing.get_type_hints(hint, include_extras=True)
        for field in msgspec.structs.fields(hint):
            inner_path = f"{path}.{field.name}" if path else field.name
            yield from _numbers(inner_hints[field.name], inner_path, declared)
    elif isinstance(hint, type) and issubclass(hint, enum.Enum | str | bytes | bool | types.NoneType):
        return
    elif not isinstance(hint, typing.TypeVar):
        raise TypeError(f"{path}: the bounds of {hint} are not known")


def unbounded(found: list[Row]) -> list[str]:
    """Numbers without a constant bound."""
    return [
        f"{row.name} has no bound: use a type of core/message_fields.py"
        for row in found
        if None in (row.least, row.most)
    ]


HEAD: Final = """# Numbers in messages

<!-- Written by `python -m tools.message_bounds`; `make check` compares it with the code. -->

Every number in every frame, message and row of a parcel of the default stack: who may say it, its bounds, and what
happens otherwise. [Decision 22](decisions/22-bounds-and-trust.md) has the reasons.

The decoder refuses a number outside its *range*: the sender loses its connection, the refusal is counted as malformed,
and nobody else notices. Ranges are the same for every node, and counters of honest nodes stop at their end. So no
honest node sends or relays a number that the next one refuses.

The next column has a bound that the receiver derives from what it knows. Where it is empty, the number only names
something: a subscription, a life, a version, a question. The receiver looks it up or compares it, never walks up to it,
and one that names nothing has no effect. `tests/stacks/test_bounds.py` sends a number beyond every range,
and names the test of every bound.

Logs send commands, entries and states as bytes inside messages. Their numbers keep the same ranges
(`logs/records.py`, `logs/positions.py`), and the leader of a log limits the time of a command to one lead (2^40
microseconds) above its wall clock. What breaks a range has no effect.

"""


def page(found: list[Row]) -> str:
    lines = [
        HEAD + "| message | number | said by | range | bound by what the receiver knows | otherwise |",
        "|---|---|---|---|---|---|",
    ]
    before: type | None = None
    for row in found:
        tag = f"row {row.tag}" if row.message in PARCEL_ROWS else row.tag
        message = f"`{row.message.__name__}` ({tag})" if row.message is not before else ""
        before = row.message
        bound, otherwise = (row.derived.bound, row.derived.otherwise.value) if row.derived is not None else ("", "")
        span = f"{row.least} to {_power(row.most)}"
        lines.append(f"| {message} | `{row.path}` | {row.said_by} | {span} | {bound} | {otherwise} |")
    legend = "\n".join(f"- *{each.value}*: {MEANING[each]}." for each in Otherwise)
    return "\n".join([*lines, "", "## What happens otherwise", "", legend, ""])


MEANING: Final[dict[Otherwise, str]] = {
    Otherwise.CUT_OFF: "its session ends with the reason, and it is counted in `resprout_refusals_total`.\n"
    "  A client that claims what it cannot know is told the code `OUT_OF_BOUNDS`, and does not come again",
    Otherwise.LIMITED: "the message counts as if it had named the bound",
    Otherwise.REPLACED: "the message is taken with a number that the receiver chooses, and this is counted",
    Otherwise.IGNORED: "what lies beyond the bound changes nothing; the rest of the message counts",
    Otherwise.REFUSED: "the answer says why",
}


def _power(number: int | None) -> str:
    if number is None:
        return "?"
    for exact, suffix in ((number, ""), (number + 1, " - 1")):
        if exact >= 1 << 16 and exact & (exact - 1) == 0:
            return f"2^{exact.bit_length() - 1}{suffix}"
    return f"{number:,}"


def complaints(root: Path) -> Iterator[str]:
    """What is wrong with the page, or with the code."""
    found = rows()
    yield from unbounded(found)
    file = root / PAGE
    if not file.exists() or file.read_text() != page(found):
        yield f"{PAGE}: differs from the code: run python -m tools.message_bounds"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare only")
    root = Path(__file__).resolve().parents[1]
    if parser.parse_args().check:
        found = list(complaints(root))
    else:
        found = unbounded(rows())
        (root / PAGE).write_text(page(rows()))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
