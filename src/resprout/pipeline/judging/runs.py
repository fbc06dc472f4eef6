"""Many runs, judged at once on arrays, and the verdicts in order.

`detect` applies every rule to one run: it finds out what is broken, in bounded memory and in a small part of the time
that an explanation takes. It is written from the definitions and not from `audit`, whose verdict it is compared with;
it shares with it only how subscriptions, filters, keys and attribute values are read. Only where something is broken,
or rows make no sense, the judge in Python reads the run and explains the rules that are broken, so that both engines
report the same in the same words.

A task is given as many runs as make it worth its start. Nothing is shuffled: a run is read where it is judged, unless
it is too large for one task. A large run (`detect_large`) is judged in shards of its subscribers. The driver reads all
row groups once and keeps what is no delivery (`Context`), which goes to every worker. Tasks read the row groups again
and reduce each delivery to a few numbers; these are rows of a table, each for the shard of its subscriber. The same
table has what subscribers must know of each other (`Hints`), which the driver puts together first. Then each shard is
judged. So no task holds more than the deliveries of one shard, or of one subscriber if it has more; the driver holds
the publications.
"""

import heapq
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa

from resprout.audit.judge import BANK_INITIAL
from resprout.audit.verdict import Verdict
from resprout.pipeline.archive import verify
from resprout.pipeline.judging.bank import AppliedRows
from resprout.pipeline.judging.causal import GatheredHints, Hints, gather
from resprout.pipeline.judging.columns import Array, UnreadableError, Words
from resprout.pipeline.judging.context import Context, Detected, applied_of
from resprout.pipeline.judging.deliveries import Deliveries, slim
from resprout.pipeline.judging.reading import Fingerprint, Group, RowIntake, deliveries_of, groups_of, read_group
from resprout.pipeline.judging.shard import ShardFindings, conclude, judge_shard
from resprout.pipeline.places import RunPlace
from resprout.pipeline.python_judge import check_place, judge_run, trace_of
from resprout.pipeline.tasks import cores_of, handed_to_tasks, run_each
from resprout.trace.schema import TraceError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Run = tuple[int, RunPlace]
"""A run and its number among those asked for."""
Judged = tuple[int, Verdict | str | Detected]
"""The number of a run, and the verdict, or why there is none, or what is still to be explained."""


def detect(place: RunPlace, is_sealed: bool) -> Detected:
    """`is_sealed`: the part files are known to be those of the run; otherwise their digest is taken on the way."""
    try:
        return _detect(place, None if is_sealed else Fingerprint())
    except UnreadableError as error:
        return Detected(odd=str(error) or "unreadable")


def bank_initial_of(place: RunPlace) -> int:
    known = place.info.scenario.get("bank_initial", place.info.options.get("bank_initial"))
    return known if isinstance(known, int) else BANK_INITIAL


def _detect(place: RunPlace, fingerprint: Fingerprint | None) -> Detected:
    words = Words()
    intake = RowIntake(words, keeps_deliveries=True)
    for group in groups_of(place.parts):
        intake.add(read_group(group, words, fingerprint))
    check_digest(place, fingerprint)
    talk, given = intake.arranged()
    context = Context(talk, given, words, intake.rows, place.info.promise)
    given.reverse()
    deliveries = Deliveries.joined([slim(given.pop(), context) for _ in range(len(given))]).by_life()
    applied = AppliedRows(applied_of(talk, words), context)
    hints = Hints(context)
    hints.join(gather(context, deliveries, applied, with_links=context.logs.count > 0))
    hints.settle()
    initial = bank_initial_of(place)
    findings = judge_shard(context, hints, deliveries, applied, context.wishes.of_life, initial)
    return conclude(context, hints, [findings], initial)


def check_digest(place: RunPlace, fingerprint: Fingerprint | None) -> None:
    if fingerprint is not None and fingerprint.value != place.info.digest:
        raise UnreadableError("the rows are not those of the run")


class Limits(msgspec.Struct, frozen=True):
    run_rows: int = 4_000_000
    """A run of more rows is judged in shards."""
    shard_deliveries: int = 2_000_000
    task_rows: int = 500_000
    """Rows that are read by one task; of row groups, at least one."""
    explained_rows: int = 1_000_000
    """A run of more rows is explained when no other one is: it takes about 1 KB of memory per row."""


class ShardPiece(msgspec.Struct):
    """What one task found for one shard."""

    first_row: int
    deliveries: Deliveries
    applied: AppliedRows


