"""No creation of state: a bank that is replicated by publications stays one bank.

Every replica by itself: it executes what it was given, once and in order (`bank_applied`); each balance changes by what
the operation does, nothing more or less (`bank_conserved`); none falls below zero (`bank_negative`).

Complete replicas together (see `audit.bank_replicas`): at each total they hold the same balances in the accounts it
names (`bank_balance`), and it ends alike for all (`bank_outcome`). What is weaker than total may have other balances
around it at each replica and is not compared. `eventual` operations have no order with totals, so a circle of accounts
in which one moves money has no balances to agree on: it is left out here and in the replay. So is one with an operation
on an account of another topic, where the run promises order within each topic only.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from resprout.audit.bank_operations import REFUSED, AppliedOperation, changes
from resprout.audit.bank_replicas import Circles
from resprout.audit.history import History
from resprout.audit.naming import pair_name
from resprout.audit.verdict import Anomaly
from resprout.core.guarantee import Guarantee
from resprout.core.keys import Pair
from resprout.core.promises import OrderScope, Promises

TOGETHER: Final = ("bank_balance", "bank_outcome", "bank_replay")
"""Rules that compare replicas."""


def loose_note(circles: int, promise: Promises) -> str:
    """What is said where operations that no total divides move money in so many circles of accounts."""
    movers = "eventual" if promise.order is OrderScope.ALL_TOPICS else "eventual or foreign"
    return f"not judged in {circles} circles of accounts in which {movers} operations move money"


def check_alone(history: History, applied: Iterable[AppliedOperation], initial: int) -> Iterator[Anomaly]:
    """`bank_applied`, `bank_conserved` and `bank_negative`."""
    books: dict[int, dict[Pair, int]] = {}
    last: dict[int, int] = {}
    done: set[tuple[int, int]] = set()
    for a in applied:
        life, number = history.lives[a.life], a.operation.number
        if (wrong := _unfounded(history, a, (a.life, number) in done, last.get(a.life, -1))) is not None:
            text = f"{life.name} executed {history.name(number)}, {wrong}"
            yield Anomaly("bank_applied", a.time_us, life.node, (history.name(number),), text)
        done.add((a.life, number))
        if number in life.first:
            last[a.life] = max(last.get(a.life, -1), life.first[number].position)
        balances = books.setdefault(a.life, {})
        yield from _check_books(history, a, balances, initial)
        balances.update(a.balances)


def check_founded(history: History, operations: Collection[int]) -> Iterator[Anomaly]:
    """`bank_applied`, for rows about what is no operation at all."""
    for _, number, row in history.applied:
        id = (row.publisher or "", row.incarnation or 0, row.stream or "", row.seq or 0)
        if history.number_of.get(id) not in operations:
            life, name = history.lives[number], history.naming.message(id)
            text = f"{life.name} executed {name}, which is no operation that anybody published"
            yield Anomaly("bank_applied", row.time_us, life.node, (name,), text)


def check_together(
    history: History, applied: Iterable[AppliedOperation], circles: Circles, complete: Mapping[Pair, Mapping[int, int]]
) -> Iterator[Anomaly]:
    """`bank_balance` and `bank_outcome`."""
    first: dict[int, AppliedOperation] = {}
    for a in applied:
        number = a.operation.number
        if not is_compared(history, a, circles, complete):
            continue
        other = first.setdefault(number, a)
        name, here, there = history.name(number), history.lives[a.life], history.lives[other.life]
        if a.outcome != other.outcome:
            text = f"{name} ended {a.outcome!r} at {here.name}, but {other.outcome!r} at {there.name}"
            yield Anomaly("bank_outcome", a.time_us, here.node, (name,), text)
        for pair in sorted(a.balances.keys() & other.balances.keys()):
            if a.balances[pair] != other.balances[pair]:
                text = (
                    f"after {name}, {here.name} holds {a.balances[pair]} in {pair_name(pair)}, "
                    f"but {there.name} holds {other.balances[pair]}"
                )
                yield Anomaly("bank_balance", a.time_us, here.node, (name,), text)


def is_judged(a: AppliedOperation, circles: Circles, complete: Mapping[Pair, Mapping[int, int]]) -> bool:
    """Whether the replica knew all that it needed when it executed the operation."""
    return a.row < complete.get(circles.of(a.operation.account), {}).get(a.life, -1)


def is_compared(
    history: History, a: AppliedOperation, circles: Circles, complete: Mapping[Pair, Mapping[int, int]]
) -> bool:
    """Whether all replicas for which that holds must agree on it."""
    total = history.publications[a.operation.number].guarantee is Guarantee.TOTAL
    return total and is_judged(a, circles, complete)


def _unfounded(history: History, a: AppliedOperation, again: bool, last: int) -> str | None:
    life = history.lives[a.life]
    d = life.first.get(a.operation.number)
    if d is None or d.row > a.row:
        return "which it had not delivered"
    if again:
        return "which it had executed before"
    if d.position < last:
        return f"delivered at {d.position}, after one delivered at {last}"
    return None


def _check_books(
    history: History, a: AppliedOperation, balances: Mapping[Pair, int], initial: int
) -> Iterator[Anomaly]:
    life, name = history.lives[a.life], history.name(a.operation.number)
    gains = changes(a.operation, balances, initial)
    for pair, cents in sorted(a.balances.items()):
        if cents < 0:
            text = f"{life.name} holds {cents} in {pair_name(pair)} after {name}"
            yield Anomaly("bank_negative", a.time_us, life.node, (name,), text)
        before = balances.get(pair, initial)
        gain = 0 if a.outcome == REFUSED else gains.get(pair, 0)
        if cents != before + gain:
            text = (
                f"{life.name} held {before} in {pair_name(pair)} and holds {cents} after {name} "
                f"({a.operation.op} of {a.operation.amount}, {a.outcome}); it should be {before + gain}"
            )
            yield Anomaly("bank_conserved", a.time_us, life.node, (name,), text)
