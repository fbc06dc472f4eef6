"""No creation of state: a bank that is replicated by publications stays one bank.

Operations, read from publications; each has one right outcome (`execute`):

| op | effect |
|---|---|
| balance | none |
| deposit | credits the account with `amount` |
| withdraw | debits it; refused when it would fall below zero |
| transfer | debits the key that is not `to`, credits `to` (`key`, or `topic#key` elsewhere); refused alike |
| interest | credits balance * amount // 10,000 |

Money is in integer cents. A publication that is none of these, or does not name the accounts that it needs, is no
operation. Replicas show balances as `topic|key`.

Every replica by itself: it executes what it was given, once and in order (`bank_applied`); each balance changes by what
the operation does, nothing more or less (`bank_conserved`); none falls below zero (`bank_negative`).

Complete replicas together: at each total they hold the same balances in the accounts it names (`bank_balance`), and it
ends alike for all (`bank_outcome`). What is weaker than total may have other balances around it at each replica and is
not compared. Money moves between accounts, so accounts that a transfer connects form one *circle*. A replica is
complete for a circle if it was given every operation on it, until it crashes or asks to end a subscription that it
needs. A circle in which an `eventual` operation moves money is *loose*: no total divides that, so balances at a total
may differ, and neither the comparison nor the replay looks at it. So is a circle with an operation on an account of
another topic, where the run promises order within each topic only.

Replay: for each circle, the totals in the order that the run claims (`tseq`), or in the order of the deliveries where
it claims none, are executed again. What is weaker than total stands between the same totals as at the replica that
executed most. Every total must end as it ended there.

Real time: when the publisher of T1 was told that it is delivered before T2 was published, and both name a key, then T1
is before T2 in the claimed order. Without a claim this follows from the receipts, which are checked elsewhere.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from resprout.audit.history import History
from resprout.audit.interest import Due
from resprout.audit.records import NEVER, PublicationRecord, pair_name
from resprout.audit.totals import successors, topological_rank
from resprout.audit.verdict import Anomaly
from resprout.core.bundle import Pair, pairs_of
from resprout.core.guarantee import Guarantee, OrderScope, Promises
from resprout.core.limits import AttributeValue
from resprout.trace.schema import Row, TraceError, from_text

OK, REFUSED = "ok", "refused"

TOGETHER: Final = ("bank_balance", "bank_outcome", "bank_replay")
"""Rules that compare replicas."""


class Operation(msgspec.Struct, frozen=True):
    number: int
    """Number of its publication."""
    op: str
    amount: int
    account: Pair
    """The one that it changes; the one debited, for a transfer."""
    to: Pair | None

    @property
    def accounts(self) -> tuple[Pair, ...]:
        return (self.account,) if self.to is None else (self.account, self.to)


class AppliedOperation(msgspec.Struct, frozen=True):
    """An operation as one replica says to have executed it."""

    row: int
    time_us: int
    life: int
    operation: Operation
    outcome: str
    balances: dict[Pair, int]
    """After it."""


def operation_of(p: PublicationRecord) -> Operation | None:
    if not p.attributes or "op" not in p.attributes:
        return None
    op, amount = _value(p, "op"), _value(p, "amount")
    if op in ("deposit", "withdraw", "interest", "balance"):
        fits = len(p.pairs) == 1 and (op == "balance" or _positive(amount))
        return Operation(p.number, str(op), _cents(amount), p.pairs[0], None) if fits else None
    if op == "transfer" and _positive(amount) and len(p.pairs) == 2:
        to = pairs_of(p.topic, (str(_value(p, "to")),))[0]
        source = [pair for pair in p.pairs if pair != to]
        return Operation(p.number, "transfer", _cents(amount), source[0], to) if len(source) == 1 else None
    return None


def changes(operation: Operation, balances: Mapping[Pair, int], initial: int) -> dict[Pair, int]:
    """Return the change of each account if the operation is not refused."""
    amount, account = operation.amount, operation.account
    if operation.op == "deposit":
        return {account: amount}
    if operation.op == "withdraw":
        return {account: -amount}
    if operation.op == "interest":
        return {account: balances.get(account, initial) * amount // 10_000}
    if operation.to is not None:
        return {account: -amount, operation.to: amount}
    return {account: 0}


def execute(operation: Operation, balances: dict[Pair, int], initial: int) -> str:
    """Changes the balances, or refuses to; returns the outcome."""
    after = {pair: balances.get(pair, initial) + gain for pair, gain in changes(operation, balances, initial).items()}
    if any(cents < 0 for cents in after.values()):
        return REFUSED
    balances.update(after)
    return OK


def read_applied(history: History, operations: Mapping[int, Operation]) -> list[AppliedOperation]:
    """The `applied` rows about operations of this trace, in order."""
    found = []
    for number, life, row in history.applied:
        published = history.number_of.get((row.publisher or "", row.incarnation or 0, row.stream or "", row.seq or 0))
        operation = operations.get(published) if published is not None else None
        if operation is not None:
            found.append(_applied(number, life, row, operation))
    return found


def _applied(number: int, life: int, row: Row, operation: Operation) -> AppliedOperation:
    cells = dict(row.attributes or {})
    outcome = cells.pop("outcome", "").strip("'")
    if outcome not in (OK, REFUSED):
        raise TraceError(f"row {number}: an applied row with the outcome {outcome!r}")
    balances: dict[Pair, int] = {}
    for place, text in cells.items():
        topic, _, key = place.partition("|")
        cents = _read(text, number)
        if not isinstance(cents, int):
            raise TraceError(f"row {number}: the balance of {place!r} is {text}")
        balances[topic, key] = cents
    return AppliedOperation(number, row.time_us, life, operation, outcome, balances)


def _value(p: PublicationRecord, name: str) -> AttributeValue | None:
    text = (p.attributes or {}).get(name)
    return None if text is None else _read(text, p.row)


def _read(text: str, row: int) -> AttributeValue:
    try:
        return from_text(text)
    except TraceError as error:
        raise TraceError(f"row {row}: {error}") from None


def _positive(amount: AttributeValue | None) -> bool:
    return _cents(amount) > 0


def _cents(amount: AttributeValue | None) -> int:
    """Whatever is no number of cents is nothing: an inquiry about a balance may carry anything."""
    return amount if isinstance(amount, int) and not isinstance(amount, bool) else 0


class Circles:
    """Accounts that transfers connect; each circle is named by one of its accounts."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._parent: dict[Pair, Pair] = {}
        for operation in operations:
            first = self.of(operation.account)
            if operation.to is not None:
                self._parent[self.of(operation.to)] = first

    def of(self, account: Pair) -> Pair:
        parent = self._parent.setdefault(account, account)
        while parent != account:
            above = self._parent[parent]
            self._parent[account] = above  # halves the way for the next one
            account, parent = parent, above
        return account


