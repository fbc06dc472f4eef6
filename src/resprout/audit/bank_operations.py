"""What the operations of a bank do: read from publications, executed in the only right way.

| op | effect |
|---|---|
| balance | none |
| deposit | credits the account with `amount` |
| withdraw | debits it; refused when it would fall below zero |
| transfer | debits the key that is not `to`, credits `to` (`key`, or `topic#key` elsewhere); refused alike |
| interest | credits balance * amount // 10,000 |

Money is in integer cents. A publication that is none of these, or does not name the accounts that it needs, is no
operation. Replicas show balances as `topic|key`.
"""

from collections.abc import Mapping

import msgspec

from resprout.audit.history import History
from resprout.audit.records import PublicationRecord
from resprout.core.bundle import Pair, pairs_of
from resprout.core.names import AttributeValue
from resprout.trace.schema import Row, TraceError, from_text

OK, REFUSED = "ok", "refused"


class Operation(msgspec.Struct, frozen=True):
    number: int
    """Of its publication."""
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
    """What each account gains if it is not refused."""
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
