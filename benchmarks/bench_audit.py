"""How fast a trace is judged, written and read.

The trace is that of a correct run: clients that publish with all four guarantees on a few topics and keys, a log in the
middle that decides the order, subscribers that receive it with their own delays. Judging is compared with one bare pass
over the rows; writing and reading with Arrow alone, which knows nothing of rows.
"""

import random
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.measure import Measure, interleaved
from resprout.audit.judge import judge
from resprout.trace.columns import table_of
from resprout.trace.schema import Row, digest_of
from resprout.trace.store import RunInfo, read_trace, write_trace


def run(quick: bool = False) -> list[Measure]:
    rows = make_trace(deliveries=20_000 if quick else 200_000)
    assert not judge(rows).violated, "the benchmark's trace must be good"
    rounds = 2 if quick else 3
    with tempfile.TemporaryDirectory() as base:
        return [*_judging(rows, rounds), *_storing(rows, Path(base), rounds)]


def make_trace(deliveries: int, clients: int = 20, topics: int = 5, seed: int = 1) -> list[Row]:
    """About so many deliveries; each client receives three fifths of the topics."""
    rng = random.Random(seed)
    names = [f"c{n}" for n in range(clients)]
    places = [f"bank/t{n}" for n in range(topics)]
    wanted = {name: set(rng.sample(places, max(1, topics * 3 // 5))) for name in names}
    rows: list[Row] = []
    for name in names:
        for topic in sorted(wanted[name]):
            rows.append(Row(time_us=0, node=name, kind="subscribe", filter=topic))
            rows.append(Row(time_us=0, node=name, kind="subscribed", filter=topic))
    log: list[Row] = []
    cursor = dict.fromkeys(names, 0)
    position = dict.fromkeys(names, 0)
    numbers: dict[tuple[str, str], int] = {}
    while len(rows) < deliveries:
        for name in names:
            guarantee = rng.choices(("eventual", "fifo", "causal", "total"), (2, 2, 4, 2))[0]
            stream = "eventual" if guarantee == "eventual" else "ordered"
            numbers[name, stream] = numbers.get((name, stream), 0) + 1
            row = Row(
                time_us=len(rows), node=name, kind="publish", publisher=name, incarnation=0, stream=stream,
                seq=numbers[name, stream], topic=rng.choice(places), keys=(f"acc-{rng.randrange(100)}",),
                guarantee=guarantee, attributes={"amount": str(rng.randrange(1000))}, payload_bytes=32,
            )  # fmt: skip
            rows.append(row)
            log.append(row)
        for name in names:
            _take(rows, log, name, wanted[name], cursor, position, len(log) - rng.randrange(3 * clients))
    for name in names:
        _take(rows, log, name, wanted[name], cursor, position, len(log))
    rows.append(Row(time_us=len(rows), node="world", kind="quiescent"))
    return rows


def _take(
    rows: list[Row],
    log: list[Row],
    name: str,
    wanted: set[str],
    cursor: dict[str, int],
    position: dict[str, int],
    until: int,
) -> None:
    for place in range(cursor[name], max(until, cursor[name])):
        m = log[place]
        if m.topic in wanted:
            rows.append(
                Row(
                    time_us=len(rows), node=name, kind="deliver", publisher=m.publisher, incarnation=0, seq=m.seq,
                    stream=m.stream, topic=m.topic, keys=m.keys, guarantee=m.guarantee, position=position[name],
                    tseq=place if m.guarantee == "total" else None, hops=2, metadata_bytes=5, payload_bytes=32,
                )
            )  # fmt: skip
            position[name] += 1
    cursor[name] = max(until, cursor[name])


def _judging(rows: list[Row], rounds: int) -> list[Measure]:
    def judged() -> int:
        judge(rows)
        return len(rows)

    def bare() -> int:
        last: dict[str, int | None] = {}
        for row in rows:
            if row.kind == "deliver":
                last[row.node] = row.position
        return len(rows)

    def hashed() -> int:
        digest_of(rows)
        return len(rows)

    judging, passing, hashing = interleaved(rounds, judged, bare, hashed)
    return [
        Measure("audit", judging, "rows/s", "one bare pass over the rows", passing),
        Measure("digest", hashing, "rows/s", "one bare pass over the rows", passing),
    ]


def _storing(rows: list[Row], base: Path, rounds: int) -> list[Measure]:
    table = table_of(rows)
    write_trace(base / "trace", rows, RunInfo())
    pq.write_table(table, base / "table.parquet", compression="zstd")

    def written() -> int:
        write_trace(base / "trace", rows, RunInfo())
        return len(rows)

    def written_by_arrow() -> int:
        pq.write_table(table, base / "table.parquet", compression="zstd")
        return len(rows)

    def read() -> int:
        return len(read_trace(base / "trace").rows)

    def read_by_arrow() -> int:
        return int(pq.read_table(base / "table.parquet", use_threads=False).num_rows)

    def listed_by_arrow() -> int:
        return len(pq.read_table(base / "table.parquet", use_threads=False).to_pylist())

    writing, arrow_writing, reading, arrow_reading, listing = interleaved(
        rounds, written, written_by_arrow, read, read_by_arrow, listed_by_arrow
    )
    return [
        Measure("trace write", writing, "rows/s", "Arrow writes a table it has", arrow_writing),
        Measure("trace read", reading, "rows/s", "Arrow reads a table", arrow_reading),
        Measure("trace read to Python", reading, "rows/s", "Arrow reads a table and lists its rows", listing),
    ]


if __name__ == "__main__":
    for measure in run():
        print(
            f"{measure.name}: {measure.value:,.0f} {measure.unit}; {measure.yardstick}: {measure.yardstick_value:,.0f}"
        )
