"""`python -m benchmarks.spark.yardstick RUN_FOLDER...`: one JSON object with what was found and how long it took."""

import argparse
import itertools
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import duckdb  # type: ignore[import-not-found]  # of the benchmarks' own environment

from benchmarks.spark.yardstick.causal import violations
from benchmarks.spark.yardstick.rules import IMPLYING, RULES, SUSPECTS
from benchmarks.spark.yardstick.tables import build

_MEMORY: Final = "4GB"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.yardstick", description=__doc__)
    parser.add_argument("folders", nargs="+", metavar="RUN_FOLDER")
    parser.add_argument("--memory", default=_MEMORY, help=f"what DuckDB may use before it spills (default {_MEMORY})")
    wanted = parser.parse_args()
    files = sorted(str(path) for folder in wanted.folders for path in Path(folder).glob("part-*.parquet"))
    with tempfile.TemporaryDirectory() as spill, duckdb.connect() as database:
        database.execute(f"set memory_limit = '{wanted.memory}'; set temp_directory = '{spill}'")
        database.execute(f"set threads = {os.cpu_count()}; set enable_progress_bar = false")
        print(json.dumps(audit(database, files)))
    return 0


def audit(database: duckdb.DuckDBPyConnection, files: list[str]) -> dict[str, Any]:
    began, used = time.perf_counter(), time.process_time()
    build(database, files)
    stages = {"tables": time.perf_counter() - began}
    found: dict[str, list[Any]] = {}
    for rule, query in RULES.items():
        found[rule] = _timed(stages, rule, database, query)
    suspects = _timed(stages, "causal", database, SUSPECTS)
    by_run: dict[int, set[int]] = {}
    for run, life, *_ in itertools.chain(suspects, *(found[rule] for rule in IMPLYING)):
        by_run.setdefault(run, set()).add(life)
    found["causal"] = [each for run in sorted(by_run) for each in violations(database, run, sorted(by_run[run]))]
    return {
        "seconds": time.perf_counter() - began,
        "processor": time.process_time() - used,
        "stages": {stage: round(seconds, 2) for stage, seconds in stages.items()},
        "rows": _count(database, "select sum(rows) from runs"),
        "deliveries": _count(database, "select count(*) from deliveries"),
        "suspects": sum(map(len, by_run.values())),
        "violations": _by_run(database, found),
    }


def _by_run(database: duckdb.DuckDBPyConnection, found: dict[str, list[Any]]) -> dict[str, dict[str, int]]:
    """For each run in which something is wrong: how often each rule is broken."""
    counts: dict[str, dict[str, int]] = {}
    folders = dict(database.execute("select run_no, run from runs").fetchall())
    for rule, cases in sorted(found.items()):
        for run, *_ in cases:
            of_run = counts.setdefault(folders[run], {})
            of_run[rule] = of_run.get(rule, 0) + 1
    return counts


def _timed(stages: dict[str, float], name: str, database: duckdb.DuckDBPyConnection, query: str) -> list[Any]:
    began = time.perf_counter()
    answer = list(database.execute(query).fetchall())
    stages[name] = time.perf_counter() - began
    return answer


def _count(database: duckdb.DuckDBPyConnection, query: str) -> int:
    row = database.execute(query).fetchone()
    return int(row[0]) if row is not None else 0


if __name__ == "__main__":
    raise SystemExit(main())
