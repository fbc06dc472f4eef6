"""Who wants what: the subscriptions of all brokers as they are known here, and the wishes of local clients.

A broker subscribes once for all of its clients that want the same. Each subscription has an identifier (D7: two of one
predicate are two, and each can be withdrawn), and is known with the broker that stands for its source
(`recipients.source_at`). A client is told `Subscribed` when the subscription of its broker is confirmed: when everybody
who can be reached has it. What is on its way counts for routing already, and is promised to nobody.
"""

from collections.abc import Iterable, Iterator

from resprout.core.bundle import Bundle
from resprout.core.errors import PeerError, UsageError
from resprout.filters.predicate import Predicate, parse_predicate
from resprout.spread.recorded import Recorded
from resprout.spread.subscriptions import Matches, Subscriptions
from resprout.stacks.delta.messages import BarrierId, SubscriptionId


class KnownSubscriptions:
    """SUBS_SET: by identifier, what is wanted, and who stands for whoever wants it."""

    def __init__(self) -> None:
        self._known: dict[SubscriptionId, tuple[Predicate, str]] = {}
        self._table = Subscriptions()

    def add(self, id: SubscriptionId, predicate: Predicate, source: str) -> None:
        if id not in self._known:
            self._table.add(source, id, predicate)
            self._known[id] = (predicate, source)

    def remove(self, id: SubscriptionId) -> None:
        """One that is not known changes nothing. With the number 0: all of earlier lives."""
        gone = [one for one in self._known if one.name == id.name and one.life < id.life] if not id.number else [id]
        for one in gone:
            if (known := self._known.pop(one, None)) is not None:
                self._table.remove(known[1], one)

    def __iter__(self) -> Iterator[tuple[SubscriptionId, Predicate, str]]:
        return iter([(id, predicate, source) for id, (predicate, source) in self._known.items()])

    def wanted_by(self, bundle: Bundle) -> Iterable[str]:
        """Those who stand for everybody who wants any of it."""
        return self._table.matches(bundle)


class _Wish:
    __slots__ = ("barriers", "clients", "id", "is_confirmed", "waiting")

    def __init__(self, id: SubscriptionId) -> None:
        self.id = id
        self.is_confirmed = False
        self.clients: dict[str, None] = {}
        self.waiting: dict[str, None] = {}
        """Clients that were not told yet."""
        self.barriers: dict[BarrierId, None] = {}
        """Beyond which nobody knows of it."""


class LocalWishes:
    """What clients here want (`SubscriptionPort`). What is to be told to other brokers is left in `news`."""

    def __init__(self, name: str, life: int) -> None:
        self._name = name
        self._life = life
        self._last = 0
        self._table = Subscriptions()
        self._wishes: dict[Predicate, _Wish] = {}
        self.news: list[tuple[SubscriptionId, Predicate, bool]] = []
        """(identifier, what, whether it begins)."""

    def matches(self, bundle: Bundle, barriers: Iterable[BarrierId] = ()) -> Matches:
        """Which clients want it. Not those whose subscription may have been unknown where it has passed."""
        matches = self._table.matches(bundle)
        if tags := set(barriers):
            doubtful = [predicate for predicate, wish in self._wishes.items() if not tags.isdisjoint(wish.barriers)]
            unsafe = {name for name in matches if any(predicate in doubtful for predicate in self._table.of(name))}
            matches = {name: offsets for name, offsets in matches.items() if name not in unsafe}
        return matches

    # -- what sessions ask (`SubscriptionPort`) ------------------------------------------------------------------------

    def want(self, client: str, predicate: Predicate, confirmed: bool = False) -> list[Recorded]:
        self._table.add(client, predicate, predicate)
        wish = self._wishes.get(predicate)
        if wish is None:
            self._last += 1
            wish = self._wishes[predicate] = _Wish(SubscriptionId(self._name, self._life, self._last))
            self.news.append((wish.id, predicate, True))
        wish.clients[client] = None
        if confirmed:
            return []
        if wish.is_confirmed:
            return [Recorded(client, predicate, {})]
        wish.waiting[client] = None
        return []

    def drop(self, client: str, predicate: Predicate) -> list[Recorded]:
        self._table.remove(client, predicate)
        wish = self._wishes[predicate]
        wish.clients.pop(client, None)
        wish.waiting.pop(client, None)
        if not wish.clients:
            del self._wishes[predicate]
            self.news.append((wish.id, predicate, False))
        return []

    def drop_all(self, client: str) -> list[Recorded]:
        for predicate in self._table.of(client):
            self.drop(client, predicate)
        return []

    # -- confirmations -------------------------------------------------------------------------------------------------

    def confirm(self, id: SubscriptionId, predicate: Predicate, barriers: Iterable[BarrierId]) -> list[Recorded]:
        """Everybody who can be reached has it: who is to be told."""
        wish = self._wishes.get(predicate)
        if wish is None or wish.id != id:  # it was withdrawn meanwhile
            return []
        wish.is_confirmed = True
        wish.barriers = dict.fromkeys(barriers)
        waiting, wish.waiting = wish.waiting, {}
        return [Recorded(client, predicate, {}) for client in waiting]

    def heal(self, barrier: BarrierId) -> None:
        """Those beyond it know now."""
        for wish in self._wishes.values():
            wish.barriers.pop(barrier, None)


def read_predicate(filter: str, where: str | None) -> Predicate:
    try:
        return parse_predicate(filter, where)
    except UsageError as error:
        raise PeerError(str(error)) from None
