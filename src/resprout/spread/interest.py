"""Interest routing: who wants what, what was asked of whom, and when a wish is confirmed.

A *direction* is a neighbour or a local client. What one direction wants is asked of every neighbour but itself, so that
interest spreads through the tree against the flow of publications. A wish is confirmed to its direction when every
other neighbour has confirmed it: then each broker of the tree sends what matches, and nothing is missed.

A predicate that an asked one is seen to cover is not asked again (`spread.asked`). When a wide wish replaces narrow
ones, or goes and leaves narrow ones behind, the new is asked before the old is withdrawn; links are FIFO, so by
induction over the hops there is no moment in which a broker stops sending what somebody still wants, and what was
confirmed stays true.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from resprout.core.errors import PeerError
from resprout.filters.index import MatchIndex
from resprout.filters.predicate import Predicate
from resprout.spread.asked import Asked
from resprout.spread.messages import InterestConfirmed, Interested, Uninterested
from resprout.spread.needs import Wish
from resprout.spread.says import Says

NEIGHBOUR_INTERESTS_MAX: Final = 1_000_000
"""What one neighbour may ask at a time, for all who are behind it."""


class Interest:
    """The interest of all directions of one broker. Methods append what is to be said to `says`, in order, and return
    the wishes of local clients that became confirmed."""

    def __init__(self) -> None:
        self.index: MatchIndex[str] = MatchIndex()
        self._wanted: dict[Predicate, dict[str, None]] = {}
        self._asked: dict[str, Asked] = {}
        self._wishes: dict[tuple[str, Predicate], Wish] = {}
        self._wishes_made = 0
        self._theirs: dict[str, dict[int, Predicate]] = {}
        self._their_ids: dict[tuple[str, Predicate], int] = {}

    # -- neighbours ----------------------------------------------------------------------------------------------------

    def add_neighbour(self, name: str) -> None:
        """From now on everything wanted elsewhere is asked of this neighbour too. Say `asks(name)` once it listens."""
        asked = self._asked[name] = Asked(name)
        self._theirs[name] = {}
        unheard: Says = []
        for predicate in self._wanted:
            if self._needed(name, predicate):
                asked.need(predicate, unheard)
        for wish in self._wishes.values():
            if wish.direction != name:
                self._await(wish, name)

    def asks(self, name: str) -> Says:
        """Everything that is asked of a neighbour, for the beginning of its session."""
        return self._asked[name].all()

    def asked_by(self, name: str, message: Interested, predicate: Predicate, says: Says) -> list[Wish]:
        theirs = self._theirs[name]
        if message.id in theirs or (name, predicate) in self._their_ids:
            raise PeerError(f"interest {message.id} in {predicate} was asked before")
        if len(theirs) >= NEIGHBOUR_INTERESTS_MAX:
            raise PeerError(f"more than {NEIGHBOUR_INTERESTS_MAX} interests at a time")
        theirs[message.id] = predicate
        self._their_ids[name, predicate] = message.id
        return self.want(name, predicate, says)

    def withdrawn_by(self, name: str, message: Uninterested, says: Says) -> list[Wish]:
        predicate = self._theirs[name].pop(message.id, None)
        if predicate is None:
            raise PeerError(f"interest {message.id} was never asked")
        del self._their_ids[name, predicate]
        return self.drop(name, predicate, says)

    def confirmed_by(self, name: str, message: InterestConfirmed, says: Says) -> list[Wish]:
        return self._heard(self._asked[name].confirm(message.id), says)

    # -- directions ----------------------------------------------------------------------------------------------------

    def want(self, direction: str, predicate: Predicate, says: Says) -> list[Wish]:
        """A direction wants what matches; it must not want the same already."""
        self.index.add(direction, predicate)
        self._wanted.setdefault(predicate, {})[direction] = None
        self._wishes_made += 1
        wish = self._wishes[direction, predicate] = Wish(self._wishes_made, direction, predicate)
        for name, asked in self._asked.items():
            if name != direction:
                asked.need(predicate, says)
                self._await(wish, name)
        return self._confirm([wish], says)

    def drop(self, direction: str, predicate: Predicate, says: Says) -> list[Wish]:
        """A direction no longer wants it."""
        return self._drop(direction, (predicate,), says)

    def drop_all(self, direction: str, says: Says) -> list[Wish]:
        """A direction no longer wants anything. Nothing is asked on the way that it alone would need."""
        return self._drop(direction, self.index.predicates_of(direction), says)

    def directions(self, predicate: Predicate) -> tuple[str, ...]:
        return tuple(self._wanted.get(predicate, ()))

    # -- inside --------------------------------------------------------------------------------------------------------

    def _needed(self, name: str, predicate: Predicate) -> bool:
        return any(direction != name for direction in self._wanted.get(predicate, ()))

    def _await(self, wish: Wish, name: str) -> None:
        if self._asked[name].wait(wish):
            wish.missing += 1

    def _drop(self, direction: str, predicates: Sequence[Predicate], says: Says) -> list[Wish]:
        cancelled: list[Wish] = []
        for predicate in predicates:
            self.index.remove(direction, predicate)
            directions = self._wanted[predicate]
            del directions[direction]
            if not directions:
                del self._wanted[predicate]
            if (wish := self._wishes.pop((direction, predicate), None)) is not None:
                cancelled.append(wish)
        ready: list[Wish] = []
        for name, asked in self._asked.items():
            if name != direction:
                for wish in cancelled:
                    asked.forget(wish)
                unneeded = [predicate for predicate in predicates if not self._needed(name, predicate)]
                ready += self._heard(asked.unneed(unneeded, says), says)
        return ready

    def _heard(self, wishes: list[Wish], says: Says) -> list[Wish]:
        """One more neighbour has confirmed these."""
        for wish in wishes:
            wish.missing -= 1
        return self._confirm(sorted(wishes, key=attrgetter("no")), says)

    def _confirm(self, wishes: list[Wish], says: Says) -> list[Wish]:
        """Those for which nobody is missing."""
        ready: list[Wish] = []
        for wish in wishes:
            if wish.missing:
                continue
            del self._wishes[wish.direction, wish.predicate]
            their_id = self._their_ids.get((wish.direction, wish.predicate))
            if their_id is None:
                ready.append(wish)
            else:
                says.append((wish.direction, InterestConfirmed(their_id)))
        return ready
