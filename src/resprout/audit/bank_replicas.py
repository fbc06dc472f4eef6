"""Which replicas of the bank can be held to agree.

Money moves between accounts, so accounts that a transfer connects form one *circle*. A replica knows the balances of a
circle only if it was given every operation on it: one that subscribed later, or to a part, is not compared with others.
It is compared until it crashes or asks to end a subscription that it needs. A circle in which an `eventual` operation
moves money is *loose*: no total divides that, so the balances at a total may differ, and no replica is compared. Where
order holds within each topic, one that moves money of another topic is divided by no total of that topic either.
"""

from collections.abc import Iterable, Mapping

from resprout.audit.bank_operations import Operation
from resprout.audit.history import History
from resprout.audit.interest import Due
from resprout.audit.records import NEVER, PublicationRecord
from resprout.core.keys import Pair


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
