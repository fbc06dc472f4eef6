"""Who wants what: the subscriptions of all brokers as they are known here, and the wishes of local clients.

A broker subscribes once for all of its clients that want the same. Each subscription has an identifier (D7: two of one
predicate are two, and each can be withdrawn), and is known with the broker that stands for its source
(`source_at`). A client is told `Subscribed` when the subscription of its broker is confirmed: when everybody
who can be reached has it. What is on its way counts for routing already, and is promised to nobody.

Recipient sets: for whom a message is that a broker has. Functions of paths, and of nothing else.

Nobody knows the tree beyond delta + 1 hops, so what is farther away is stood for by the broker on the way there that is
exactly delta + 1 hops away (delta-Level-2 consistency). The broker of the subscriber itself is known within delta + 1
hops (delta-Level-1).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from resprout.core.bundle import Bundle
from resprout.core.errors import PeerError
from resprout.filters.predicate import Predicate, heard_predicate
from resprout.spread.messages import InterestConfirmed
from resprout_lab.blocks.neighbourhood import Neighbourhood
from resprout_lab.blocks.recorded import Confirmed, RecordedSubscriptions
from resprout_lab.blocks.subscriptions import Matches, Subscriptions
from resprout_lab.delta.messages import BarrierId, KnownSubscription, SubscriptionId


def source_at(path: Sequence[str], distance: int, delta: int) -> str:
    """Who stands for the source of a subscription at a receiver. `path`: from here to whoever stands for it here;
    `distance`: from here to the receiver, away from the source; 0: here. The recipient set of a publication are those
    who stand here for the sources of all subscriptions that match it (Table 1 of the report)."""
    return path[min(len(path) - 1, max(0, delta + 1 - distance))]


def onward(view: Neighbourhood, sender: str | None, nodes: Iterable[str]) -> list[str]:
    """Of these, whoever gets it through here: this broker lies between them and the sender. The others have it from
    elsewhere, and would wait for each other (D4)."""
    others = [name for name in nodes if name != view.name]
    return others if sender is None else [name for name in others if view.is_between(sender, name)]


EVERYBODY: Final = "*"


class KnownSubscriptions:
    """SUBS_SET: by identifier, what is wanted, and who stands for whoever wants it."""

    def __init__(self, view: Neighbourhood, delta: int) -> None:
        self._view = view
        self._delta = delta
        self._known: dict[SubscriptionId, KnownSubscription] = {}
        self._table = Subscriptions()

    def add(self, wish: KnownSubscription) -> None:
        if wish.id not in self._known:
            self._table.add(wish.source, wish.id, heard_predicate(wish.filter, wish.where))
            self._known[wish.id] = wish

    def remove(self, id: SubscriptionId) -> None:
        """One that is not known changes nothing. With the number 0: all of earlier lives."""
        gone = [one for one in self._known if one.name == id.name and one.life < id.life] if not id.number else [id]
        for one in gone:
            if (known := self._known.pop(one, None)) is not None:
                self._table.remove(known.source, one)

    def source_of(self, id: SubscriptionId) -> str | None:
        """Return the broker that stands for it here; None for a subscription that is not known."""
        known = self._known.get(id)
        return None if known is None else known.source

    def __iter__(self) -> Iterator[KnownSubscription]:
        return iter(list(self._known.values()))

    def check(self, wish: KnownSubscription) -> None:
        """Raise PeerError unless it is well formed and of a source nearby."""
        heard_predicate(wish.filter, wish.where)
        if wish.source not in self._view:
            raise PeerError(f"the subscription of {wish.source}, which is nowhere near")

    def as_told(self, wish: KnownSubscription, distance: int) -> KnownSubscription:
        """Return it with its source as it is at a broker so far away from here (D5)."""
        source = source_at(self._view.path(wish.source), distance, self._delta)
        return msgspec.structs.replace(wish, source=source)

    def for_broker(self, name: str) -> tuple[KnownSubscription, ...]:
        """PAR_SUB: return all that a broker that begins has to learn from here, and what its earlier lives wanted."""
        view, distance = self._view, len(self._view.path(name)) - 1
        branch = view.branch(name)
        wishes = [one for one in self if one.id.name == name or branch not in view.path(one.source)[:2]]
        return tuple([self.as_told(one, distance) for one in wishes])

    def learn(self, told: tuple[KnownSubscription, ...]) -> None:
        for wish in told:
            self.check(wish)
            self.add(wish)

    def wanted_by(self, bundle: Bundle) -> Iterable[str]:
        """Those who stand for everybody who wants any of it."""
        return self._table.matches(bundle)


class LocalWishes(RecordedSubscriptions):
    """What clients here want. All others together are the one neighbour that is asked for it."""

    def __init__(self) -> None:
        super().__init__()
        self.add_link(EVERYBODY, ())
        self._unknown: dict[Predicate, dict[BarrierId, None]] = {}
        """Of what is confirmed: the barriers beyond which nobody knows of it."""

    def matches(self, bundle: Bundle, barriers: Iterable[BarrierId]) -> Matches:
        """Return the clients that want it. A subscription that may have been unknown where it has passed does not
        count; the other subscriptions of the same client do."""
        matches = self.table.matches(bundle)
        marks = set(barriers)
        doubtful = {predicate for predicate, known in self._unknown.items() if not marks.isdisjoint(known)}
        if not doubtful:
            return matches
        certain = Subscriptions()
        for name in matches:
            for predicate in self.table.of(name):
                if predicate not in doubtful:
                    certain.add(name, predicate, predicate)
        return certain.matches(bundle)

    def confirm(self, wish: KnownSubscription, barriers: Iterable[BarrierId]) -> Confirmed:
        """Everybody who can be reached has it: who is to be told."""
        self._unknown[heard_predicate(wish.filter, wish.where)] = dict.fromkeys(barriers)
        return self.hear_recorded(EVERYBODY, InterestConfirmed(wish.id.number))

    def number_of(self, predicate: Predicate) -> int:
        """Return the number under which others know what clients here want."""
        return self._asks[EVERYBODY][predicate].id

    def heal(self, barrier: BarrierId) -> None:
        """Those beyond it know now."""
        for known in self._unknown.values():
            known.pop(barrier, None)

    def _unask(self, name: str, predicate: Predicate) -> None:
        self._unknown.pop(predicate, None)
        super()._unask(name, predicate)
