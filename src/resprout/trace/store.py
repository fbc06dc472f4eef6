"""A trace on disk: a folder of Parquet files; written whole when a run is over, or file by file while it happens.

**A finished run** is a folder with part files of one table, and `run.json`. An interrupted write never looks whole:
every file is written under a temporary name and renamed, `run.json` comes last, and without it there is no trace. It
holds the number of rows and their digest, so a part file that was lost, exchanged or damaged is noticed when the trace
is read. A folder that holds anything but a trace is left alone. `Recorder` collects the rows of a run as they happen:
in memory, or with a `TraceWriter`, which writes a part file every `SPILL_ROWS` rows. Either way the digest grows along,
and recording a row costs little more than appending to a list.

**A run while it happens** (`LiveFolder`) is a folder to which files of rows are added until the run is over:

    rows-000000.parquet, rows-000001.parquet, ...

A file is whole from the moment it has its name, it is never changed, and no name is used twice: a reader never has to
read a file again. The rows of one node are in the order in which it observed them, within a file and from file to file,
and rows within a file are in the order of their times. But a row may come after a file with later rows of other nodes,
by as long as its process took to write it.

Where a run promises less than a network can, the first row says what (`promise`); `run.json` says it of a finished run.
The last row says that the run is over: the `quiescent` or `timeout` row of the trace or, where the run failed or was
interrupted, an `aborted` row. Rows of kind `promise` and `aborted` are in live folders only.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from resprout.core.errors import needed_for
from resprout.core.guarantee import ALL_RECEIPTS, Promises
from resprout.trace import kinds
from resprout.trace.schema import SCHEMA_VERSION, Digest, Row, TraceError, digest_of, reason_of

INFO_NAME: Final = "run.json"
_PART: Final = "part-{:05d}.parquet"
_PARTS: Final = "part-*.parquet"
_TEMPORARY: Final = ".partial"

SPILL_ROWS: Final = 100_000
"""Rows in memory before they become a part file: about 50 MB, and large enough for Parquet to compress well."""

ABORTED: Final = "aborted"
PROMISE: Final = "promise"
ENDS: Final = (kinds.QUIESCENT, kinds.TIMEOUT, ABORTED)
"""Kinds of last rows."""
FILES: Final = "rows-*.parquet"
_FILE: Final = "rows-{:06d}.parquet"


class RunInfo(msgspec.Struct, kw_only=True, frozen=True):
    """Everything that is known about a run beside its rows. The writer fills in `digest` and `rows`."""

    scenario: dict[str, Any] = {}
    options: dict[str, Any] = {}
    seed: int = 0
    versions: dict[str, str] = {}
    ended: str = ""
    """"quiescent", "timeout", or what stopped it."""
    promise: Promises = Promises()
    """What the run is judged by; where it is absent, all that a network can promise."""
    traffic: dict[str, int] = {}
    """What all nodes sent and received, as far as that was counted: the sums of the `load` rows."""
    digest: str = ""
    rows: int = 0
    schema_version: int = SCHEMA_VERSION


def check_judgeable(info: RunInfo) -> None:
    """TraceError for a run that recorded too little to tell whether its promises were kept."""
    if info.scenario.get("trace") == "counts":
        raise TraceError('the run recorded counts only (trace = "counts"): there is nothing to judge')


class Trace(msgspec.Struct, frozen=True):
    rows: list[Row]
    info: RunInfo


class TraceWriter:
    """Writes a trace part by part. Until `finish` the folder holds no trace, whatever it held before."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        with needed_for("a trace on disk"):
            from resprout.trace import columns
        self._columns = columns
        self._folder = Path(folder)
        self.digest = Digest()
        """Of the rows written so far."""
        self._rows = 0
        self._parts = 0
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            old = sorted(self._folder.iterdir())
            if foreign := [path.name for path in old if not _belongs_to_a_trace(path)]:
                raise TraceError(f"{self._folder}: not written, the folder holds {foreign[0]!r}, which is no trace")
            (self._folder / INFO_NAME).unlink(missing_ok=True)  # first: what is left is no trace any more
            for path in old:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise TraceError(f"{self._folder}: cannot be prepared for a trace: {reason_of(error)}") from None

    def write(self, rows: Sequence[Row]) -> None:
        """Appends a part file with these rows."""
        if not rows:
            return
        path = self._folder / _PART.format(self._parts)
        _replace(path, lambda temporary: self._columns.write_rows(rows, temporary))
        self.digest.update(rows)
        self._parts += 1
        self._rows += len(rows)

    def finish(self, info: RunInfo) -> RunInfo:
        """Writes `run.json`: from here on the trace is whole. Returns the info as written."""
        if not self._parts:  # a run without rows is still a table that anything can read
            _replace(self._folder / _PART.format(0), lambda path: self._columns.write_rows((), path))
        whole = msgspec.structs.replace(info, digest=self.digest.value, rows=self._rows, schema_version=SCHEMA_VERSION)
        path = self._folder / INFO_NAME
        try:
            text = msgspec.json.format(msgspec.json.encode(whole, order="deterministic"), indent=2)
        except (TypeError, ValueError) as error:
            raise TraceError(f"{path}: not written: {reason_of(error)}") from None
        _replace(path, lambda temporary: temporary.write_bytes(text + b"\n"))
        return whole


