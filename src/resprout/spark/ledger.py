"""What a task is about to publish, and what it has published, in files beside the checkpoint.

The rows of a task are put down whole before the first of them is published. Whoever has to do it again, after a crash,
publishes what stands there, and not what the query brings the second time, which may come in another order. When all of
it is safe, a file of 41 bytes takes its place, and the work is never done again.

    BATCH-PARTITION.rows     about to be published
    BATCH-PARTITION.done     published: how many rows, and a sum over them

Files are whole or not there. Of two that put down the same at once, the first one wins.
"""

import contextlib
import logging
import os
import secrets
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlparse

import msgspec
import pyarrow as pa

from resprout.core.errors import UsageError
from resprout.spark.options import SinkError

FOLDER: Final = "resprout-sink"
"""In the folder of the checkpoint."""
BATCHES_KEPT: Final = 10
"""Of which it is known that they were published; Spark repeats the last one at most."""

_ROWS: Final = ".rows"
_DONE: Final = ".done"
_FOOT_BYTES: Final = 41
_IDENTITY: Final = "identity"

_log: Final = logging.getLogger("resprout.spark")


class LedgerEntry:
    """Of one task: the rows of one partition of one batch."""

    def __init__(self, folder: Path, batch: int, partition: int) -> None:
        self._folder = folder
        self._name = f"{batch}-{partition}"
        self.text = f"batch {batch}, partition {partition}"

    @property
    def is_done(self) -> bool:
        return self._path(_DONE).exists()

    def put_down(self, batches: Iterable[pa.RecordBatch]) -> int:
        """All rows, unless they were put down before; how many stand there. SinkError when that is not as many as the
        query brings now."""
        self._folder.mkdir(parents=True, exist_ok=True)
        draft = self._folder / f".{self._name}.{secrets.token_hex(6)}"
        try:
            brought = self._write(draft, batches)
            if brought.count and not self.is_done:
                with contextlib.suppress(FileExistsError):
                    os.link(draft, self._path(_ROWS))
                    _sync(self._folder)
            return self._compare(brought)
        finally:
            draft.unlink(missing_ok=True)

    def rows(self) -> list[pa.RecordBatch]:
        """What stands there; memory is taken as it is read."""
        with pa.memory_map(str(self._path(_ROWS))) as source:
            return list(pa.ipc.open_stream(source))

    def done(self) -> None:
        """Keep what the rows come to, and drop the rows: they are never published again."""
        draft = self._folder / f".{self._name}.{secrets.token_hex(6)}"
        with contextlib.suppress(FileNotFoundError):  # whoever did the same at the same time was first
            foot = _foot(self._path(_ROWS))
            with draft.open("wb") as file:
                file.write(foot.text)
                file.flush()
                os.fsync(file.fileno())
            draft.rename(self._path(_DONE))
            _sync(self._folder)
            self._path(_ROWS).unlink()
        _sync(self._folder)

    def _path(self, kind: str) -> Path:
        return self._folder / f"{self._name}{kind}"

    def _write(self, draft: Path, batches: Iterable[pa.RecordBatch]) -> "_Foot":
        """What the rows come to stands at the end of the file."""
        count = total = 0
        writer: pa.ipc.RecordBatchStreamWriter | None = None
        with draft.open("wb") as file:
            for batch in batches:
                if not batch.num_rows:
                    continue
                if writer is None:
                    writer = pa.ipc.new_stream(file, batch.schema)
                writer.write_batch(batch)
                count += batch.num_rows
                total += sum([zlib.crc32(_bytes(value)) for value in batch.column("value").to_pylist()])
            if writer is not None:
                writer.close()
            foot = _Foot(count, total)
            file.write(foot.text)
            file.flush()
            os.fsync(file.fileno())
        return foot

    def _compare(self, brought: "_Foot") -> int:
        """Whether what stands there is what the query brings now. A query that draws random values brings others the
        second time, and those of the first time count."""
        kept = next((_foot(path) for path in map(self._path, (_DONE, _ROWS, _DONE)) if path.exists()), _Foot(0, 0))
        if kept.count != brought.count:
            raise SinkError(
                f"{self.text}: {kept.count} rows were put down to be published, and now the query brings "
                f"{brought.count}; was the checkpoint set back by hand? Use a new one"
            )
        if kept != brought:
            _log.warning("%s: the query brings other rows than before; those of before are published", self.text)
        return kept.count


class _Foot(msgspec.Struct, frozen=True):
    """How many rows there are, and a sum over their values that no order changes."""

    count: int
    total: int

    @property
    def text(self) -> bytes:
        return b"%020d %020d" % (self.count, self.total)


def _foot(path: Path) -> _Foot:
    with path.open("rb") as file:
        file.seek(-_FOOT_BYTES, os.SEEK_END)
        count, total = file.read().split()
    return _Foot(int(count), int(total))


def _bytes(value: bytes | str | None) -> bytes:
    return value if isinstance(value, bytes) else (value or "").encode()


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def ledger_folder(place: str) -> Path:
    """UsageError for what is no path: files are linked and renamed there."""
    address = urlparse(place)
    if address.scheme not in ("", "file"):
        raise UsageError(f"{place}: the sink keeps its ledger in a folder that all tasks see; set the option ledger")
    return Path(unquote(address.path) if address.scheme else place)


def identity(folder: Path) -> str:
    """Of this ledger, drawn when it is first asked for: whoever has another one does another work."""
    folder.mkdir(parents=True, exist_ok=True)
    draft, path = folder / f".{_IDENTITY}.{secrets.token_hex(6)}", folder / _IDENTITY
    draft.write_text(secrets.token_hex(16))
    with contextlib.suppress(FileExistsError):
        os.link(draft, path)
        _sync(folder)
    draft.unlink()
    return path.read_text()


def clear(folder: Path, batch: int) -> None:
    """What was published long before this batch."""
    for path in folder.glob(f"*{_DONE}"):
        number = path.name.partition("-")[0]
        if number.isdecimal() and int(number) <= batch - BATCHES_KEPT:
            path.unlink(missing_ok=True)
    for draft in folder.glob(".*"):  # of tasks that were killed
        number = draft.name[1:].partition("-")[0]
        if number.isdecimal() and int(number) < batch:
            draft.unlink(missing_ok=True)
