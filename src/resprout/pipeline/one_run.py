"""Runs, one after the other, each read whole and judged by the judge in Python. What it complains of gets the name of
the run, which may be one of thousands."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from resprout.audit.judge import judge
from resprout.audit.verdict import Verdict
from resprout.pipeline.archive.manifest import verify
from resprout.pipeline.places import RunPlace
from resprout.pipeline.stores import StorePath, fetch, location
from resprout.trace.schema import TraceError
from resprout.trace.store import INFO_NAME, Trace, check_judgeable, read_trace


def judge_run(place: RunPlace) -> Verdict:
    check_place(place)
    trace = trace_of(place)
    try:
        return judge(trace)
    except TraceError as error:
        raise TraceError(f"{place.folder}: {error}") from None


def trace_of(place: RunPlace, is_verified: bool = False) -> Trace:
    """All its rows; of a run in an object store, from a copy here, which is gone afterwards."""
    folder = location(place.folder)
    if not isinstance(folder, StorePath):
        return read_trace(folder, is_verified)
    with tempfile.TemporaryDirectory(prefix="resprout-run-") as copy:
        for there in (*(location(part.path) for part in place.parts), folder / INFO_NAME):
            fetch(there, Path(copy) / there.name)
        return read_trace(copy, is_verified)


def check_place(place: RunPlace) -> None:
    """TraceError for a run that cannot be judged, before anybody reads it."""
    try:
        check_judgeable(place.info)
    except TraceError as error:
        raise TraceError(f"{place.folder}: {error}") from None


def judge_here(
    places: Sequence[RunPlace], on_progress: Callable[[int, int], None] = lambda done, of: None
) -> list[Verdict]:
    """In this process, without Spark."""
    verdicts = []
    for place in places:
        verify(place)
        verdicts.append(judge_run(place))
        on_progress(len(verdicts), len(places))
    return verdicts
