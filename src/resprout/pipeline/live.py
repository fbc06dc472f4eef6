"""The live judge on Spark: files of a live folder in, findings out, and a checkpoint to resume from.

The state of a run is one value, since its rules reach across subscribers and keys: one run is judged by one core, at
the speed that docs/pipeline.md gives. The checkpoint holds which files were read and the state that they led to, in
step. After a restart the same files lead from the same state to the same findings, so nothing is lost.

*Findings* are violations, and how far the judge is. A micro-batch that was interrupted is repeated after a restart,
with the same number. Its findings are reported again only when they had not been reported (`ToldFindings`), and a file
of violations is written under the number of its batch, so it is written once however often the batch is repeated.

Rows travel as JSON, written by Spark: pandas would turn integers that may be missing into floating-point numbers. They
are sorted into the order in which they were written, by file and place in the file, however Spark split the work.

The judge is kept in the worker for the next micro-batch. It is used only when the state that Spark hands over is the
one that it had written, byte for byte; otherwise (another worker, a restart, a repeated batch) it is read back.

`wait_for_rows` waits for the first rows of a live folder without Spark, so that the wait can be interrupted at once.
"""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from resprout.audit.live.judge import LiveJudge
from resprout.audit.live.memory import LiveOptions
from resprout.audit.verdict import Anomaly
from resprout.pipeline.errors import PipelineError, in_one_line
from resprout.trace.schema import Row, TraceError
from resprout.trace.store import FILES

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.state import GroupState

OUTPUT_SCHEMA: Final = "run string, order int, body binary"
"""One line for each finding of a micro-batch; the body is written by `to_body`."""

_NAME: Final = "watched.json"

LOOK_SECONDS: Final = 0.2

FILES_PER_TRIGGER: Final = 20
"""Ten seconds of a run: whoever begins to watch late catches up in steps of this size."""
SPARK_SCHEMA: Final = (
    "time_us bigint, node string, kind string, publisher string, incarnation int, stream string, seq bigint,"
    " topic string, keys array<string>, guarantee string, attributes map<string,string>, position bigint,"
    " receipt string, filter string, `where` string, tseq bigint, hops int, metadata_bytes int, payload_bytes int,"
    " detail string"
)
"""The columns of `trace.columns.ARROW_SCHEMA`."""
PERIOD: Final = "500 milliseconds"
_LETTERS_OF_PATTERNS: Final = "*?{}[]\\"

STATE_SCHEMA: Final = "state binary, silent int"
"""What the judge remembers, and how often in a row the run has been found silent."""
INPUT: Final = ("file", "place", "body")
"""Columns beside the run: file name, place in it, and the row as JSON."""
PAUSE_MS: Final = 1_500
"""When nothing has come for so long, twice in a row, rows are not held back any longer. Twice, because the time that a
micro-batch takes counts too: after a long one a run looks silent that is not."""

_decode_row: Final = msgspec.json.Decoder(dict[str, Any]).decode
_kept: dict[str, tuple[bytes, LiveJudge]] = {}
"""By run: the state that was written last in this process, and the judge that wrote it."""


class JudgeProgress(msgspec.Struct, frozen=True, tag="standing"):
    """How far the judge is after a micro-batch. One for each micro-batch, behind its violations."""

    rows: int
    """Judged so far."""
    held: int
    """Rows that wait for the watermark."""
    judged_us: int
    """Everything up to this time of the run has been judged."""
    state_bytes: int
    counts: dict[str, int]
    """As `LiveJudge.counts`."""
    found: dict[str, int]
    """Violations so far, by rule."""
    ended: str = ""
    """How the run ended, when it has."""


class Violation(msgspec.Struct, frozen=True, tag="violation"):
    anomaly: Anomaly


Finding = Violation | JudgeProgress

_encode: Final = msgspec.msgpack.Encoder().encode
_decode_finding: Final[Callable[[bytes], Finding]] = msgspec.msgpack.Decoder(Finding).decode


def to_body(finding: Finding) -> bytes:
    return _encode(finding)


def from_body(body: bytes) -> Finding:
    return _decode_finding(body)


class ToldFindings(msgspec.Struct, frozen=True):
    folder: str
    """Whose rows."""
    batch: int
    """The latest micro-batch whose findings have been told."""
    standing: JudgeProgress | None
    """How far the judge was then."""


