"""One row per observation: its columns, its attribute values as text, and the digest of all rows of a run.

The columns are a promise to users and to Spark; a change of their meaning, order or type raises `SCHEMA_VERSION`.
`trace.columns` has the same columns for Arrow, in another file so that processes that only make rows start without
Arrow.

Attribute values are text, so that a condition can be evaluated again from the trace alone. The form is that of SQL
literals, and each text is the form of exactly one value:

    text     in single quotes, a quote inside doubled     'o''clock'
    integer  decimal digits, with - when negative         -120
    number   with a point, an exponent, or inf            0.5  1e+16  -inf
    boolean  true or false

The digest is SHA-256 over the rows, in order. Each row is hashed as a MessagePack array of its columns in schema order,
every number in its shortest form and attributes as a map sorted by name. So it depends on what was observed and on
nothing else: not on the hash seed, not on how the rows were split into files, not on the version of Parquet.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from resprout.core.errors import UsageError
from resprout.core.limits import Attributes, AttributeValue

SCHEMA_VERSION: Final = 1

_INTEGER = re.compile(r"-?[0-9]+")
_NUMBER = re.compile(r"-?(?:inf|[0-9]+\.[0-9]+(?:e[+-]?[0-9]+)?|[0-9]+e[+-]?[0-9]+)")

_AT_A_TIME: Final = 100_000
"""Rows whose bytes are in memory together."""
_encode: Final = msgspec.msgpack.Encoder(order="deterministic").encode


class TraceError(UsageError):
    """A trace that cannot be read, written or judged; one line that names the file or row and the reason."""


class Row(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one node saw at one moment; None where a column does not apply. See `trace.kinds` for which do.

    Rows are facts and never change. No row refers to another, so the garbage collector need not look at them. They are
    written with keywords; only whoever reads millions of them gives the cells in order.
    """

    time_us: int
    """Virtual or monotonic, one clock per run."""
    node: str
    """Who observed it."""
    kind: str
    publisher: str | None = None
    incarnation: int | None = None
    stream: str | None = None
    """"eventual" or "ordered", as `core.guarantee.Guarantee.stream`."""
    seq: int | None = None
    topic: str | None = None
    keys: tuple[str, ...] | None = None
    guarantee: str | None = None
    attributes: dict[str, str] | None = None
    """Values in the text form of `trace.schema`."""
    position: int | None = None
    """Of a delivery: dense from 0 per client, from 0 again for each of its incarnations."""
    receipt: str | None = None
    filter: str | None = None
    where: str | None = None
    tseq: int | None = None
    """Of a total: its place in the order that the run claims."""
    hops: int | None = None
    metadata_bytes: int | None = None
    payload_bytes: int | None = None
    detail: str | None = None


COLUMNS: Final[tuple[str, ...]] = Row.__struct_fields__


def to_text(value: AttributeValue) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool):  # before int: True is an int to Python
        return "true" if value else "false"
    return repr(value)  # of a float: the shortest text that gives it back exactly


def from_text(text: str) -> AttributeValue:
    if text[:1] == "'":
        inside = text[1:-1]
        if len(text) >= 2 and text[-1] == "'" and "'" not in inside.replace("''", ""):
            return inside.replace("''", "'")
    elif text == "true":
        return True
    elif text == "false":
        return False
    elif _INTEGER.fullmatch(text):
        return int(text)
    elif _NUMBER.fullmatch(text):
        return float(text)
    raise TraceError(f"attribute value {text!r} is no text in single quotes, number, true or false")


def texts(attributes: Attributes) -> dict[str, str] | None:
    """The `attributes` cell of a row; nothing at all when there are none."""
    return {name: to_text(value) for name, value in attributes.items()} or None


def values(cell: Mapping[str, str] | None) -> dict[str, AttributeValue]:
    """What `texts` was given."""
    return {name: from_text(text) for name, text in cell.items()} if cell else {}


class Digest:
    """Grows as rows come; asking for the value does not end it."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def copy(self) -> "Digest":
        twin = Digest()
        twin._hash = self._hash.copy()
        return twin

    def update(self, rows: Iterable[Row]) -> None:
        try:
            self._hash.update(b"".join(map(_encode, rows)))
        except (UnicodeEncodeError, OverflowError, TypeError) as error:
            raise TraceError(f"a row cannot be encoded: {error}") from None

    @property
    def value(self) -> str:
        return self._hash.hexdigest()


def digest_of(rows: Sequence[Row]) -> str:
    digest = Digest()
    for begin in range(0, len(rows), _AT_A_TIME):
        digest.update(rows[begin : begin + _AT_A_TIME])
    return digest.value


def reason_of(error: Exception) -> str:
    """Return an error as one line, without the path that the caller names anyway."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return " ".join(str(error).split())[:200]
