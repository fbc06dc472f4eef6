"""`python -m benchmarks.spark.large_run FOLDER [DELIVERIES] [--spoiled]`: one run that no task can hold, judged in
shards, and what that takes, as JSON. Makes the run in FOLDER when it is not there: clean, or with one early delivery
dropped that much of the rest depends on.

What is broken is found, and not put into words: that is done by the judge in Python, which holds all rows.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.spark.archive import write_archive
from benchmarks.spark.processes import output_and_peak, processor_seconds
from resprout.pipeline.archive import count_rows, write_manifest
from resprout.pipeline.judging.columns import Words
from resprout.pipeline.judging.reading import Fingerprint, Group, read_group
from resprout.pipeline.judging.runs import Limits, detect_large
from resprout.pipeline.places import MANIFEST_NAME, RunPlace, find_runs, place_of
from resprout.pipeline.session import session
from resprout.trace.store import INFO_NAME, RunInfo

_SHAKEN = ("crash", "leave", "freeze", "unsubscribe")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.large_run", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("deliveries", type=int, nargs="?", default=20_000_000)
    parser.add_argument("--spoiled", action="store_true")
    parser.add_argument("--judge", action="store_true", help="in this process")
    wanted = parser.parse_args()
    place = _clean(wanted.folder, wanted.deliveries)
    if wanted.spoiled:
        place = _spoiled(place, wanted.folder / "spoiled")
    if wanted.judge:
        print(json.dumps(_judged(place)))
        return 0
    output, peak = output_and_peak(
        [sys.executable, "-m", "benchmarks.spark.large_run", *sys.argv[1:], "--judge"], os.environ
    )
    print(json.dumps({**json.loads(output), "peak_gb": round(peak / 1e9, 2)}))
    return 0


def _clean(folder: Path, deliveries: int) -> RunPlace:
    write_archive(folder / "clean", 1, deliveries, 1)
    [place] = find_runs([folder / "clean"])
    return place


def _spoiled(clean: RunPlace, folder: Path) -> RunPlace:
    """Without the first causal delivery of the second hundredth of the run, to a client to which nothing happens; the
    positions of its later ones are one less, so nothing but what is missing tells."""
    if (folder / MANIFEST_NAME).exists():
        return place_of(folder, "generated", "spoiled")
    folder.mkdir(parents=True, exist_ok=True)
    shaken: set[str] = set()
    for part in clean.parts:
        table = pq.read_table(part.path, columns=["kind", "node"], partitioning=None)
        shaken |= set(table.filter(pc.is_in(table["kind"], pa.array(_SHAKEN)))["node"].unique().to_pylist())
    victim, rows, fingerprint, words = "", 0, Fingerprint(), Words()
    for part in clean.parts:
        table = pq.read_table(part.path, partitioning=None)
        if not victim and part.first_row * 100 > clean.info.rows:
            table, victim = _drop(table, shaken)
        elif victim:
            table = _one_less(table, victim, 0)
        path = folder / Path(part.path).name
        pq.write_table(table, path, compression="zstd")
        for number in range(pq.read_metadata(path).num_row_groups):
            read_group(Group(str(path), number, 0, 0), words, fingerprint)
        rows += table.num_rows
    info = RunInfo(
        scenario={"name": "generated"}, seed=clean.info.seed, ended="quiescent", digest=fingerprint.value, rows=rows
    )
    (folder / INFO_NAME).write_bytes(msgspec.json.encode(info))
    write_manifest(folder, info, count_rows(folder))
    return place_of(folder, "generated", "spoiled")


def _drop(table: Any, shaken: set[str]) -> tuple[Any, str]:
    kind, guarantee, node = (np.array(table[name].to_pylist(), dtype=object) for name in ("kind", "guarantee", "node"))
    fit = (kind == "deliver") & (guarantee == "causal") & ~np.isin(node.astype(str), sorted(shaken))
    place = int(np.flatnonzero(fit)[0])
    victim = str(node[place])
    table = _one_less(table, victim, place + 1)
    return table.take(pa.array(np.delete(np.arange(table.num_rows), place))), victim


def _one_less(table: Any, victim: str, since: int) -> Any:
    later = pc.and_(pc.equal(table["node"], victim), pc.equal(table["kind"], "deliver"))
    later = pc.and_(later, pa.array(np.arange(table.num_rows) >= since))
    position = pc.if_else(later, pc.subtract(table["position"], 1), table["position"])
    return table.set_column(table.schema.get_field_index("position"), table.schema.field("position"), position)


def _judged(place: RunPlace) -> dict[str, Any]:
    began = time.perf_counter()
    with session() as spark:
        spark.range(1).count()
        started, used = time.perf_counter(), processor_seconds(os.getpid())
        found = detect_large(spark, place, True, Limits())
        seconds, used = time.perf_counter() - started, processor_seconds(os.getpid()) - used
    return {
        "rows": place.info.rows,
        "deliveries": found.counts.get("deliveries"),
        "broken": sorted(found.broken),
        "odd": found.odd,
        "start": round(started - began, 1),
        "seconds": round(seconds, 1),
        "processor": round(used, 1),
        "us_per_row": round(used / place.info.rows * 1e6, 2),
    }


if __name__ == "__main__":
    raise SystemExit(main())
