"""Work that is no query: a function over things, one Spark task for each, and what it returns as soon as it is there.

For tasks of a second or more. Results should be small (all of a batch are held by the driver); what is large, tasks
write themselves, to a file system that they share with the driver.
"""

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

BATCH: Final = 10_000
"""Tasks in one job of Spark; more at once would cost its scheduler more than the pause between two jobs."""
_LOOK_SECONDS: Final = 0.1


def run_each(spark: "SparkSession", work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """What `work` returns for each item, in order of arrival; items are begun in their own order. What `work` raises
    ends everything. Leaving the loop, or an interrupt in it, cancels what is still under way."""
    rest = iter(items)
    while batch := list(itertools.islice(rest, BATCH)):
        yield from _run_batch(spark, work, batch)


def _run_batch(spark: "SparkSession", work: Callable[[T], R], items: list[T]) -> Iterator[R]:
    from pyspark import InheritableThread

    context = spark.sparkContext
    arrived: Any = context.accumulator([], _Appended())  # type: ignore[arg-type]  # has both methods it needs
    group = f"resprout-{id(arrived)}"
    trouble: list[BaseException] = []
    over = threading.Event()

    def job() -> None:
        try:
            context.setJobGroup(group, "resprout", interruptOnCancel=True)
            context.parallelize(items, len(items)).foreach(lambda item: arrived.add([work(item)]))
        except BaseException as error:  # for the thread that waits
            trouble.append(error)
        finally:
            over.set()

    thread = InheritableThread(target=job, daemon=True)
    thread.start()
    taken = 0
    try:
        while True:
            is_last = over.wait(_LOOK_SECONDS)
            results: list[R] = arrived.value
            while taken < len(results):
                yield results[taken]
                taken += 1
            if is_last:
                break
        if trouble:
            raise trouble[0]
    finally:
        if not over.is_set():
            context.cancelJobGroup(group)
        arrived.value = []  # Spark keeps the accumulator for good


class _Appended:
    """Results of tasks travel to the driver with the news that a task has ended; Spark hands them over one by one."""

    def zero(self, value: list[Any]) -> list[Any]:
        return []

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:  # noqa: N802 (Spark's name)
        value1.extend(value2)
        return value1