def loose_circles(history: History, operations: Mapping[int, Operation], circles: Circles) -> set[Pair]:
    return {
        circles.of(operation.account)
        for number, operation in operations.items()
        if operation.op != "balance" and _undivided(history.publications[number], operation)
    }


def _undivided(p: PublicationRecord, operation: Operation) -> bool:
    return not p.ordered or (p.lane != "" and any(topic != p.topic for topic, _ in operation.accounts))


def complete_replicas(
    history: History, operations: Mapping[int, Operation], circles: Circles
) -> dict[Pair, dict[int, int]]:
    """By circle that is not loose, the lives that were due every operation on it, each with the row until which that
    holds."""
    loose = loose_circles(history, operations, circles)
    complete: dict[Pair, dict[int, int]] = {}
    seen: dict[Pair, tuple[Due, ...]] = {}
    for number, operation in operations.items():
        circle = circles.of(operation.account)
        if circle in loose or seen.get(circle) is history.due[number]:
            continue  # publications share the answer while no subscription changes
        seen[circle] = history.due[number]
        here = dict(history.due[number])
        if circle not in complete:
            complete[circle] = {life: min(until, history.lives[life].end_row) for life, until in here.items()}
            continue
        row = history.publications[number].row
        kept = complete[circle]
        complete[circle] = {
            life: min(until, here.get(life, NEVER)) for life, until in kept.items() if life in here or until < row
        }
    return complete


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
