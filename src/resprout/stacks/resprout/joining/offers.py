"""Places for a broker that this one has no room for: who has room, and how well its interest fits there.

Offered is only who has told its place itself and is within the reach of waves: of those, what is known here is true but
for what is on its way. Of the brokers beyond it is known that they exist, and not how many neighbours they have. Where
nobody within reach has room, those *below* this broker are offered: every step down ends at a leaf, which has room.

What a branch of the tree wants is known here, because it was asked of this broker. A newcomer whose interest a branch
covers costs nothing there: what it wants crosses those links already. `missing` counts what does not. How far away the
places are, only the newcomer can find out (`choosing`).

Bounded, because whoever is sent elsewhere decides how often: so many places, and so many interests of each, are looked
at. Interest that is exactly alike is always seen, interest that is covered only among the first of a branch.
"""

import random
from collections.abc import Sequence
from itertools import islice
from typing import Final

from resprout.filters.predicate import Predicate
from resprout.overlay import lineage
from resprout.overlay.places import Place
from resprout.spread.covers import Covers
from resprout.spread.interest import Interest
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.messages import OFFERED_MAX, Offer

PLACES_WEIGHED: Final = 16
INTERESTS_WEIGHED: Final = 64
"""Of a newcomer; the others are taken to be like these."""
BRANCH_INTERESTS_WEIGHED: Final = 256


class Offers:
    def __init__(
        self,
        life: BrokerLife,
        interest: Interest,
        rng: random.Random,
    ) -> None:
        self._life = life
        self._interest = interest
        self._rng = rng

    def make(self, newcomer: str, wanted: Sequence[Predicate]) -> tuple[Offer, ...]:
        """Up to `OFFERED_MAX`, best fit first; none when those below have not told their places yet. If there are more,
        half of them are those that fit best, and half are drawn: one of these may be near."""
        places = self._places(newcomer)
        self._rng.shuffle(places)
        missing = self._weigh(places[:PLACES_WEIGHED], wanted)
        fitting = sorted(missing, key=lambda name: (missing[name], name))
        names = dict.fromkeys(fitting[: OFFERED_MAX // 2])
        names.update(dict.fromkeys(missing))
        chosen = sorted(islice(names, OFFERED_MAX), key=lambda name: (missing[name], name))
        known = self._life.view.places
        return tuple([Offer(name, known[name].address, missing[name]) for name in chosen])

    def _places(self, newcomer: str) -> list[Place]:
        """Those with room; or else those farthest below, from where it is not far to a leaf."""
        view = self._life.view
        degree = self._life.options.total_degree
        free: list[Place] = []
        below: dict[int, list[Place]] = {}
        for name, (distance, way) in lineage.branches(view, view.reach).items():
            place = view.places.get(name)
            if place is None or not place.version or name in (newcomer, view.name) or view.is_dead(name):
                continue
            if len(place.neighbours) < degree:
                free.append(place)
            if way != view.parent:
                below.setdefault(distance, []).append(place)
        return free or below.get(max(below, default=0), [])

    def _weigh(self, places: Sequence[Place], wanted: Sequence[Predicate]) -> dict[str, int]:
        """Place -> how many of these interests nobody there has."""
        life = self._life
        wanted = wanted[:INTERESTS_WEIGHED]
        ways = lineage.branches(life.view, life.view.reach + 1) if wanted else {}
        by_branch: dict[str, int] = {}
        missing: dict[str, int] = {}
        for place in places:
            _, branch = ways.get(place.name, (0, ""))
            if branch not in by_branch:
                by_branch[branch] = self._count_missing(branch, wanted)
            missing[place.name] = by_branch[branch]
        return missing

    def _count_missing(self, branch: str, wanted: Sequence[Predicate]) -> int:
        interest = self._interest
        new = [predicate for predicate in wanted if branch not in interest.directions(predicate)]
        covers: Covers[Predicate] = Covers()
        for predicate in interest.index.predicates_of(branch)[:BRANCH_INTERESTS_WEIGHED] if new else ():
            covers.add(predicate, predicate)
        return sum(covers.covering(predicate) is None for predicate in new)
