"""The bank as a whole: circles of accounts, whether what the replicas say fits together, the operations executed again
one after the other, and totals against real time.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from resprout.audit.bank import TOGETHER, loose_note
from resprout.pipeline.judging.columns import NEVER, NULL, Array
from resprout.pipeline.judging.context import Context, Detected
from resprout.pipeline.judging.publications import BALANCE, DEPOSIT, INTEREST, TRANSFER, Operations, Publications

Step = tuple[int, bool]
"""(an operation, whether the replica refused it)."""


class Testimony(msgspec.Struct):
    """What the replicas of one portion of the subscribers say. Numbers are those of publications."""

    broken: set[str]
    models: Array
    """(number, row, whether refused) of the first replica here that is held to agree, for each total."""
    model_cells: Array
    """(number, pair, cents) that it held afterwards."""
    outcomes: Array
    """(number, whether refused) of all of them, each once."""
    cells: Array
    """(number, pair, cents), each once."""
    chosen: dict[int, tuple[int, Array]]
    """By circle, the replica that executed most: its first row, and (number, whether refused) in order."""


class Accounts:
    """Accounts that transfers connect form a circle; see `audit.bank` for those that are loose."""

    def __init__(self, operations: Operations, publications: Publications) -> None:
        numbers = operations.numbers
        count = max(int(operations.account.max(initial=-1)), int(operations.to.max(initial=-1))) + 1
        self._parent = list(range(count))
        moving = numbers[operations.kind[numbers] == TRANSFER]
        pairs = np.unique(np.stack((operations.account[moving], operations.to[moving])), axis=1)
        for one, other in pairs.T.tolist():
            self._parent[self._root(other)] = self._root(one)
        roots = np.array([*map(self._root, range(count)), -1])
        self.circle: Array = roots[np.where(operations.kind >= 0, operations.account, -1)]
        """By publication; -1 for what is no operation."""
        undivided = ~publications.ordered[numbers]
        if publications.is_by_topic:
            undivided |= ~publications.binds_all[numbers]
        moves = numbers[(operations.kind[numbers] != BALANCE) & undivided]
        self.loose: Array = np.unique(self.circle[moves])

    def _root(self, account: int) -> int:
        parent = self._parent
        while parent[account] != account:
            parent[account] = parent[parent[account]]
            account = parent[account]
        return account


def judge_bank(
    context: Context, testimonies: Sequence[Testimony], claim: Array, initial: int, found: Detected
) -> set[str]:
    """The broken rules; why others cannot be judged, or not fully, is added to what was found."""
    broken = set().union(*(t.broken for t in testimonies))
    operations, publications = context.operations, context.publications
    if not np.any(claim[operations.numbers] != NULL):
        found.skipped["bank_realtime"] = "the run claims no order of totals"
    if not any(t.models.shape[1] for t in testimonies):
        reason = "no total was executed by a replica that knew all it needed"
        found.skipped |= dict.fromkeys(TOGETHER, reason)
    if loose := len(Accounts(operations, publications).loose):
        found.notes |= dict.fromkeys(TOGETHER, loose_note(loose, context.promise))
    broken |= _disagreements(testimonies, len(publications))
    chosen = _chosen(testimonies)
    if any(breaks_replay(steps, operations, publications, claim, initial) for _, steps in chosen.values()):
        broken.add("bank_replay")
    if breaks_real_time(operations, publications, context.receipts.told_at, claim):
        broken.add("bank_realtime")
    return broken


def _disagreements(testimonies: Sequence[Testimony], count: int) -> set[str]:
    """Every total against the first replica of all that executed it."""
    number, row, refused = np.concatenate([t.models for t in testimonies], axis=1)
    portion = np.repeat(np.arange(len(testimonies)), [t.models.shape[1] for t in testimonies])
    latest_first = np.argsort(-row, kind="stable")
    outcome, witness = (np.full(count, -1, dtype=np.int64) for _ in range(2))
    outcome[number[latest_first]] = refused[latest_first]
    witness[number[latest_first]] = portion[latest_first]
    broken = set()
    if any(np.any(outcome[t.outcomes[0]] != t.outcomes[1]) for t in testimonies):
        broken.add("bank_outcome")
    cells = np.concatenate(
        [t.model_cells[:, witness[t.model_cells[0]] == n] for n, t in enumerate(testimonies)], axis=1
    )
    room = max(int(t.cells[1].max(initial=0)) for t in testimonies) + 1
    cells = cells[:, np.argsort(cells[0] * room + cells[1])]
    names = cells[0] * room + cells[1]
    for t in testimonies:
        wanted = t.cells[0] * room + t.cells[1]
        places = np.searchsorted(names, wanted)
        there = np.flatnonzero(places < len(names))
        there = there[names[places[there]] == wanted[there]]
        if np.any(cells[2][places[there]] != t.cells[2][there]):
            broken.add("bank_balance")
    return broken


def _chosen(testimonies: Sequence[Testimony]) -> dict[int, tuple[int, Array]]:
    found: dict[int, tuple[int, Array]] = {}
    for t in testimonies:
        for circle, (row, steps) in t.chosen.items():
            if circle not in found or (-steps.shape[1], row) < (-found[circle][1].shape[1], found[circle][0]):
                found[circle] = (row, steps)
    return found


def breaks_replay(
    executed: Array, operations: Operations, publications: Publications, claim: Array, initial: int
) -> bool:
    """Whether some total ends otherwise than at the replica whose (operation, whether refused) these are, in order."""
    steps = [(number, bool(refused)) for number, refused in executed.T.tolist()]
    order = _serial_order(steps, operations, publications, claim)
    return order is not None and _differs(order, operations, publications, initial)


def breaks_real_time(operations: Operations, publications: Publications, told_at: Array, claim: Array) -> bool:
    """Whether a total that was published after another one was delivered everywhere has a lower claim."""
    numbers = operations.numbers
    numbers = numbers[publications.total[numbers] & (claim[numbers] != NULL)]
    finished = numbers[told_at[numbers] != NEVER]
    finished = finished[np.argsort(told_at[finished], kind="stable")]
    done, latest = 0, np.full(len(publications.pair_topic), NULL, dtype=np.int64)
    for number in numbers.tolist():
        while done < len(finished) and told_at[finished[done]] < publications.row[number]:
            pairs = _pairs(publications, int(finished[done]))
            latest[pairs] = np.maximum(latest[pairs], claim[finished[done]])
            done += 1
        if np.any(claim[number] <= latest[_pairs(publications, number)]):
            return True
    return False


def _pairs(publications: Publications, number: int) -> Array:
    begin, end = publications.pair_start[number : number + 2]
    pairs: Array = publications.pair[begin:end][publications.pair_binds[begin:end]]
    return pairs


def _serial_order(
    steps: list[Step], operations: Operations, publications: Publications, claim: Array
) -> list[Step] | None:
    """What is weaker than total stands before the first total in order of those that came next on its accounts."""
    totals = [step for step in steps if publications.total[step[0]]]
    rank = _rank([number for number, _ in totals], claim)
    if rank is None:
        return None
    slots: dict[int | None, list[Step]] = {}
    following: dict[int, int] = {}
    for step in reversed(steps):
        number = step[0]
        accounts = [int(operations.account[number]), int(operations.to[number])]
        if publications.total[number]:
            following.update((account, number) for account in accounts if account >= 0)
        else:
            nexts = [following[account] for account in accounts if account in following]
            slots.setdefault(min(nexts, key=lambda n: rank[n], default=None), []).append(step)
    order: list[Step] = []
    for total in sorted(totals, key=lambda step: rank[step[0]]):
        order += [*reversed(slots.get(total[0], [])), total]
    return [*order, *reversed(slots.get(None, []))]


def _rank(totals: list[int], claim: Array) -> dict[int, int] | None:
    """As claimed, where all are; else as executed, unless one was executed twice."""
    claims = {number: int(claim[number]) for number in totals if claim[number] != NULL}
    if len(claims) == len(set(totals)):
        return claims
    return {number: place for place, number in enumerate(totals)} if len(set(totals)) == len(totals) else None


def _differs(order: list[Step], operations: Operations, publications: Publications, initial: int) -> bool:
    balances: dict[int, int] = {}
    for number, refused in order:
        kind, amount = int(operations.kind[number]), int(operations.amount[number])
        account, held = int(operations.account[number]), balances.get(int(operations.account[number]), initial)
        if kind == BALANCE:
            gain = 0
        elif kind == DEPOSIT:
            gain = amount
        elif kind == INTEREST:
            gain = held * amount // 10_000
        else:
            gain = -amount
        after = {account: held + gain}
        if kind == TRANSFER:
            to = int(operations.to[number])
            after[to] = balances.get(to, initial) + amount
        fails = any(cents < 0 for cents in after.values())
        if fails != refused and publications.total[number]:
            return True
        if not fails:
            balances.update(after)
    return False
