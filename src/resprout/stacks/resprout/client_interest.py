"""What this broker's clients want, as their sessions ask for it (`edge.broker.ports`).

Dropping the interest of a client takes some 30 µs for each subscription. When a client leaves that has many, they are
dropped a portion at a time (`drop_more`), so that no step takes seconds. Until then what matches is given to no
session, and a client of the same name has to wait. Filters with wildcards go last: without a wide one, neighbours would
be asked for all that it covered.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final

from resprout.core.contract import Timer
from resprout.filters.predicate import Predicate, is_plain
from resprout.spread.interest import Interest
from resprout.spread.messages import Outbound
from resprout.spread.needs import Wish

PORTION: Final = 1_000
"""Subscriptions of a client that leaves, which are dropped in one step."""
PORTION_US: Final = 5_000
"""Between two portions."""


class DropMore(Timer, frozen=True):
    """When to drop the next portion."""


class ClientInterest:
    """What neighbours must hear goes to `outbound`."""

    def __init__(self, interest: Interest, outbound: Outbound, changed: Callable[[], None] = lambda: None) -> None:
        """`changed` is called when somebody may want something else than before."""
        self._interest = interest
        self._outbound = outbound
        self._changed = changed
        self.leaving: dict[str, None] = {}
        """Clients that have left, and whose interest is not all dropped yet."""

    def want(self, client: str, predicate: Predicate, confirmed: bool = False) -> list[Wish]:
        self._changed()
        return self._interest.want(client, predicate, self._outbound, confirmed)

    def drop(self, client: str, predicate: Predicate) -> list[Wish]:
        self._changed()
        return self._interest.drop(client, predicate, self._outbound)

    def drop_all(self, client: str) -> list[Wish]:
        self._changed()
        if client in self.leaving:
            return self._drop_portion(client)
        return self._interest.drop_all(client, self._outbound)

    def leave_slowly(self, client: str) -> None:
        """It is about to leave: if it wants much, `drop_all` drops a portion, and `drop_more` the rest."""
        if len(self._interest.index.predicates_of(client)) > PORTION:
            self.leaving[client] = None

    def drop_more(self) -> list[Wish]:
        """Drop a portion of what each of those wants that leave."""
        self._changed()
        return [wish for client in list(self.leaving) for wish in self._drop_portion(client)]

    def _drop_portion(self, client: str) -> list[Wish]:
        predicates = self._interest.index.predicates_of(client)
        if len(predicates) <= PORTION:
            del self.leaving[client]
            return self._interest.drop_some(client, predicates, self._outbound)
        plain = tuple(islice((one for one in predicates if is_plain(one.filter)), PORTION))
        return self._interest.drop_some(client, plain or predicates[:PORTION], self._outbound)
