"""What this broker's clients want, as their sessions ask for it (`edge.broker.ports`)."""

from collections.abc import Callable

from resprout.filters.predicate import Predicate
from resprout.spread.interest import Interest
from resprout.spread.needs import Wish
from resprout.spread.outbound import Outbound


class ClientInterest:
    """What neighbours must hear goes to `outbound`."""

    def __init__(self, interest: Interest, outbound: Outbound, changed: Callable[[], None] = lambda: None) -> None:
        """`changed` is called when somebody may want something else than before."""
        self._interest = interest
        self._outbound = outbound
        self._changed = changed

    def want(self, client: str, predicate: Predicate, confirmed: bool = False) -> list[Wish]:
        self._changed()
        return self._interest.want(client, predicate, self._outbound, confirmed)

    def drop(self, client: str, predicate: Predicate) -> list[Wish]:
        self._changed()
        return self._interest.drop(client, predicate, self._outbound)

    def drop_all(self, client: str) -> list[Wish]:
        self._changed()
        return self._interest.drop_all(client, self._outbound)