class PortionPlan:
    """What is the same for all portions and shards of a run."""

    def __init__(self, context: Context, given: Array, shard_deliveries: int, bank_initial: int) -> None:
        """`given`: by name, the number of deliveries."""
        self.context = context
        _ = context.publications.authored  # once, and not in every task
        self.bank_initial = bank_initial
        self.shards = max(1, -(-int(given.sum()) // shard_deliveries))
        self._shard_of_name = np.zeros(len(given), dtype=np.int64)
        load = [(0, shard) for shard in range(self.shards)]
        for name in np.argsort(-given, kind="stable").tolist():  # whoever has most first, to the emptiest shard
            filled, shard = heapq.heappop(load)
            self._shard_of_name[name] = shard
            heapq.heappush(load, (filled + int(given[name]), shard))

    def shard_of(self, life: Array) -> Array:
        shard: Array = self._shard_of_name[self.context.lives.node[life]]
        return shard


def portions_of(groups: list[Group], rows: int) -> list[list[Group]]:
    portions: list[list[Group]] = []
    room = 0
    for group in groups:
        if room <= 0:
            portions.append([])
            room = rows
        portions[-1].append(group)
        room -= group.rows
    return portions


def pieces_of(portion: list[Group], plan: PortionPlan) -> Iterator[tuple[int, ShardPiece | GatheredHints | str]]:
    """What is to be sent to each shard; and, as if to one more, what all of them must know, or why they need not."""
    context = plan.context
    try:
        for group in portion:
            rows = read_group(group, context.words)
            deliveries = slim(rows.take(deliveries_of(rows, context.words)), context)
            applied = AppliedRows(applied_of(rows, context.words), context)
            yield plan.shards, gather(context, deliveries.by_life(), applied, with_links=True).compact()
            of_delivery, of_applied = plan.shard_of(deliveries.life), plan.shard_of(applied.life)
            for shard in range(plan.shards):
                given = deliveries.take(np.flatnonzero(of_delivery == shard)).compact()
                yield shard, ShardPiece(group.first_row, given, applied.take(np.flatnonzero(of_applied == shard)))
    except UnreadableError as error:
        yield plan.shards, str(error) or "unreadable"


def join_hints(found: Iterable[GatheredHints | str], plan: PortionPlan) -> Hints | str:
    hints = Hints(plan.context)
    for gathered in found:
        if isinstance(gathered, str):
            return gathered
        hints.join(gathered)
    hints.settle()
    return hints


def judge_pieces(shard: int, found: Iterable[ShardPiece], plan: PortionPlan, hints: Hints) -> ShardFindings:
    pieces = sorted(found, key=lambda piece: piece.first_row)
    deliveries = Deliveries.joined([piece.deliveries for piece in pieces]).by_life()
    applied = AppliedRows.joined([piece.applied for piece in pieces])
    subscribers = np.array(sorted(plan.context.wishes.of_life), dtype=np.int64)
    lives = subscribers[plan.shard_of(subscribers) == shard].tolist()
    return judge_shard(plan.context, hints, deliveries, applied, lives, plan.bank_initial)


def detect_large(spark: "SparkSession", place: RunPlace, is_sealed: bool, limits: Limits) -> Detected:
    try:
        plan = plan_of(place, None if is_sealed else Fingerprint(), limits)
        # To put rows in order of time, all must be in one place.
        return detect(place, is_sealed=True) if plan is None else _detect_in_shards(spark, place, plan, limits)
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


def _detect_in_shards(spark: "SparkSession", place: RunPlace, plan: PortionPlan, limits: Limits) -> Detected:
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
            findings = _judge_shards(spark, kept.where(kept.shard < plan.shards), plan.shards, known, hints)
        finally:
            kept.unpersist()
    return conclude(plan.context, hints, findings, plan.bank_initial)


def _judge_shards(
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


def judge_runs(
    spark: "SparkSession",
    places: Sequence[RunPlace],
    limits: Limits = Limits(),  # noqa: B008 (it is frozen)
) -> list[Verdict]:
    """The verdict on each run, in the order of places. TraceError for the first one whose rows do not make sense."""
    runs = list(enumerate(places))
    whole = [run for run in runs if run[1].info.rows <= limits.run_rows]
    found = dict(_in_tasks(spark, lambda run: _judged(run, limits), whole, limits))
    for number, place in runs:
        if place.info.rows > limits.run_rows:
            found[number] = _told(lambda place: _judge_large(spark, place, limits), place)
        if isinstance(detected := found[number], Detected):  # one at a time, which may need all the memory there is
            [(_, found[number])] = _in_tasks(spark, partial(_explained, detected), [(number, place)], limits)
    verdicts = []
    for number, _ in runs:
        told = found[number]
        if not isinstance(told, Verdict):
            raise TraceError(str(told))
        verdicts.append(told)
    return verdicts


def _in_tasks(
    spark: "SparkSession", work: Callable[[Run], Judged], runs: Sequence[Run], limits: Limits
) -> Iterable[Judged]:
    if not runs:
        return []
    portions = _portions(runs, cores_of(spark), limits.task_rows)
    done = run_each(spark, lambda portion: list(map(work, portion)), portions, together=True)
    return [judged for portion in done for judged in portion]


def _portions(runs: Sequence[Run], cores: int, rows: int) -> list[list[Run]]:
    """What each task does: the largest runs first, small ones together until they are worth a task."""
    worth = max(1, min(rows, sum(place.info.rows for _, place in runs) // (4 * cores)))
    portions: list[list[Run]] = []
    room = 0
    for number, place in sorted(runs, key=lambda run: -run[1].info.rows):
        if room <= 0:
            portions.append([])
            room = worth
        portions[-1].append((number, place))
        room -= place.info.rows
    return portions


def _judged(run: Run, limits: Limits) -> Judged:
    number, place = run
    return number, _told(lambda place: _judge(place, limits), place)


def _explained(detected: Detected, run: Run) -> Judged:
    number, place = run
    return number, _told(lambda place: _explain(place, detected), place)


def _told(work: Callable[[RunPlace], Verdict | Detected], place: RunPlace) -> Verdict | str | Detected:
    try:
        return work(place)
    except TraceError as error:
        return str(error)


def _judge(place: RunPlace, limits: Limits) -> Verdict | Detected:
    check_place(place)
    detected = detect(place, is_sealed=verify(place))
    if not detected.needs_explanation:
        return detected.verdict()
    return _explain(place, detected) if place.info.rows <= limits.explained_rows else detected


def _judge_large(spark: "SparkSession", place: RunPlace, limits: Limits) -> Verdict | Detected:
    check_place(place)
    detected = detect_large(spark, place, verify(place), limits)
    return detected if detected.needs_explanation else detected.verdict()


def _explain(place: RunPlace, detected: Detected) -> Verdict:
    """In the words of the judge in Python."""
    if detected.odd:
        return judge_run(place)
    return detected.explained(trace_of(place, is_verified=True)) or judge_run(place)
