"""How many bytes something takes on a connection, without encoding it: for a simulator that never encodes.

Exact but for names: every reference to one is taken as known to the peer and as wide as references get. So the real
encoding is up to two bytes per reference shorter while the tables are small, and longer by the text where a name
travels in full. `widest_body` encodes like that, to compare with.
"""

import operator
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import inspect

from resprout.core.bundle import Bundle
from resprout.wire.bundles import KEYS, LOW_MASK, ORIGINS, TOPICS
from resprout.wire.rules import python_type

Size = Callable[[Any], int]

_WIDTHS: Final = (*[1] * 8, 2, *[3] * 8, *[5] * 16, *[9] * 32)
"""What MessagePack's integers from 0 on take, by their length in bits."""

REFERENCE_BYTES: Final = 3
"""The widest reference: no table has more than 65,536 names."""


def ordering_bytes(bundle: Bundle, hops: int, reference: int = ORIGINS - 1) -> int:
    """Bytes that tell a bundle's place in the order on a link: origin, first, stamp and hops; at most 16.

    `reference` is the number that the origin has on the connection; by default the widest.
    """
    first, stamp = bundle.first & LOW_MASK, bundle.stamp & LOW_MASK
    width = _WIDTHS  # looked up here: it is asked for every delivery
    return (
        width[reference.bit_length()] + width[first.bit_length()] + width[stamp.bit_length()] + width[hops.bit_length()]
    )


def bundle_bytes(bundle: Bundle) -> int:
    """Bytes of a bundle whose names are known to the peer."""
    keys = len(bundle.keys)
    attributes = len(bundle.attributes)
    return (
        1 + REFERENCE_BYTES + number_bytes(bundle.first & LOW_MASK) + number_bytes(bundle.stamp & LOW_MASK)
        + number_bytes(bundle.count << 2) + REFERENCE_BYTES + array_bytes(keys) + keys * REFERENCE_BYTES
        + (binary_bytes(attributes) if attributes else 1) + binary_bytes(len(bundle.payloads))
    )  # fmt: skip


def number_bytes(number: int) -> int:
    """MessagePack's integers."""
    if number >= 128:
        return 2 if number < 256 else 3 if number < 65_536 else 5 if number <= LOW_MASK else 9
    if number >= -32:
        return 1
    return 2 if number >= -(1 << 7) else 3 if number >= -(1 << 15) else 5 if number >= -(1 << 31) else 9


def array_bytes(items: int) -> int:
    """The header of an array or a map."""
    return 1 if items < 16 else 3 if items < 65_536 else 5


def binary_bytes(size: int) -> int:
    """A byte string and its header."""
    return size + (2 if size < 256 else 3 if size < 65_536 else 5)


def text_bytes(text: str) -> int:
    """A text and its header."""
    size = len(text) if text.isascii() else len(text.encode())
    return size + (1 if size < 32 else 2 if size < 256 else 3 if size < 65_536 else 5)


def _widest(value: Any) -> Any:
    """What msgspec encodes in place of a bundle, and of what a simulator puts in place of bytes: so many of them."""
    if type(value) is not Bundle:
        return bytes(len(value))
    return (
        ORIGINS - 1, value.first & LOW_MASK, value.stamp & LOW_MASK, value.count << 2 | value.guarantee, TOPICS - 1,
        (KEYS - 1,) * len(value.keys), value.attributes or None, value.payloads,
    )  # fmt: skip


widest_body: Final[Callable[[Any], bytes]] = msgspec.msgpack.Encoder(enc_hook=_widest).encode
"""A frame, encoded as if all its names were known under the widest numbers."""


def size_of_frame(info: inspect.Type) -> Size:
    """Return a function that computes the body size of frames of this type."""
    return _size(info)


def _size(info: inspect.Type) -> Size:
    match info:
        case inspect.StructType():
            return _struct_size(info)
        case inspect.UnionType():
            return _union_size(info)
        case inspect.VarTupleType() | inspect.ListType():
            return _items_size(info.item_type)
        case inspect.TupleType():
            return _places_size(info)
        case inspect.DictType():
            return _dict_size(info)
        case inspect.CustomType() if info.cls is Bundle:
            return bundle_bytes
        case inspect.EnumType():
            return lambda member: _value_bytes(member.value)
    return _PLAIN[type(info)]


def _value_bytes(value: str | int) -> int:
    """Of a tag or an enumeration: texts or integers."""
    return text_bytes(value) if isinstance(value, str) else number_bytes(value)


def _struct_size(info: inspect.StructType) -> Size:
    if hasattr(info.cls, "encoded_bytes"):  # it may be large and shared by many messages: it counts itself once
        return operator.attrgetter("encoded_bytes")
    tag = 0 if info.tag is None else _value_bytes(info.tag)
    fixed = array_bytes(len(info.fields) + (info.tag is not None)) + tag
    sizes = [(field.name, _size(field.type)) for field in info.fields]
    if len(sizes) == 1:
        (name, only), = sizes  # fmt: skip
        return lambda value: fixed + only(getattr(value, name))

    def size(value: Any) -> int:
        total = fixed
        for name, field_size in sizes:
            total += field_size(getattr(value, name))
        return total

    return size


def _union_size(info: inspect.UnionType) -> Size:
    sizes = {python_type(item): _size(item) for item in info.types}
    return lambda value: sizes[type(value)](value)


def _items_size(item: inspect.Type) -> Size:
    size = _size(item)
    return lambda values: array_bytes(len(values)) + sum(map(size, values))


def _places_size(info: inspect.TupleType) -> Size:
    sizes = [_size(item) for item in info.item_types]
    fixed = array_bytes(len(sizes))
    return lambda values: fixed + sum(size(value) for size, value in zip(sizes, values, strict=True))


def _dict_size(info: inspect.DictType) -> Size:
    of_key, of_value = _size(info.key_type), _size(info.value_type)
    return lambda mapping: array_bytes(len(mapping)) + sum(map(of_key, mapping)) + sum(map(of_value, mapping.values()))


_PLAIN: Final[dict[type, Size]] = {
    inspect.IntType: number_bytes,
    inspect.FloatType: lambda _: 9,
    inspect.StrType: text_bytes,
    inspect.BytesType: lambda value: binary_bytes(len(value)),
    inspect.BoolType: lambda _: 1,
    inspect.NoneType: lambda _: 1,
}
