"""Collects the rows of a run as they happen.

A short run is kept in memory. A long one is given a `TraceWriter`: every `SPILL_ROWS` rows become a part file and leave
memory. Either way the digest grows along, and recording a row costs little more than appending to a list.
"""

from typing import Final

from resprout.trace.digest import Digest
from resprout.trace.errors import TraceError
from resprout.trace.schema import Row
from resprout.trace.store import RunInfo, TraceWriter

SPILL_ROWS: Final = 100_000
"""Rows in memory before they become a part file: about 50 MB, and large enough for Parquet to compress well."""


class Recorder:
    def __init__(self, writer: TraceWriter | None = None, spill_rows: int = SPILL_ROWS) -> None:
        self._rows: list[Row] = []
        self._digest = Digest()
        self._hashed = 0
        """How many of the rows are in the digest already."""
        self._spilled = 0
        self._writer = writer
        self._spill_rows = spill_rows

    def __len__(self) -> int:
        return self._spilled + len(self._rows)

    def record(self, row: Row) -> None:
        self._rows.append(row)
        if self._writer is not None and len(self._rows) >= self._spill_rows:
            self._spill(self._writer)

    @property
    def rows(self) -> list[Row]:
        """All rows so far, in order. Only of a recorder that keeps them in memory."""
        if self._spilled:
            raise TraceError(f"{self._spilled} rows have left memory; read the trace back from its folder")
        return self._rows

    @property
    def digest(self) -> str:
        """Of all rows so far, spilled or not."""
        if self._writer is not None:
            digest = self._writer.digest.copy()
            digest.update(self._rows)
            return digest.value
        self._digest.update(self._rows[self._hashed :])
        self._hashed = len(self._rows)
        return self._digest.value

    def finish(self, info: RunInfo) -> RunInfo:
        """Writes what is still in memory and then `run.json`. Returns the info with its digest and number of rows."""
        if self._writer is None:
            raise TraceError("this recorder keeps its rows in memory; there is no folder to finish")
        self._spill(self._writer)
        return self._writer.finish(info)

    def _spill(self, writer: TraceWriter) -> None:
        writer.write(self._rows)
        self._spilled += len(self._rows)
        self._rows.clear()
