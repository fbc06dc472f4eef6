"""One run, read whole and judged by the judge in Python. What it complains of gets the name of the run, which may be
one of thousands."""

from resprout.audit.judge import judge
from resprout.audit.verdict import Verdict
from resprout.pipeline.places import RunPlace
from resprout.trace.errors import TraceError
from resprout.trace.store import read_trace


def judge_run(place: RunPlace) -> Verdict:
    trace = read_trace(place.folder)
    try:
        return judge(trace)
    except TraceError as error:
        raise TraceError(f"{place.folder}: {error}") from None
