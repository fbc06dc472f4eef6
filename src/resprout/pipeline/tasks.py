"""Work that is no query: a function over things, one Spark task for each, and what it returns as soon as it is there.

This is the one way in which the pipeline has Spark run Python. It uses tables and Arrow only (`mapInArrow`), so it
works with a session of Spark Connect as well. A table has its rows when all of it is done; to have results earlier,
things are divided among many small jobs, of which as many are under way as keep all cores busy.

For tasks of a second or more. Results should be small (they are held by the driver); what is large, tasks write
themselves, to a place that they share with the driver.
"""

import contextlib
import pickle
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

JOBS: Final = 100
"""At most so many, however many things there are: a job costs the driver about what a task costs a worker."""
BATCH: Final = 10_000
"""Things that are handed to Spark at once."""
_CANCEL_SECONDS: Final = 0.2
_CANCEL_ATTEMPTS: Final = 50


def run_each(spark: "SparkSession", work: Callable[[T], R], items: Iterable[T], together: bool = False) -> Iterator[R]:
    """What `work` returns for each item, in order of arrival; items are begun in their own order. What `work` raises
    ends everything. Leaving the loop, or an interrupt in it, cancels what is still under way. `together`: nobody wants
    results before all are there, so it is one job, and each task is cheaper by what a job costs."""
    things = list(items)
    if not things:
        return
    cores = cores_of(spark)
    for begin in range(0, len(things), BATCH):
        some = things[begin : begin + BATCH]
        yield from _run_batch(spark, work, some, len(some) if together else -(-len(some) // JOBS), cores)


@contextlib.contextmanager
def handed_to_tasks(spark: "SparkSession", thing: T) -> Iterator[Callable[[], T]]:
    """How functions that Spark runs come by something large that several of them need. In a session of its own it is
    packed once, and a worker unpacks it once, for all its tasks; to a server of Spark Connect it travels in each
    function."""
    from pyspark.sql import is_remote

    if is_remote():
        yield lambda: thing
        return
    sent = spark.sparkContext.broadcast(thing)
    try:
        yield lambda: sent.value
    finally:
        sent.destroy()


def cores_of(spark: "SparkSession") -> int:
    """How many tasks run side by side: into so many parts Spark divides a table when nobody tells it otherwise. A
    server of Spark Connect tells only by doing so."""
    from pyspark.sql import is_remote
    from pyspark.sql.functions import spark_partition_id

    if not is_remote():
        return spark.sparkContext.defaultParallelism
    return spark.range(1 << 16).select(spark_partition_id()).distinct().count()


def _run_batch(
    spark: "SparkSession", work: Callable[[T], R], items: Sequence[T], width: int, cores: int
) -> Iterator[R]:
    """`width`: items of one job."""
    from pyspark import inheritable_thread_target

    portions = [items[begin : begin + width] for begin in range(0, len(items), width)]
    tag = f"resprout-{secrets.token_hex(8)}"

    def job(portion: Sequence[T]) -> list[R]:
        _mark(spark, tag)
        return _results(spark, work, portion)

    target = inheritable_thread_target(spark)(job)
    threads = min(len(portions), cores if width == 1 else cores // width + 2)  # the next one stands ready
    pool = ThreadPoolExecutor(threads, thread_name_prefix="resprout-job")
    jobs: list[Future[list[R]]] = [pool.submit(target, portion) for portion in portions]
    try:
        for done in as_completed(jobs):
            yield from done.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        _cancel(spark, tag, jobs)


def _results(spark: "SparkSession", work: Callable[[T], R], portion: Sequence[T]) -> list[R]:
    def each(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield pa.RecordBatch.from_pydict({"result": [pickle.dumps(work(portion[number]), protocol=5)]})

    table = spark.range(0, len(portion), 1, len(portion)).mapInArrow(each, "result binary")
    return [pickle.loads(row.result) for row in table.collect()]


def _mark(spark: "SparkSession", tag: str) -> None:
    """What this thread asks for from now on. With Spark Connect by a tag; without, tags are known only to the thread
    that has given them, so by a group."""
    from pyspark.sql import is_remote

    if is_remote():
        spark.addTag(tag)
    else:
        spark.sparkContext.setJobGroup(tag, "resprout", interruptOnCancel=True)


def _interrupt(spark: "SparkSession", tag: str) -> None:
    from pyspark.sql import is_remote

    if is_remote():
        spark.interruptTag(tag)
    else:
        spark.sparkContext.cancelJobGroup(tag)


def _cancel(spark: "SparkSession", tag: str, jobs: "Sequence[Future[Any]]") -> None:
    """More than once: a job that is being handed over cannot be cancelled yet."""
    for _ in range(_CANCEL_ATTEMPTS):
        if all(job.done() for job in jobs):
            return
        with contextlib.suppress(Exception):  # Java may be gone; then there is nothing to cancel
            _interrupt(spark, tag)
        wait(jobs, _CANCEL_SECONDS)
