"""Rows of a table as publications: which columns mean what, and which rows share a bundle.

The bundles follow from the rows and their order alone. Whoever publishes the same rows again makes the same bundles,
which is what lets brokers tell that they have them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from resprout.core import limits
from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee
from resprout.core.names import Attributes
from resprout.spark.options import SinkOptions

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

BUNDLE_BYTES: Final = 128 << 10
"""Payloads of one bundle, unless one is larger."""

_TEXTS: Final = ("string", "binary")
_VALUES: Final = ("string", "tinyint", "smallint", "int", "bigint", "float", "double", "boolean")
_COLUMNS: Final = ("value", "key", "keys", "topic", "guarantee", "headers", "attributes")


class RowBundle(msgspec.Struct):
    """Rows that follow each other and go to the same place."""

    topic: str
    guarantee: Guarantee
    keys: tuple[str, ...]
    payloads: list[bytes]
    attributes: list[Attributes] | None


def check_columns(schema: "StructType", options: SinkOptions) -> None:
    """UsageError for a table that cannot be published."""
    kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
    for name in kinds:
        if name not in _COLUMNS:
            raise UsageError(f"there is no use for a column {name!r}; there is for {', '.join(_COLUMNS)}")
    if "value" not in kinds:
        raise UsageError("the column value is needed")
    if "topic" not in kinds and options.topic is None:
        raise UsageError("a column topic is needed, or the option topic")
    for one, other in (("key", "keys"), ("headers", "attributes")):
        if one in kinds and other in kinds:
            raise UsageError(f"the columns {one} and {other} say the same; use one")
    wanted: dict[str, Sequence[str]] = {
        "value": _TEXTS,
        "key": _TEXTS,
        "topic": ("string",),
        "guarantee": ("string",),
        "keys": ("array<string>",),
        "headers": [f"array<struct<key:string,value:{kind}>>" for kind in _TEXTS],
    }
    for name, allowed in wanted.items():
        if name in kinds and kinds[name] not in allowed:
            raise UsageError(f"the column {name} is {kinds[name]}, and should be {' or '.join(allowed)}")
    if "attributes" in kinds:
        _check_attributes(schema["attributes"].dataType)


def _check_attributes(kind: Any) -> None:
    values: list[Any] = [field.dataType for field in getattr(kind, "fields", ())]
    if not values and hasattr(kind, "valueType") and kind.keyType.simpleString() == "string":
        values = [kind.valueType]
    if not values or any(value.simpleString() not in _VALUES for value in values):
        raise UsageError(
            f"the column attributes is {kind.simpleString()}, and should be a map<string,...> or a struct of texts, "
            "numbers and booleans"
        )


def bundles_of(batches: Iterable[pa.RecordBatch], options: SinkOptions) -> Iterator[RowBundle]:
    bundle: RowBundle | None = None
    size = 0
    for batch in batches:
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
        payloads = _bytes(columns["value"])
        topics = columns.get("topic") or [None] * batch.num_rows
        guarantees = _guarantees(columns, batch.num_rows, options.guarantee)
        keys = _keys(columns, batch.num_rows)
        attributes = _attributes(columns, batch.num_rows)
        for place, payload in enumerate(payloads):
            topic = topics[place] if topics[place] is not None else options.topic
            if topic is None:
                raise UsageError(f"a row has no topic, and there is no option topic: value {payload[:60]!r}")
            guarantee = guarantees[place]
            if (
                bundle is None
                or topic != bundle.topic
                or guarantee != bundle.guarantee
                or keys[place] != bundle.keys
                or len(bundle.payloads) == limits.BUNDLE_MESSAGES
                or size + len(payload) > BUNDLE_BYTES
            ):
                if bundle is not None:
                    yield bundle
                bundle = RowBundle(topic, guarantee, keys[place], [], [] if attributes is not None else None)
                size = 0
            bundle.payloads.append(payload)
            size += len(payload)
            if attributes is not None and bundle.attributes is not None:
                bundle.attributes.append(attributes[place])
                size += _ATTRIBUTE_BYTES * len(attributes[place])
    if bundle is not None:
        yield bundle


_ATTRIBUTE_BYTES: Final = 64
"""What an attribute counts, on the safe side of what it usually takes; only bundles depend on it."""


def _bytes(values: list[Any]) -> list[bytes]:
    return [value if type(value) is bytes else b"" if value is None else str(value).encode() for value in values]


def _keys(columns: dict[str, list[Any]], count: int) -> list[tuple[str, ...]]:
    if "keys" in columns:
        return [tuple(keys) if keys else () for keys in columns["keys"]]
    if "key" in columns:
        return [() if key is None else (key if isinstance(key, str) else key.decode(),) for key in columns["key"]]
    return [()] * count


def _guarantees(columns: dict[str, list[Any]], count: int, usual: Guarantee) -> list[Guarantee]:
    if "guarantee" not in columns:
        return [usual] * count
    known = {word: Guarantee.parse(word) if word is not None else usual for word in dict.fromkeys(columns["guarantee"])}
    return [known[word] for word in columns["guarantee"]]


def _attributes(columns: dict[str, list[Any]], count: int) -> list[Attributes] | None:
    if "attributes" in columns:
        pairs = (row.items() if isinstance(row, dict) else row or () for row in columns["attributes"])
        return [{name: value for name, value in row if value is not None} for row in pairs]
    if "headers" in columns:
        return [{one["key"]: _text(one["value"]) for one in row or ()} for row in columns["headers"]]
    return None


def _text(value: bytes | str | None) -> str:
    return "" if value is None else value if isinstance(value, str) else value.decode()
