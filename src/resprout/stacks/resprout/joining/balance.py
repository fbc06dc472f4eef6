"""Planned moves: a broker that a repair has left with too many neighbours sends leaves elsewhere.

A move is a leave and a join without loss: the leaf looks for another place while it still serves, goes, and its next
life asks there; its clients find what they miss with the broker that it left. Only leaves move: whoever has children
would hand them to the very broker that has too many. One at a time, and only in calm.

Which leaf: one whose interest is at home elsewhere, so that as little as possible has to cross links that it did not
cross before; then the one that wants least, because few will have to look for another broker. A leaf that was asked and
has stayed, because it reached nobody, is asked again after the others.
"""

from typing import Final

from resprout.order.link import Link
from resprout.spread.interest import Interest
from resprout.stacks.resprout.joining.offers import Offers
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.messages import MoveAway, Offer

PAUSE_LEASES: Final = 2
"""Between two moves: the tree and the clients come to rest before the next."""
LEAVES_WEIGHED: Final = 8


class Balance:
    def __init__(
        self,
        life: BrokerLife,
        links: dict[str, Link],
        interest: Interest,
        offers: Offers,
    ) -> None:
        self._life = life
        self._links = links
        self._interest = interest
        self._offers = offers
        self._moved_us: int | None = None
        self._asked: dict[str, int] = {}
        """Leaves that were asked to move -> how often."""

    def find_move(self) -> tuple[str, MoveAway] | None:
        """A child that should go, and what to tell it; None when all is well, or nothing can be done now."""
        life = self._life
        if len(self._links) <= life.options.total_degree:
            self._asked = {}
            return None
        if self._moved_us is not None and life.now_us - self._moved_us < PAUSE_LEASES * life.options.lease_us:
            return None
        leaves = sorted(
            [name for name in self._links if self._is_leaf(name)], key=lambda name: self._asked.get(name, 0)
        )
        moves = [(leaf, offers) for leaf in leaves[:LEAVES_WEIGHED] if (offers := self._offers_for(leaf))]
        if not moves:
            return None
        leaf, offers = min(moves, key=lambda move: self._price(*move))
        self._moved_us = life.now_us
        self._asked = {name: self._asked.get(name, 0) + (name == leaf) for name in leaves}
        return leaf, MoveAway(offers)

    def _offers_for(self, leaf: str) -> tuple[Offer, ...]:
        return self._offers.make(leaf, self._interest.index.predicates_of(leaf))

    def _price(self, leaf: str, offers: tuple[Offer, ...]) -> tuple[int, int, int, str]:
        missing = min(offer.missing for offer in offers)
        return self._asked.get(leaf, 0), missing, len(self._interest.index.predicates_of(leaf)), leaf

    def _is_leaf(self, name: str) -> bool:
        place = self._life.view.places.get(name)
        me = self._life.seat.name
        return self._links[name].open and place is not None and (place.parent, place.neighbours) == (me, (me,))