def write_trace(folder: str | os.PathLike[str], rows: Sequence[Row], info: RunInfo) -> RunInfo:
    """Writes a whole trace and returns its info with the digest and number of rows filled in."""
    writer = TraceWriter(folder)
    writer.write(rows)
    return writer.finish(info)


def read_info(folder: str | os.PathLike[str]) -> RunInfo:
    """What `run.json` says; raises TraceError when there is no whole trace of this version."""
    path = Path(folder) / INFO_NAME
    if not path.parent.is_dir():
        raise TraceError(f"{path.parent}: there is no such folder")
    return info_at(path)


class Readable(Protocol):
    """A file, wherever it lies."""

    def read_bytes(self) -> bytes: ...


def info_at(path: Readable) -> RunInfo:
    """What this `run.json` says."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise TraceError(f"{path}: missing; the folder holds no trace, or one that was never finished") from None
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {reason_of(error)}") from None
    try:
        version = msgspec.json.decode(content, type=_Version).schema_version
        if version != SCHEMA_VERSION:
            raise TraceError(f"{path}: schema version {version}; this program reads version {SCHEMA_VERSION}")
        return msgspec.json.decode(content, type=RunInfo)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise TraceError(f"{path}: damaged: {reason_of(error)}") from None


def read_trace(folder: str | os.PathLike[str], is_verified: bool = False) -> Trace:
    """The trace in a folder, checked against its digest, unless somebody has done that just now."""
    info = read_info(folder)
    rows: list[Row] = []
    for path in sorted(Path(folder).glob(_PARTS)):
        rows.extend(_read_part(path))
    if len(rows) != info.rows:
        raise TraceError(f"{folder}: the part files hold {len(rows)} rows, {INFO_NAME} says {info.rows}")
    if not is_verified and (digest := digest_of(rows)) != info.digest:
        raise TraceError(
            f"{folder}: the rows are not those of the run: digest {digest}, {INFO_NAME} says {info.digest}"
        )
    return Trace(rows, info)


class _Version(msgspec.Struct):
    schema_version: int


def _read_part(path: Path) -> list[Row]:
    with needed_for("a trace on disk"):
        from resprout.trace import columns
    try:
        return columns.read_rows(path)
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from None


def _belongs_to_a_trace(path: Path) -> bool:
    name = path.name.removesuffix(_TEMPORARY)
    return not path.is_dir() and (name == INFO_NAME or Path(name).match(_PARTS))


def _replace(path: Path, write: Any) -> None:
    temporary = path.with_name(path.name + _TEMPORARY)
    try:
        write(temporary)
        temporary.replace(path)
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from None
    except OSError as error:
        raise TraceError(f"{path}: cannot be written: {reason_of(error)}") from None


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
        with needed_for("a folder of live rows"):
            from resprout.trace import columns
        self._columns = columns
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
            raise TraceError(f"{self.folder}: cannot be prepared for live rows: {reason_of(error)}") from None

    def write(self, rows: Sequence[Row]) -> None:
        """Adds a file with these rows; nothing when there are none."""
        if not rows:
            return
        path = self.folder / _FILE.format(self._files)
        draft = path.absolute().with_name(f".{path.name}")
        try:
            self._columns.write_rows(rows, draft, checksums=True)
            if path.exists():
                raise TraceError(f"{path}: not written: another process has written it")
            draft.replace(path)
        except OSError as error:
            raise TraceError(f"{path}: cannot be written: {reason_of(error)}") from None
        self._files += 1
