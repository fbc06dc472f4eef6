"""Archives of generated runs, as `pipeline.archive` would have made them, with true digests.

A run has at least as many deliveries as it is asked for, and few more.
"""

import multiprocessing
import os
import shutil
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

import msgspec
import pyarrow.parquet as pq

from benchmarks.spark.network import PUBLICATIONS_PER_TICK, TOPICS, Network
from benchmarks.spark.rows import PART_ROWS, Run
from resprout.pipeline.archive import ArchiveCounts, write_manifest
from resprout.pipeline.places import make_archive, read_manifest, run_folder
from resprout.trace.columns import rows_of
from resprout.trace.schema import Digest
from resprout.trace.store import INFO_NAME, RunInfo, read_info

EXPERIMENT: Final = "generated"
_TICKS_TO_LOOK: Final = 1000


class Size(msgspec.Struct, frozen=True):
    rows: int
    deliveries: int


def write_archive(folder: Path, runs: int, deliveries: int, processes: int | None = None) -> Size:
    """An archive of so many runs with so many deliveries each; what an earlier call wrote whole is kept."""
    make_archive(folder)
    work = ([folder] * runs, range(1, runs + 1), [deliveries] * runs)
    if processes == 1:
        return _sum(map(_write, *work))
    with ProcessPoolExecutor(processes or os.cpu_count(), mp_context=multiprocessing.get_context("spawn")) as pool:
        return _sum(pool.map(_write, *work))


def generate(seed: int, deliveries: int) -> Run:
    """The number of ticks is estimated from the fan-out of the network, and corrected by what came out."""
    ticks = _ticks_for(seed, deliveries)
    while (run := Run(seed, ticks)).deliveries < deliveries:
        ticks += 1 + round(1.01 * ticks * (deliveries / run.deliveries - 1))
    return run


def _ticks_for(seed: int, deliveries: int) -> int:
    network = Network(seed, _TICKS_TO_LOOK)
    subscribers_per_topic = int(network.wanted[network.ordinal == 0].sum()) / len(TOPICS)
    return max(50, round(deliveries / (network.clients * PUBLICATIONS_PER_TICK * subscribers_per_topic)))


def write_run(folder: Path, run: Run, seed: int, rows_max: int = PART_ROWS) -> RunInfo:
    """As `trace.store.TraceWriter` writes it, but from tables: rows are made only for the digest."""
    folder.mkdir(parents=True)
    digest, rows = Digest(), 0
    for number, table in enumerate(run.parts(rows_max)):
        digest.update(rows_of(table))
        rows += table.num_rows
        pq.write_table(table, folder / f"part-{number:05d}.parquet", compression="zstd")
    info = RunInfo(scenario={"name": EXPERIMENT}, seed=seed, ended="quiescent", digest=digest.value, rows=rows)
    text = msgspec.json.format(msgspec.json.encode(info, order="deterministic"), indent=2)
    (folder / INFO_NAME).write_bytes(text + b"\n")
    return info


def _write(archive: Path, seed: int, deliveries: int) -> Size:
    folder = run_folder(archive, EXPERIMENT, f"deliveries={deliveries},seed={seed}")
    manifest = read_manifest(folder)
    if manifest is not None:
        return Size(read_info(folder).rows, manifest.deliveries)
    shutil.rmtree(folder, ignore_errors=True)
    run = generate(seed, deliveries)
    info = write_run(folder, run, seed)
    write_manifest(folder, info, ArchiveCounts(len(run.published), run.deliveries))
    return Size(info.rows, run.deliveries)


def _sum(sizes: Iterable[Size]) -> Size:
    rows, deliveries = zip(*((size.rows, size.deliveries) for size in sizes), strict=True)
    return Size(sum(rows), sum(deliveries))
