"""A run while it happens: a folder to which files of rows are added until the run is over.

    rows-000000.parquet, rows-000001.parquet, ...

A file is whole from the moment it has its name, it is never changed, and no name is used twice: whoever has read a file
need not look at it again. What is promised about order: the rows of one node are in the order in which it observed
them, within a file and from file to file, and within a file rows are in the order of their times. What is not: a row
may come after a file with later rows of other nodes, by as long as its process took to write it down.

Where a run promises less than a network can, the first row says what (`promise`); `run.json` says it of a run that is
over. The last row says that the run is over. It is the `quiescent` or `timeout` row of the trace; or, where the run
failed or was interrupted and its trace has no such row, an `aborted` row. Rows of these two kinds are in live folders
only.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from resprout.core.guarantee import ALL_RECEIPTS, Promises
from resprout.trace import kinds
from resprout.trace.columns import table_of
from resprout.trace.schema import Row, TraceError

ABORTED: Final = "aborted"
PROMISE: Final = "promise"
ENDS: Final = (kinds.QUIESCENT, kinds.TIMEOUT, ABORTED)
"""Kinds of last rows."""
FILES: Final = "rows-*.parquet"
_FILE: Final = "rows-{:06d}.parquet"


def promise_row(promise: Promises) -> Row:
    cells = {"order": promise.order.value, "reliability": promise.reliability.value}
    return Row(time_us=0, node="world", kind=PROMISE, attributes={**cells, "receipts": " ".join(promise.receipts)})


def promise_of(row: Row) -> Promises:
    """What such a row says; TraceError when it makes no sense."""
    cells = row.attributes or {}
    receipts = tuple(cells.get("receipts", " ".join(ALL_RECEIPTS)).split())
    try:
        return msgspec.convert({**cells, "receipts": receipts}, Promises)
    except msgspec.ValidationError as error:
        raise TraceError(f"a {PROMISE} row that makes no sense: {error}") from None


class LiveFolder:
    """Writes one run into a folder of its own: a folder that holds anything already is left alone."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._files = 0
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if found := sorted(path.name for path in self.folder.iterdir()):
                raise TraceError(
                    f"{self.folder}: not written, the folder holds {found[0]!r}; live rows need an empty one"
                )
            trial = self.folder / ".trial"
            trial.touch()
            trial.unlink()
        except OSError as error:
            raise TraceError(f"{self.folder}: cannot be prepared for live rows: {_reason(error)}") from None

    def write(self, rows: Sequence[Row]) -> None:
        """Adds a file with these rows; nothing when there are none."""
        if not rows:
            return
        path = self.folder / _FILE.format(self._files)
        draft = path.absolute().with_name(f".{path.name}")
        try:
            pq.write_table(table_of(rows), draft, compression="zstd", write_page_checksum=True)
            if path.exists():
                raise TraceError(f"{path}: not written, somebody else has written it")
            draft.replace(path)
        except (pa.ArrowException, OSError) as error:
            raise TraceError(f"{path}: cannot be written: {_reason(error)}") from None
        self._files += 1


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return " ".join(str(error).split())[:200]
