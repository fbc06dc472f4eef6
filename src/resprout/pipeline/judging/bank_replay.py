"""The bank executed again from columns, one operation after the other; and totals against real time."""

import numpy as np

from resprout.pipeline.judging.arrays import NEVER, NULL, Array
from resprout.pipeline.judging.bank_operations import BALANCE, DEPOSIT, INTEREST, TRANSFER, Operations
from resprout.pipeline.judging.publications import Publications

Step = tuple[int, bool]
"""(an operation, whether the replica refused it)."""


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
