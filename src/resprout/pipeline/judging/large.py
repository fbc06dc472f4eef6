"""A run that is too large for one task, judged in shards of its subscribers.

The driver reads all row groups once and keeps what is no delivery (`Context`), which goes to every worker. Tasks read
the row groups again and reduce each delivery to a few numbers; these are rows of a table, each for the shard of its
subscriber. In the same table stands what subscribers must know of each other (`Hints`), which the driver puts together
first. Then each shard is judged. So no task holds more than the deliveries of one shard, or of one subscriber if it has
more; the driver holds the publications.
"""

import pickle
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from resprout.pipeline.judging.columns import UnreadableError, Words
from resprout.pipeline.judging.context import Context
from resprout.pipeline.judging.detect import bank_initial_of, check_digest, detect
from resprout.pipeline.judging.detected import Detected
from resprout.pipeline.judging.fingerprint import Fingerprint
from resprout.pipeline.judging.hints import Hints
from resprout.pipeline.judging.intake import RowIntake
from resprout.pipeline.judging.portions import (
    Limits,
    PortionPlan,
    ShardPiece,
    join_hints,
    judge_pieces,
    pieces_of,
    portions_of,
)
from resprout.pipeline.judging.reading import groups_of, read_group
from resprout.pipeline.judging.shard import ShardFindings, conclude
from resprout.pipeline.places import RunPlace
from resprout.pipeline.tasks import handed_to_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def detect_large(spark: "SparkSession", place: RunPlace, is_sealed: bool, limits: Limits) -> Detected:
    try:
        plan = plan_of(place, None if is_sealed else Fingerprint(), limits)
        # To put rows in order of time, all must be in one place.
        return detect(place, is_sealed=True) if plan is None else _detect(spark, place, plan, limits)
    except UnreadableError as error:
        return Detected(odd=str(error) or "unreadable")


def plan_of(place: RunPlace, fingerprint: Fingerprint | None, limits: Limits) -> PortionPlan | None:
    """What all portions must know. None for a run in which a clock runs backwards."""
    intake = RowIntake(Words(), keeps_deliveries=False)
    for group in groups_of(place.parts):
        intake.add(read_group(group, intake.words, fingerprint))
    check_digest(place, fingerprint)
    if not intake.is_in_order:
        return None
    context = Context(*intake.arranged(), intake.words, intake.rows, place.info.promise)
    return PortionPlan(context, intake.given, limits.shard_deliveries, bank_initial_of(place))


def _detect(spark: "SparkSession", place: RunPlace, plan: PortionPlan, limits: Limits) -> Detected:
    from pyspark import StorageLevel

    portions = portions_of(groups_of(place.parts), limits.task_rows)
    with handed_to_tasks(spark, plan) as known:

        def send(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in batches:
                for number in batch.column("id").to_pylist():
                    for shard, piece in pieces_of(portions[number], known()):
                        yield pa.RecordBatch.from_pydict(
                            {"shard": pa.array([shard], pa.int32()), "piece": [_packed(piece)]}
                        )

        sent = spark.range(0, len(portions), 1, len(portions)).mapInArrow(send, "shard int, piece binary")
        kept = sent.persist(StorageLevel.DISK_ONLY)  # it is asked twice: for the hints, then for the rest
        try:
            hints = join_hints(_unpacked(kept.where(kept.shard == plan.shards).toArrow(), "piece"), plan)
            if isinstance(hints, str):
                raise UnreadableError(hints)
            findings = _judge(spark, kept.where(kept.shard < plan.shards), plan.shards, known, hints)
        finally:
            kept.unpersist()
    return conclude(plan.context, hints, findings, plan.bank_initial)


def _judge(
    spark: "SparkSession", pieces: "DataFrame", shards: int, known: Callable[[], PortionPlan], hints: Hints
) -> list[ShardFindings]:
    """Each shard is a partition by its number: grouped by a hash, two of them may fall to one task while others idle,
    and groups are sorted first."""
    with handed_to_tasks(spark, hints) as shared:

        def judge(batches: Iterator[Any]) -> Iterator[Any]:
            sent: dict[int, list[ShardPiece]] = {}
            for batch in batches:
                for shard, piece in zip(batch.column("shard").to_pylist(), _unpacked(batch, "piece"), strict=True):
                    sent.setdefault(shard, []).append(piece)
            for shard, found in sent.items():
                yield pa.RecordBatch.from_pydict({"found": [_packed(judge_pieces(shard, found, known(), shared()))]})

        judged = pieces.repartitionById(shards, "shard").mapInArrow(judge, "found binary").toArrow()
    return list(_unpacked(judged, "found"))


def _packed(thing: object) -> bytes:
    return pickle.dumps(thing, protocol=5)


def _unpacked(table: Any, name: str) -> Iterator[Any]:
    return (pickle.loads(cell.as_buffer()) for cell in table.column(name))
