"""What was heard, as lines: who says what to whom, with the fields that matter."""

import enum
import itertools
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from resprout.core.bundle import Bundle
from resprout.core.guarantee import Guarantee
from resprout.core.message_fields import Mark
from resprout.order.totals.levels import TotalLevel
from resprout.overlay.messages import Configuration, Life, Place, Voter
from resprout.stacks.resprout.messages import PARCELS, AskedInterest, ParcelEnd, ParcelRows, ServedInterest
from resprout.trace import kinds
from resprout.trace.schema import Row
from tests.transcripts.overheard import Heard, Said

WIDTH: Final = 120
NOT_SHOWN: Final = frozenset((
    "address", "anyhow", "decided", "extras", "faults_tolerated", "guarantees", "home", "incarnation", "latest",
    "awaits", "metadata_bytes", "network", "offsets", "prompt", "receipts", "stack", "stream", "token", "undecided",
))  # fmt: skip
"""Fields without which one understands what is said."""
LEFT_OUT: Final = frozenset(("Ping", "Pong", kinds.RECEIPT, kinds.LOAD, kinds.SUBSCRIBE, kinds.SUBSCRIBED))
"""Signs of life, and rows that only repeat what a message says."""
_MARGIN: Final = " " * 23


def kind_of(heard: Heard) -> str:
    return heard.kind if isinstance(heard, Row) else type(heard.message).__name__


def speaker_of(heard: Heard) -> str:
    return heard.node if isinstance(heard, Row) else heard.sender


def written(heard: Iterable[Heard], zero_us: int, left_out: tuple[str, ...] = ()) -> Iterator[tuple[Heard, str]]:
    """Each with its line; rows of a parcel stand below its head, and have no lines of their own. Rows of the kinds in
    `left_out` are not shown."""
    parcel: list[Heard] = []
    rows: list[msgspec.Struct] = []
    for one in heard:
        if isinstance(one, Said) and isinstance(one.message, ParcelRows):
            rows += [row for row in one.message.rows if type(row).__name__ not in left_out]
        elif isinstance(one, Said) and isinstance(one.message, ParcelEnd):
            begun = parcel.pop()
            yield begun, f"{_line(begun, zero_us)}\n{_together(rows)}"
            rows.clear()
        elif isinstance(one, Said) and isinstance(one.message, PARCELS):
            parcel.append(one)
        else:
            yield one, _line(one, zero_us)


def _together(rows: list[msgspec.Struct]) -> str:
    """In as few lines as they take, without a break in one of them; rows of one kind share its name."""
    parts = [
        f"{kind.__name__} {', '.join(_fields(row, brief=True) for row in some)}"
        for kind, some in itertools.groupby(rows, type)
    ]
    joined = " | ".join(part.replace(" ", "\0") for part in parts)
    text = textwrap.fill(joined, WIDTH, initial_indent=_MARGIN + "+ ", subsequent_indent=_MARGIN + "  ")
    return text.replace("\0", " ")


def _line(heard: Heard, zero_us: int) -> str:
    time = f"{(heard.time_us - zero_us) / 1000:9.3f}  "
    if isinstance(heard, Said):
        text = f"{kind_of(heard)} {_fields(heard.message)}".rstrip()
        return textwrap.fill(
            text, WIDTH, initial_indent=f"{time}{heard.sender} -> {heard.receiver}  ", subsequent_indent=_MARGIN + "  "
        )
    return f"{time}{heard.node}        {_observed(heard)}".rstrip()


def _observed(row: Row) -> str:
    """In brackets, to tell it from what is said."""
    match row.kind:
        case kinds.PUBLISH:
            return f"[publishes {row.publisher}:{row.seq} {row.topic} {row.guarantee}]"
        case kinds.DELIVER:
            place = f", total number {row.tseq}" if row.tseq is not None else ""
            return f"[is given {row.publisher}:{row.seq}{place}]"
        case _:
            return f"[{row.kind.replace('_', ' ')}{': ' + row.detail if row.detail else ''}]"


def _fields(message: msgspec.Struct, brief: bool = False) -> str:
    """`brief`: the first field says enough when it stands alone."""
    shown: dict[str, str] = {}
    for field in msgspec.structs.fields(type(message)):
        value = getattr(message, field.name)
        text = "" if field.name in NOT_SHOWN or value == field.default else _value(value)
        if text:
            shown[field.name] = text if isinstance(value, Bundle) else f"{field.name}={text}"
    first = type(message).__struct_fields__[0]
    return shown[first].removeprefix(f"{first}=") if brief and [*shown] == [first] else " ".join(shown.values())


def _value(value: Any) -> str:
    """Empty for what says nothing: nobody, nothing, no."""
    match value:
        case None | False | ():
            return ""
        case True:
            return "yes"
        case enum.IntEnum():
            return value.name.lower()
        case tuple():
            texts = [_value(part) for part in value]
            return ",".join(texts) if set(texts) != {"0"} else ""
        case Bundle():
            return _bundle(value)
        case Life():
            return f"{value.name}.{value.incarnation}"
        case Mark():
            return f"{value.publisher}:{value.seq}"
        case TotalLevel():
            return f"{value.publisher}:{value.first}" + (" done" if value.done else "")
        case Place():
            below = f"<{value.parent}" if value.parent else ""
            return f"{value.name}{below}({' '.join(value.neighbours)})"
        case Configuration():
            return f"#{value.version}({' '.join(value.names)})"
        case AskedInterest() | ServedInterest():
            return value.filter
        case Voter():
            return value.name
        case msgspec.Struct():
            return str(getattr(value, "name", None) or getattr(value, "filter", value))
        case _:
            return str(value)


def _bundle(bundle: Bundle) -> str:
    last = f"-{bundle.first + bundle.count - 1}" if bundle.count > 1 else ""
    keys = f" keys={','.join(bundle.keys)}" if bundle.keys else ""
    label = Guarantee(bundle.guarantee).label
    return f"{bundle.publisher}:{bundle.first}{last} {bundle.topic}{keys} {label} @{bundle.stamp}"
