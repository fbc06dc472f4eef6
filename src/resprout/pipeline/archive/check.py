"""Whether a trace is whole, row by row and in bounded memory, however long the run was."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from resprout.trace import kinds
from resprout.trace.columns import rows_of
from resprout.trace.schema import Digest, Row, TraceError
from resprout.trace.store import INFO_NAME, read_info

PARTS: Final = "part-*.parquet"
_BATCH_ROWS: Final = 1 << 16


class ArchiveCounts(msgspec.Struct, frozen=True):
    publications: int
    deliveries: int


def check_trace(folder: Path) -> ArchiveCounts:
    """Reads every row; TraceError unless they are those that `run.json` is about, in the words of `read_trace`."""
    info = read_info(folder)
    digest = Digest()
    rows = publications = deliveries = 0
    for path in sorted(folder.glob(PARTS)):
        for batch in _batches(path):
            digest.update(batch)
            rows += len(batch)
            publications += sum(row.kind == kinds.PUBLISH for row in batch)
            deliveries += sum(row.kind == kinds.DELIVER for row in batch)
    if rows != info.rows:
        raise TraceError(f"{folder}: the part files hold {rows} rows, {INFO_NAME} says {info.rows}")
    if digest.value != info.digest:
        raise TraceError(
            f"{folder}: the rows are not those of the run: digest {digest.value}, {INFO_NAME} says {info.digest}"
        )
    return ArchiveCounts(publications, deliveries)


def count_rows(folder: Path) -> ArchiveCounts:
    """Of a trace that is known to be whole."""
    found: dict[str, int] = {}
    for path in sorted(folder.glob(PARTS)):
        for entry in pq.read_table(path.absolute(), columns=["kind"], partitioning=None)["kind"].value_counts():
            kind = entry["values"].as_py()
            found[kind] = found.get(kind, 0) + entry["counts"].as_py()
    return ArchiveCounts(found.get(kinds.PUBLISH, 0), found.get(kinds.DELIVER, 0))


def _batches(path: Path) -> Iterator[list[Row]]:
    try:
        with pq.ParquetFile(path.absolute()) as file:
            for batch in file.iter_batches(_BATCH_ROWS, use_threads=False):
                yield rows_of(pa.Table.from_batches([batch]))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: damaged or not Parquet: {_reason(error)}") from None
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from None


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return " ".join(str(error).split())[:200]
