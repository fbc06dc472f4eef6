"""What of a watched run has been said already, beside Spark's own checkpoint.

A micro-batch that was interrupted is repeated after a restart, with the same number. Its findings are told again only
when they had not been told, and a file of violations is written under the number of its batch, so it is written once
however often the batch is repeated.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from resprout.audit.verdict import Anomaly
from resprout.pipeline.errors import PipelineError
from resprout.pipeline.live.findings import JudgeProgress

_NAME: Final = "watched.json"


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
