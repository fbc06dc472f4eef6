"""A fingerprint of a run: SHA-256 over its rows, in order.

Each row is hashed as a MessagePack array of its columns in schema order, every number in its shortest form and
attributes as a map sorted by name. So the digest depends on what was observed and on nothing else: not on the hash
seed, not on how the rows were split into files, not on the version of Parquet.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from resprout.trace.errors import TraceError
from resprout.trace.schema import Row

_AT_A_TIME: Final = 100_000
"""Rows whose bytes are in memory together."""
_encode: Final = msgspec.msgpack.Encoder(order="deterministic").encode


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
