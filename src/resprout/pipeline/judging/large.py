"""A run that is too large for one task, judged in shards of its subscribers.

The driver reads all row groups once and keeps what is no delivery (`Context`), which goes to every worker. Tasks read
the row groups again, reduce each delivery to a few numbers and send it to the shard of its subscriber; from the same
stage comes what subscribers must know of each other (`Hints`). Then each shard is judged. So no task holds more than
the deliveries of one shard, or of one subscriber if it has more; the driver holds the publications.
"""

from typing import TYPE_CHECKING, Any

from resprout.pipeline.judging.columns import UnreadableError, Words
from resprout.pipeline.judging.context import Context
from resprout.pipeline.judging.detect import bank_initial_of, check_digest, detect
from resprout.pipeline.judging.detected import Detected
from resprout.pipeline.judging.fingerprint import Fingerprint
from resprout.pipeline.judging.intake import RowIntake
from resprout.pipeline.judging.portions import Limits, PortionPlan, join_hints, judge_pieces, pieces_of, portions_of
from resprout.pipeline.judging.reading import groups_of, read_group
from resprout.pipeline.judging.shard import ShardFindings, conclude
from resprout.pipeline.places import RunPlace

if TYPE_CHECKING:
    from pyspark import SparkContext


def detect_large(spark: "SparkContext", place: RunPlace, is_sealed: bool, limits: Limits) -> Detected:
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


def _detect(spark: "SparkContext", place: RunPlace, plan: PortionPlan, limits: Limits) -> Detected:
    known = spark.broadcast(plan)
    portions = portions_of(groups_of(place.parts), limits.task_rows)
    sent = spark.parallelize(portions, len(portions)).flatMap(lambda portion: pieces_of(portion, known.value))
    pieces: Any = sent.partitionBy(plan.shards + 1, lambda shard: shard).values()
    try:
        # Spark keeps what was sent to partitions: the second job begins where the first one has been.
        hints = spark.runJob(pieces, lambda found: [join_hints(found, known.value)], [plan.shards])[0]
        if isinstance(hints, str):
            raise UnreadableError(hints)
        shared = spark.broadcast(hints)
        judged = pieces.mapPartitionsWithIndex(
            lambda shard, found: [judge_pieces(shard, found, known.value, shared.value)]
        )
        findings: list[ShardFindings] = spark.runJob(judged, list, list(range(plan.shards)))
        shared.destroy()
    finally:
        known.destroy()
    return conclude(plan.context, hints, findings, plan.bank_initial)
