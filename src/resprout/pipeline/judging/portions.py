"""A large run in portions: who is judged in which shard, and what a portion of the rows tells each of them.

Plain functions from portions to pieces and from pieces to findings; `large` has Spark run them.
"""

import heapq
from collections.abc import Iterable, Iterator

import msgspec
import numpy as np

from resprout.pipeline.judging.arrays import Array
from resprout.pipeline.judging.bank_applied import AppliedRows
from resprout.pipeline.judging.columns import UnreadableError
from resprout.pipeline.judging.context import Context, applied_of
from resprout.pipeline.judging.deliveries import Deliveries, slim
from resprout.pipeline.judging.hints import GatheredHints, Hints, gather
from resprout.pipeline.judging.intake import deliveries_of
from resprout.pipeline.judging.reading import Group, read_group
from resprout.pipeline.judging.shard import ShardFindings, judge_shard


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
