"""`python -m benchmarks.spark.engines spark|python RUN_FOLDER...`: judges runs and tells how long it took, as JSON.

A process of its own for each measure, so that its memory is that of this work alone. Before the clock starts, Spark
judges one run a few times: its Java code is slow when it is new, its workers must be started, and a session is for more
than one question.
"""

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.spark.processes import processor_seconds
from resprout.audit.judge import judge
from resprout.audit.verdict import Verdict
from resprout.pipeline.judging import judge_runs
from resprout.pipeline.places import RunPlace, place_of
from resprout.pipeline.session import session
from resprout.pipeline.tasks import cores_of
from resprout.trace.store import read_trace


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.engines", description=__doc__)
    parser.add_argument("engine", choices=("spark", "python"))
    parser.add_argument("--first", metavar="RUN_FOLDER", help="what Spark judges before the clock starts")
    parser.add_argument("folders", nargs="+", metavar="RUN_FOLDER")
    wanted = parser.parse_args()
    if wanted.engine == "spark":
        print(json.dumps(_with_spark(wanted.folders, wanted.first or wanted.folders[0])))
    else:
        print(json.dumps(_with_python(wanted.folders)))
    return 0


def _with_spark(folders: Sequence[str], first: str) -> dict[str, Any]:
    began = time.perf_counter()
    with session() as spark:
        spark.range(1).count()
        started = time.perf_counter()
        judge_runs(spark, _places([first]) * (2 * cores_of(spark)))
        warm, used = time.perf_counter(), processor_seconds(os.getpid())
        verdicts = judge_runs(spark, _places(folders))
        ended, used = time.perf_counter(), processor_seconds(os.getpid()) - used
    times = {"seconds": ended - warm, "processor": used, "start": started - began, "first": warm - started}
    return {**_summary(verdicts), **times}


def _with_python(folders: Sequence[str]) -> dict[str, Any]:
    began, used = time.perf_counter(), time.process_time()
    verdicts = [judge(read_trace(folder)) for folder in folders]
    return {**_summary(verdicts), "seconds": time.perf_counter() - began, "processor": time.process_time() - used}


def _places(folders: Sequence[str]) -> list[RunPlace]:
    return [place_of(Path(folder), "generated", folder) for folder in folders]


def _summary(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    return {
        "rows": sum(verdict.counts["rows"] for verdict in verdicts),
        "deliveries": sum(verdict.counts["deliveries"] for verdict in verdicts),
        "violations": {str(n): len(verdict.anomalies) for n, verdict in enumerate(verdicts) if verdict.violated},
    }


if __name__ == "__main__":
    raise SystemExit(main())
