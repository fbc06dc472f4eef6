"""One micro-batch of one run, in a worker: the state in, more rows, the state out.

Rows travel as JSON, written by Spark: pandas would make floating-point numbers of integers that may be missing. They
are put in the order in which they were written, which files and places in them give, however Spark split the work.

The judge itself is kept in the worker for the next micro-batch. It is used only when the state that Spark hands over is
the one that it had written, byte for byte; otherwise (another worker, a restart, a repeated batch) it is read back.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from resprout.audit.live.judge import LiveJudge
from resprout.audit.live.memory import LiveOptions
from resprout.pipeline.live.findings import JudgeProgress, Violation, to_body
from resprout.trace.schema import Row, TraceError

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.state import GroupState

STATE_SCHEMA: Final = "state binary, silent int"
"""What the judge remembers, and how often in a row the run has been found silent."""
INPUT: Final = ("file", "place", "body")
"""Columns beside the run: file name, place in it, and the row as JSON."""
PAUSE_MS: Final = 1_500
"""When nothing has come for so long, twice in a row, rows are not held back any longer. Twice, because the time that a
micro-batch takes counts too: after a long one a run looks silent that is not."""

_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode
_kept: dict[str, tuple[bytes, LiveJudge]] = {}
"""By run: the state that was written last in this process, and the judge that wrote it."""


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
    cells = _decode(body)
    if (keys := cells.get("keys")) is not None:
        cells["keys"] = tuple(keys)
    try:
        return Row(**cells)
    except TypeError:
        raise TraceError(f"{file}: row {place} has no time, node or kind") from None
