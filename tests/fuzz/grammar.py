"""Messages that the codec lets pass, made of their types: fields at their bounds, other people's names, replays.

The types are asked (`msgspec.inspect`), so a message that is added is fuzzed from then on.
"""

import random
from collections import deque
from typing import Any, Final

import msgspec
from msgspec import inspect

from resprout.core.bundle import Bundle, pack_attributes, pack_payloads, to_record
from resprout.core.errors import UsageError, WireError
from resprout.core.guarantee import Guarantee
from resprout.core.message_fields import Mark
from resprout.core.timing import DUE, EXPIRES, PRIORITY
from resprout.edge.durable_messages import Span
from resprout.links.frames import Data, Express
from resprout.logs.messages import LogFeed
from resprout.logs.positions import PositionCommand
from resprout.logs.records import LogCommand, LogEntry, StateFields
from resprout.values.rows import DELETES, EXPECTED, RETAIN_KEY
from resprout.wire.codec import Codec
from resprout.wire.rules import NAMES

EDGES: Final = (
    0, 1, 2, 3, 5, 63, 64, 255, 1024, 65_535, 65_536, 100_000, 1_000_000, (1 << 31) - 1, 1 << 32, 1 << 40, 1 << 53,
    1 << 61, (1 << 62) - 3, (1 << 62) - 1, 1 << 62, (1 << 63) - 1, -1,
)  # fmt: skip
WHERES: Final = (
    None, "amount > 1", "name like '%a%b%c%'", "a = 1 and (b = 2 or not c = 3)",
    " and ".join(f"name like '%{'a%' * 20}{number}'" for number in range(30)),
)  # fmt: skip
UNREADABLE_WHERES: Final = ("x >", "amount > 1" * 40)
FILTERS: Final = (
    "t",
    "#",
    "+",
    "t/#",
    "u/+/v",
    "$reply/p",
    "$reply/#",
    "$x/#",
    "/" * 31,
    "$kv/b/#",
    "$kv/+/k",
    "$kv/b/k",
)
UNREADABLE_FILTER: Final = "a/#/b"
UNREADABLE: Final = 0.03
"""Share of the filters and conditions that nobody can read: no more than the parser is tried."""
LOG_NAMES: Final = ("kept", "shared")
JOURNALS: Final = ("log.kept", "log.shared", "")
TEXTS: Final = ("", "ordered", "eventual", "total", "\x1b[2J", "x" * 600, "\u202e", "block", "drop_oldest", "spill")
COUNTS: Final = (0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 8, 40)
"""Of items in a list."""
NUMBERS_KEPT: Final = 64
IN_ORDER: Final = 0.95
"""Share of the marks and spans that are ones: a receiver looks at no others."""
BEYOND_BOUNDS: Final = 0.02
"""Share of the numbers that may be beyond the bound that their type states."""


_ROWS: Final[tuple[dict[str, Any], ...]] = (
    {}, {"amount": 1}, {"name": "a" * 1000}, {EXPECTED: 0}, {EXPECTED: 1 << 62, EXPIRES: 1}, {DELETES: True},
    {EXPIRES: (1 << 63) - 1, EXPECTED: -1}, {DUE: (1 << 63) - 1, PRIORITY: 9}, {DUE: 1_000_000, EXPIRES: 2_000_000},
    {DUE: 3_000_000, PRIORITY: 1 << 62}, {DUE: -1, PRIORITY: "high"},
)  # fmt: skip
ATTRIBUTES: Final = {
    count: tuple(
        [pack_attributes([_ROWS[(kind + at) % len(_ROWS)] for at in range(count)]) for kind in range(len(_ROWS))]
    )
    for count in (1, 2, 3, 1024)
}
"""By messages in a bundle: columns of attributes, packed once."""
PAYLOADS: Final = {count: pack_payloads([b"!"] * count) for count in ATTRIBUTES}


_FIELDS: Final[dict[type, inspect.StructType]] = {}


def _fields_of(kind: type) -> inspect.StructType:
    if kind not in _FIELDS:
        info = inspect.type_info(kind)
        assert isinstance(info, inspect.StructType)
        _FIELDS[kind] = info
    return _FIELDS[kind]


INNER_SHAPED: Final = 0.8
"""Share of the commands, entries and states of logs inside messages that are ones."""
_INNER: Final[dict[str, tuple[type, ...]]] = {
    "command": (LogCommand, LogCommand, PositionCommand),
    "state": (StateFields,),
}
"""By field of bytes: what an honest peer puts there."""
_encode: Final = msgspec.msgpack.Encoder().encode


class FastRandom(random.Random):
    """Draws from short sequences in a third of the time: a message takes about fifty draws."""

    def choice(self, seq: Any) -> Any:
        return seq[int(self.random() * len(seq))]