class Record:
    """In the folder of a checkpoint. PipelineError when that belongs to another live folder."""

    def __init__(self, checkpoint: Path, folder: Path) -> None:
        self._path = checkpoint / _NAME
        self._folder = str(folder.resolve())
        self.told = self._read() or ToldFindings(self._folder, -1, None)
        if self.told.folder != self._folder:
            raise PipelineError(f"{checkpoint}: the checkpoint of {self.told.folder}, not of {folder}")

    def is_news(self, batch: int) -> bool:
        return batch > self.told.batch

    def tell(self, batch: int, standing: JudgeProgress | None) -> None:
        self.told = ToldFindings(self._folder, batch, standing or self.told.standing)
        _write(self._path, msgspec.json.encode(self.told) + b"\n")

    def _read(self) -> ToldFindings | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=ToldFindings)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise PipelineError(f"{self._path}: cannot be read: {error}") from None


class ViolationFiles:
    """A folder with one file of JSON lines for each micro-batch that found something."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PipelineError(f"{folder}: cannot be written: {error.strerror or error}") from None

    def write(self, batch: int, anomalies: Sequence[Anomaly]) -> None:
        if anomalies:
            content = b"".join(msgspec.json.encode(as_dict(anomaly)) + b"\n" for anomaly in anomalies)
            _write(self._folder / f"violations-{batch:06d}.jsonl", content)


def as_dict(anomaly: Anomaly) -> dict[str, Any]:
    """With the names that `resprout audit --json` uses."""
    return dict(msgspec.to_builtins(anomaly))


def _write(path: Path, content: bytes) -> None:
    draft = path.with_name(f".{path.name}.partial")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    except OSError as error:
        raise PipelineError(f"{path}: cannot be written: {error.strerror or error}") from None


def has_rows(folder: Path) -> bool:
    return next(folder.glob(FILES), None) is not None


def wait_for_rows(folder: Path, over: threading.Event) -> bool:
    """Whether there are any; not, when `over` was set before. PipelineError when the folder goes away meanwhile."""
    while not has_rows(folder):
        if not folder.is_dir():
            raise PipelineError(f"{folder}: the folder is gone, and no rows had come")
        if over.wait(LOOK_SECONDS):
            return False
    return True


OnFindings = Callable[[int, Sequence[Finding]], None]
"""Given the number of a micro-batch and what it found. A batch that was interrupted is given again after a restart,
with the same number and the same findings."""


class BatchStep:
    """What Spark calls for each run that has new rows, or has had none for a while."""

    def __init__(self, options: LiveOptions, pause_ms: int = PAUSE_MS) -> None:
        self._options = options
        self._pause_ms = pause_ms

    def __call__(
        self, key: tuple[Any, ...], frames: "Iterable[pd.DataFrame]", state: "GroupState"
    ) -> "Iterator[pd.DataFrame]":
        import pandas as pd

        run = str(key[0])
        state_now, silent = state.get if state.exists else (None, 0)
        silent = silent + 1 if state.hasTimedOut else 0
        if silent == 1:
            state.update((state_now, silent))
            state.setTimeoutDuration(self._pause_ms)
            return
        judge = self._judge(run, bytes(state_now) if state_now is not None else None)
        found = judge.pause() if silent else judge.take(_rows(frames))
        written = judge.state()
        _kept[run] = (written, judge)
        state.update((written, silent))
        if not judge.ended and not silent:
            state.setTimeoutDuration(self._pause_ms)
        bodies = [*(to_body(Violation(anomaly)) for anomaly in found), to_body(_standing(judge, len(written)))]
        yield pd.DataFrame({"run": [run] * len(bodies), "order": range(len(bodies)), "body": bodies})

    def _judge(self, run: str, state: bytes | None) -> LiveJudge:
        if state is None:
            return LiveJudge(self._options)
        written, judge = _kept.pop(run, (b"", None))
        return judge if judge is not None and written == state else LiveJudge.from_state(state)


def _standing(judge: LiveJudge, state_bytes: int) -> JudgeProgress:
    counts = judge.counts
    return JudgeProgress(counts["rows"], judge.held, judge.watermark_us, state_bytes, counts, judge.found, judge.ended)


def _rows(frames: "Iterable[pd.DataFrame]") -> list[Row]:
    lines: list[tuple[str, int, str]] = []
    for frame in frames:
        lines.extend(zip(*(frame[name] for name in INPUT), strict=True))
    lines.sort()
    return [_row(file, place, body) for file, place, body in lines]


def _row(file: str, place: int, body: str) -> Row:
    cells = _decode_row(body)
    if (keys := cells.get("keys")) is not None:
        cells["keys"] = tuple(keys)
    try:
        return Row(**cells)
    except TypeError:
        raise TraceError(f"{file}: row {place} has no time, node or kind") from None


def check_followable(folder: Path) -> None:
    """PipelineError when Spark would follow other folders instead, or none. Escaped, it reads every file twice."""
    if found := [letter for letter in str(folder.resolve()) if letter in _LETTERS_OF_PATTERNS]:
        raise PipelineError(
            f"{folder}: Spark takes a path with {found[0]} in it for a pattern; watch it by another name"
        )


class LiveWatch:
    """A query that runs until it is stopped."""

    def __init__(self, query: "StreamingQuery") -> None:
        self._query = query

    def check(self) -> None:
        """PipelineError, in one line, when it has failed."""
        if not self._query.isActive and (error := self._query.exception()) is not None:
            raise PipelineError(in_one_line(error))


def follow(
    spark: "SparkSession",
    folder: Path,
    checkpoint: Path,
    on_findings: OnFindings,
    options: LiveOptions,
    over: threading.Event,
) -> None:
    """Judges what is and will be in the folder until `over` is set. PipelineError when the query fails."""
    with watching(spark, folder, checkpoint, on_findings, options) as query:
        while not over.wait(LOOK_SECONDS):
            query.check()


@contextlib.contextmanager
def watching(
    spark: "SparkSession",
    folder: Path,
    checkpoint: Path,
    on_findings: OnFindings,
    options: LiveOptions = LiveOptions(),  # noqa: B008 (it is frozen)
    files_per_trigger: int = FILES_PER_TRIGGER,
    pause_ms: int = PAUSE_MS,
) -> Iterator[LiveWatch]:
    """Judges what is and will be in the folder until the block ends. `on_findings` is called on a thread of its own."""
    own = spark.newSession()
    own.conf.set("spark.sql.shuffle.partitions", "1")  # one run, one state: more stores would only cost time

    def hand_over(batch: "DataFrame", number: int) -> None:
        rows = sorted(batch.collect(), key=lambda row: (row["run"], row["order"]))
        on_findings(number, [from_body(bytes(row["body"])) for row in rows])

    query = (
        _judged(_written(own, folder, files_per_trigger), BatchStep(options, pause_ms))
        .writeStream.outputMode("append")
        .foreachBatch(hand_over)
        .option("checkpointLocation", _address(checkpoint))
        .trigger(processingTime=PERIOD)
        .start()
    )
    try:
        yield LiveWatch(query)
    finally:
        with contextlib.suppress(Exception):  # a query that failed has stopped, and a Java that died cannot be asked
            query.stop()


def _written(spark: "SparkSession", folder: Path, files_per_trigger: int) -> "DataFrame":
    """The rows of all files, each as JSON, with where it stands."""
    from pyspark.sql import functions as f

    rows = (
        spark.readStream.schema(SPARK_SCHEMA)
        .option("maxFilesPerTrigger", files_per_trigger)
        .option("pathGlobFilter", FILES)
        .parquet(_address(folder))
    )
    return rows.select(
        f.lit(folder.name).alias("run"),
        f.col("_metadata.file_name").alias("file"),
        f.col("_metadata.row_index").alias("place"),
        f.to_json(f.struct("*")).alias("body"),
    )


def _address(folder: Path) -> str:
    """Of this machine's files, whatever Spark would take a path for; it takes the letters after that as they are."""
    return f"file://{folder.resolve()}"


def _judged(rows: "DataFrame", step: BatchStep) -> "DataFrame":
    from pyspark.sql.streaming.state import GroupStateTimeout

    return rows.groupBy("run").applyInPandasWithState(
        step,
        outputStructType=OUTPUT_SCHEMA,
        stateStructType=STATE_SCHEMA,
        outputMode="append",
        timeoutConf=GroupStateTimeout.ProcessingTimeTimeout,
    )
