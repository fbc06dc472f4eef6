"""The bank executed again, one operation after the other, and the order of totals against real time.

*Replay*: for each circle of accounts, the totals in the order that the run claims (`tseq`), or in the order of the
deliveries where it claims none. What is weaker than total stands between the same totals as at the replica that
executed most. Every total must end as it ended there.

*Real time*: when the publisher of T1 was told that it is delivered before T2 was published, and both name a key, then
T1 is before T2 in the claimed order. Without a claim this follows from the receipts, which are checked elsewhere.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from resprout.audit.bank import is_judged
from resprout.audit.bank_operations import AppliedOperation, Operation, execute
from resprout.audit.bank_replicas import Circles
from resprout.audit.graph import topological_rank
from resprout.audit.history import History
from resprout.audit.naming import pair_name
from resprout.audit.totals import successors
from resprout.audit.verdict import Anomaly
from resprout.core.guarantee import Guarantee
from resprout.core.keys import Pair


def check_replay(
    history: History,
    applied: Iterable[AppliedOperation],
    circles: Circles,
    complete: Mapping[Pair, Mapping[int, int]],
    initial: int,
) -> Iterator[Anomaly]:
    by_circle: dict[Pair, dict[int, list[AppliedOperation]]] = {}
    for a in applied:
        if is_judged(a, circles, complete):
            by_circle.setdefault(circles.of(a.operation.account), {}).setdefault(a.life, []).append(a)
    for replicas in by_circle.values():
        reference = max(replicas.values(), key=len)
        if (order := _serial_order(history, reference)) is not None:
            yield from _replay(history, order, initial)


def check_realtime(history: History, operations: Mapping[int, Operation]) -> Iterator[Anomaly]:
    delivered_at: dict[int, int] = {}
    for row_number, row in history.receipts:
        number = history.number_of.get((row.publisher or "", row.incarnation or 0, row.stream or "", row.seq or 0))
        if row.receipt != "delivered" or number is None or number not in operations:
            continue
        if history.tseq.get(number) is not None:
            delivered_at.setdefault(number, row_number)
    finished = sorted(delivered_at, key=lambda number: delivered_at[number])
    latest: dict[Pair, int] = {}
    done = 0
    for number in operations:
        p = history.publications[number]
        claim = history.tseq.get(number)
        if claim is None or p.guarantee is not Guarantee.TOTAL:
            continue
        while done < len(finished) and delivered_at[finished[done]] < p.row:
            _finish(history, finished[done], latest)
            done += 1
        for pair in p.lines:
            before = latest.get(pair)
            if before is not None and claim <= (history.tseq[before] or 0):
                name, other = history.name(number), history.name(before)
                text = (
                    f"{name} was published after {other} was delivered everywhere, but is ordered before it "
                    f"(tseq {claim}, not after {history.tseq[before]}; both name {pair_name(pair)})"
                )
                yield Anomaly("bank_realtime", p.time_us, p.id[0], (name, other), text)


def _finish(history: History, number: int, latest: dict[Pair, int]) -> None:
    if history.publications[number].guarantee is not Guarantee.TOTAL:
        return
    for pair in history.publications[number].lines:
        before = latest.get(pair)
        if before is None or (history.tseq[before] or 0) < (history.tseq[number] or 0):
            latest[pair] = number


def _serial_order(history: History, reference: Sequence[AppliedOperation]) -> list[AppliedOperation] | None:
    """All that the reference executed, one after the other; None when its totals have no order."""
    totals = [a for a in reference if history.publications[a.operation.number].guarantee is Guarantee.TOTAL]
    rank = _rank(history, totals)
    if rank is None:
        return None
    slots: dict[int | None, list[AppliedOperation]] = {}
    following: dict[Pair, int] = {}
    for a in reversed(reference):
        number = a.operation.number
        if history.publications[number].guarantee is Guarantee.TOTAL:
            following.update(dict.fromkeys(a.operation.accounts, number))
        else:
            nexts = [following[pair] for pair in a.operation.accounts if pair in following]
            slots.setdefault(min(nexts, key=lambda n: rank[n], default=None), []).append(a)
    order: list[AppliedOperation] = []
    for total in sorted(totals, key=lambda a: rank[a.operation.number]):
        order += reversed(slots.get(total.operation.number, []))
        order.append(total)
    return [*order, *reversed(slots.get(None, []))]


def _rank(history: History, totals: Sequence[AppliedOperation]) -> Mapping[int, int] | None:
    numbers = [a.operation.number for a in totals]
    claims = {number: claim for number in numbers if (claim := history.tseq.get(number)) is not None}
    if len(claims) == len(set(numbers)):
        return claims
    chains: dict[int, list[int]] = {}
    for a in totals:
        chains.setdefault(a.life, []).append(a.operation.number)
    return topological_rank(successors(chains))


def _replay(history: History, order: Iterable[AppliedOperation], initial: int) -> Iterator[Anomaly]:
    balances: dict[Pair, int] = {}
    for a in order:
        number = a.operation.number
        held = balances.get(a.operation.account, initial)
        outcome = execute(a.operation, balances, initial)
        if outcome != a.outcome and history.publications[number].guarantee is Guarantee.TOTAL:
            name, life = history.name(number), history.lives[a.life]
            text = (
                f"{name} ({a.operation.op} of {a.operation.amount}) ended {a.outcome!r} at {life.name}, but executed "
                f"in order it finds {held} in {pair_name(a.operation.account)} and ends {outcome!r}"
            )
            yield Anomaly("bank_replay", a.time_us, life.node, (name,), text)
            balances.update(a.balances)  # so that one difference is reported once