class Grammar:
    """`names`: of everybody, and of nobody. `publishers`: those in whose name bundles are made."""

    def __init__(self, rng: random.Random, names: tuple[str, ...], publishers: tuple[str, ...]) -> None:
        self._rng = rng
        self._names = names
        self._publishers = publishers
        self._numbers: deque[int] = deque([1], NUMBERS_KEPT)

    def saw(self, message: Any) -> None:
        """Remember numbers of the conversation: what is near them is believed more easily than what is far."""
        values = [getattr(message, name) for name in getattr(message, "__struct_fields__", ())]
        for value in values:
            if type(value) is int:
                self._numbers.append(value)
            elif isinstance(value, Bundle):
                self._numbers += (value.first, value.stamp)

    def make(self, kind: type) -> Any:
        return self._struct(_fields_of(kind))

    def mutate(self, message: Any) -> Any:
        """Return a copy with one to three fields changed."""
        info = _fields_of(type(message))
        if not info.fields:
            return message
        values = {field.name: getattr(message, field.name) for field in info.fields}
        for field in self._rng.choices(info.fields, k=self._rng.choice((1, 1, 2, 3))):
            values[field.name] = self._changed(values[field.name], field.type, field.name)
        return type(message)(**values)

    def mutate_frame(self, kind: type[Data[Any]] | type[Express[Any]], message: Any) -> Any:
        """A frame with this message, and numbers that its receiver does not expect."""
        if kind is Data:
            return Data(self._number(), self._number(), self._number(), (message,), self._rng.random() < 0.5)
        return Express(self._number(), self._number(), (message,))

    def bundle(self, like: Bundle | None = None) -> Bundle:
        """A bundle of its own, or one that differs from another in some fields."""
        rng = self._rng
        count = rng.choice((1, 1, 1, 1, 1, 2, 2, 3, 3, 1024))
        fresh: dict[str, Any] = {
            "publisher": rng.choice(self._publishers),
            "incarnation": rng.choice((1, 1, 2, 0, 1 << 62)),
            "first": max(1, self._number()),
            "count": count,
            "stamp": abs(self._number()),
            "topic": rng.choice(
                ("t", "u/1/v", "t/x", "$reply/p", "$reply/evil", "$kv/b/k", "$kv/b/l", "$mqtt/sessions")
            ),
            "keys": tuple(sorted(rng.sample(("k1", "k2", "other#k", "t#k", RETAIN_KEY), rng.randint(0, 2)))),
            "guarantee": rng.choice(list(Guarantee)),
            "attributes": rng.choice((b"", b"\xc1", *ATTRIBUTES[count])),
            "payloads": rng.choice((PAYLOADS[count],) * 6 + (b"", b"\xc1", PAYLOADS[1])),
        }
        if like is None:
            return Bundle(**fresh)
        kept = {name: getattr(like, name) for name in fresh}
        kept["publisher"] = kept["publisher"] if kept["publisher"] in self._publishers else fresh["publisher"]
        return Bundle(**kept | {name: fresh[name] for name in rng.sample(sorted(fresh), rng.choice((0, 1, 1, 2)))})

    def _struct(self, info: inspect.StructType) -> Any:
        values = {}
        for field in info.fields:
            if not field.required and self._rng.random() < 0.3:
                continue
            values[field.name] = self._value(field.type, field.name)
        if info.cls is LogFeed and self._rng.random() < IN_ORDER:
            self._feed(values)
        if info.cls in (LogCommand, LogEntry) and self._rng.random() < INNER_SHAPED:
            values["bundle"] = to_record(self.bundle())
        if info.cls in (Span, Mark) and self._rng.random() < IN_ORDER:
            _put_in_order(values)
        return info.cls(**values)

    def _feed(self, values: dict[str, Any]) -> None:
        """Make the message of a feeder one of the liar b1, with the command that it says it has."""
        feed, number = f"b1.1.1.{self._rng.choice((1, 1, 1, 2))}", self._rng.choice((1, 2, 3, self._number()))
        command = self.make(LogCommand)
        command = msgspec.structs.replace(command, feed=feed, number=number, begins=self._rng.random() < 0.2)
        values |= {"feed": feed, "number": number, "command": _encode(command)}

    def _changed(self, value: Any, info: inspect.Type, name: str) -> Any:
        if isinstance(value, Bundle):
            return self.bundle(value)
        if isinstance(value, msgspec.Struct) and self._rng.random() < 0.7:
            return self.mutate(value)
        if isinstance(value, tuple) and value and self._rng.random() < 0.6:
            return self._changed_items(value, info, name)
        if type(value) is int and self._rng.random() < 0.4:
            changed = value + self._rng.choice((-2, -1, 1, 2, 10, 1 << 20))
            return self._bounded(changed, info) if isinstance(info, inspect.IntType) else changed
        return self._value(info, name)

    def _changed_items(self, values: tuple[Any, ...], info: inspect.Type, name: str) -> tuple[Any, ...]:
        items = list(values)
        place = self._rng.randrange(len(items))
        item = info.item_type if isinstance(info, inspect.VarTupleType) else inspect.type_info(type(items[place]))
        match self._rng.randrange(4):
            case 0:
                del items[place]
            case 1:
                items.insert(place, items[place])
            case 2:
                items = items[::-1]
            case _:
                items[place] = self._changed(items[place], item, name)
        return tuple(items)

    def _value(self, info: inspect.Type, name: str) -> Any:
        rng = self._rng
        match info:
            case inspect.IntType():
                return self._bounded(self._number(), info)
            case inspect.FloatType():
                return rng.choice((0.0, -1.0, 1.5, 1e308, float("inf")))
            case inspect.StrType():
                return self._text(name)
            case inspect.BytesType() if name in _INNER and rng.random() < INNER_SHAPED:
                return _encode(self.make(rng.choice(_INNER[name])))
            case inspect.BytesType():
                return rng.choice((b"", b"!", b"\xc1", bytes(64), pack_payloads([b"!"])))
            case inspect.BoolType():
                return rng.random() < 0.5
            case inspect.NoneType():
                return None
            case inspect.EnumType():
                return rng.choice(list(info.cls))
            case inspect.LiteralType():
                return rng.choice(list(info.values))
            case inspect.VarTupleType() | inspect.ListType():
                count = rng.choice(COUNTS)
                if name == "records":
                    return tuple(_encode(self.make(LogEntry)) for _ in range(count))
                return tuple(self._value(info.item_type, name) for _ in range(count))
            case inspect.TupleType():
                return tuple(self._value(item, name) for item in info.item_types)
            case inspect.DictType():
                return {self._value(info.key_type, name): self._value(info.value_type, name) for _ in range(2)}
            case inspect.UnionType():
                return self._value(rng.choice(info.types), name)
            case inspect.StructType():
                return self._struct(info)
            case inspect.CustomType() if info.cls is Bundle:
                return self.bundle()
        raise AssertionError(f"{name}: {info} is not known to the fuzzer")

    def _number(self) -> int:
        if self._rng.random() < 0.5:
            return self._rng.choice(EDGES)
        return self._rng.choice(self._numbers) + self._rng.choice((0, 0, 1, -1, 2, 100))

    def _bounded(self, number: int, info: inspect.IntType) -> int:
        """Mostly within what the codec lets pass: beyond it, nothing but the codec is tried."""
        if self._rng.random() < BEYOND_BOUNDS:
            return number
        least, most = -(1 << 63) if info.ge is None else info.ge, (1 << 63) - 1 if info.le is None else info.le
        return min(max(number, least), most)

    def _text(self, name: str) -> str:
        rng = self._rng
        if name in NAMES or name in ("peer", "root", "broker", "client", "names"):
            return rng.choice(self._names)
        if name in ("topic", "topics"):
            return rng.choice(("t", "u/1/v", "$reply/p", "t/x"))
        if name in ("filter", "filters"):
            return UNREADABLE_FILTER if rng.random() < UNREADABLE else rng.choice(FILTERS)
        if name in ("journal", "log") and rng.random() < 0.9:
            return rng.choice(LOG_NAMES if name == "log" else JOURNALS)
        if name == "where":
            return rng.choice(UNREADABLE_WHERES if rng.random() < UNREADABLE else WHERES[1:])
        return rng.choice((*TEXTS, *self._names))


def _put_in_order(values: dict[str, Any]) -> None:
    """Make a mark or a span one that an honest peer could say."""
    for name in ("seq", "first", "last"):
        if name in values:
            values[name] = max(1, values[name])
    if "last" in values:
        values["last"] = max(values["first"], values["last"])


class Wire:
    """Both ends of a connection: what a message is when its receiver has decoded it."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._connect()

    def _connect(self) -> None:
        self._encode, self._decode = self._codec.encoder().encode, self._codec.decoder().decode

    def carry(self, message: Any) -> Any:
        """Return the message as it is received; None when the wire refuses it, which ends the connection."""
        try:
            return self._pass(message)
        except (UsageError, WireError, OverflowError):
            return None

    def fault_of(self, message: Any) -> str:
        """Return why the wire refuses the message; empty when it does not."""
        try:
            self._pass(message)
        except (UsageError, WireError, OverflowError) as error:
            return str(error)
        return ""

    def _pass(self, message: Any) -> Any:
        try:
            return self._decode(self._encode(Data(1, 0, 1 << 20, (message,)))).messages[0]
        except (UsageError, WireError, OverflowError):
            self._connect()
            raise
