"""The findings of the live judge: violations, and how far it is; and which of them were reported already.

A micro-batch that was interrupted is repeated after a restart, with the same number. Its findings are reported again
only when they had not been reported, and a file of violations is written under the number of its batch, so it is
written once however often the batch is repeated.

`wait_for_rows` waits for the first rows of a live folder without Spark, so that the wait can be interrupted at once.
"""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from resprout.audit.verdict import Anomaly
from resprout.pipeline.errors import PipelineError
from resprout.trace.live_folder import FILES

OUTPUT_SCHEMA: Final = "run string, order int, body binary"
"""One line for each finding of a micro-batch; the body is written by `to_body`."""

_NAME: Final = "watched.json"

LOOK_SECONDS: Final = 0.2


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
_decode: Final[Callable[[bytes], Finding]] = msgspec.msgpack.Decoder(Finding).decode


def to_body(finding: Finding) -> bytes:
    return _encode(finding)


def from_body(body: bytes) -> Finding:
    return _decode(body)


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
