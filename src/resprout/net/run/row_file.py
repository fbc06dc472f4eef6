"""Rows on their way from the process that saw them to the coordinator: a file of batches, each with its length first.

A batch that was saved is in the hands of the operating system: it is there even when the process is killed the next
moment. A process that is killed while it saves leaves a part of a batch behind, which is no row of anybody's.
"""

import os
from typing import Final

import msgspec

from resprout.core.errors import PeerError
from resprout.trace.schema import Row

_LENGTH_BYTES: Final = 4
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[Row]).decode


class RowWriter:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._unsaved: list[Row] = []

    def record(self, row: Row) -> None:
        self._unsaved.append(row)

    def save(self) -> None:
        """Whatever is done after this, the rows so far will be known."""
        if not self._unsaved:
            return
        batch = _encode(self._unsaved)
        self._unsaved.clear()
        view = memoryview(len(batch).to_bytes(_LENGTH_BYTES, "big") + batch)
        while view:
            view = view[os.write(self._descriptor, view) :]


class RowReader:
    """Reads a file of rows that is still being written."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._at = 0
        """Everything before this has been given out."""

    def read_new(self) -> list[Row]:
        """Whole batches that were not there the last time, in order; PeerError when they are no rows."""
        rows: list[Row] = []
        content = self._content()
        at = 0
        while at + _LENGTH_BYTES <= len(content):
            begin = at + _LENGTH_BYTES
            end = begin + int.from_bytes(content[at:begin], "big")
            if end > len(content):
                break
            try:
                rows += _decode(memoryview(content)[begin:end])
            except msgspec.MsgspecError as error:
                raise PeerError(f"a client process wrote what are no rows: {error}") from None
            at = end
        self._at += at
        return rows

    def _content(self) -> bytes:
        wanted = os.fstat(self._descriptor).st_size - self._at
        content = b""
        while len(content) < wanted and (
            more := os.pread(self._descriptor, wanted - len(content), self._at + len(content))
        ):
            content += more
        return content


def read_rows(descriptor: int) -> list[Row]:
    """All whole batches, in order; PeerError when they are no rows."""
    return RowReader(descriptor).read_new()
