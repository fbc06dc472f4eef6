"""A generated run with one delivery dropped, early and of something that most of the rest depends on."""

from pathlib import Path

import msgspec

from benchmarks.spark.rows import Run
from resprout.trace.columns import rows_of
from resprout.trace.schema import Row
from resprout.trace.store import RunInfo, TraceWriter

_SHAKEN = ("crash", "leave", "freeze", "unsubscribe")


def write_with_a_delivery_dropped(folder: Path, run: Run) -> RunInfo:
    """The first causal delivery, of the second hundredth of the run, to a client to which nothing happens."""
    shaken = {row.node for part in run.parts() for row in rows_of(part) if row.kind in _SHAKEN}
    writer, victim, seen = TraceWriter(folder), "", 0
    for part in run.parts():
        kept: list[Row] = []
        for row in rows_of(part):
            if row.kind == "deliver":
                seen += 1
                late = seen * 100 > run.deliveries
                if not victim and late and row.guarantee == "causal" and row.node not in shaken:
                    victim = row.node
                    continue
                if row.node == victim:
                    row = msgspec.structs.replace(row, position=(row.position or 0) - 1)
            kept.append(row)
        writer.write(kept)
    return writer.finish(RunInfo(ended="quiescent"))
