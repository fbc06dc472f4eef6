"""Places in the tree: which ones are offered to a broker, which one it takes, and when brokers move to another one.

`Offers` finds places for a broker that this one has no room for: who has room, and how well its interest fits there. It
offers only brokers that have told their place themselves and are within the reach of waves: what is known of those is
true but for what is on its way. Of the brokers beyond it is known that they exist, and not how many neighbours they
have. Where nobody within reach has room, those *below* this broker are offered: every step down ends at a leaf, which
has room. This broker knows what a branch of the tree wants, because it was asked for it. A newcomer whose interest a
branch covers costs nothing there: what it wants crosses those links already. `missing` counts what does not. The search
is bounded, because brokers that are sent elsewhere decide how often it runs: so many places, and so many interests of
each, are looked at. Interest that is exactly alike is always seen, interest that is covered only among the first of a
branch.

`ParentSearch` chooses among offered places by distance and by interest. The broker calls all of them and measures a
round trip to each that answers; setting up a session is not counted, because some stand already. A broker that is about
as near as the nearest counts as near. Among the near ones the place with the least `missing` wins, then the shorter
trip, then the name. So interest never sends a broker far away, and a few milliseconds never outweigh traffic that every
hop has to carry.

`Balance` plans moves: a broker that a repair has left with too many neighbours sends leaves elsewhere. A move is a
leave and a join without loss: the leaf looks for another place while it still serves, goes, and its next life asks
there; its clients find what they miss with the broker that it left. Only leaves move: a broker with children would hand
them to the very broker that has too many. One moves at a time, and only in calm. The leaf whose interest is at home
elsewhere goes first, so that as little as possible has to cross links that it did not cross before; then the one that
wants least, because few clients will have to look for another broker. A leaf that was asked and has stayed, because it
reached nobody, is asked again after the others.

Where no child is a leaf, the smallest branch is emptied, leaf by leaf, until the child is a leaf and moves itself. The
request names places outside the branch, and each broker of the branch passes it on to a child until a leaf gets it. A
broker sees as many brokers of a branch as have told it their places, and those that these list: beyond that, branches
of different sizes look alike.
"""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

import msgspec

from resprout.core.contract import CancelTimer, Locate, SetTimer, Timer
from resprout.filters.predicate import Predicate
from resprout.order.link import Link
from resprout.overlay import lineage
from resprout.overlay.messages import Place, Probe
from resprout.spread.covers import Covers
from resprout.spread.interest import Interest
from resprout.stacks.peers import Peers
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.messages import OFFERED_MAX, MoveAway, Offer

PLACES_WEIGHED: Final = 16
INTERESTS_WEIGHED: Final = 64
"""Of a newcomer; the others are taken to be like these."""
BRANCH_INTERESTS_WEIGHED: Final = 256

CALL: Final = 1 << 52
"""The number of a probe that only sees to it that there is a session; rounds of the overlay count from 1."""
MEASURE: Final = CALL + 1
PATIENCE_US: Final = 5_000_000
"""How long a first answer is waited for."""
NEAR_US: Final = 5_000
"""Round trips that differ by no more are alike, whatever their ratio: what a busy process takes to answer."""
SET_UP_TRIPS: Final = 4
"""To connect, to greet, to be called, to be measured."""

PAUSE_LEASES: Final = 2
"""Between two moves: the tree and the clients come to rest before the next."""
MOVES_WEIGHED: Final = 8
"""Children for which places are looked for."""
ASKED_IN_A_ROW: Final = 16
"""How often a branch is asked for a leaf without getting smaller before another branch is asked."""


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
        self.emptied: str | None = None
        """The branch from which brokers are moved away, if there is one. It is not offered while others are."""

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
        """Those with room; or else those farthest below, from where it is not far to a leaf. None behind the newcomer
        itself, if it is a neighbour."""
        view = self._life.view
        degree = self._life.options.total_degree
        free: list[Place] = []
        emptied: list[Place] = []
        below: dict[int, list[Place]] = {}
        for name, (distance, way) in lineage.branches(view, view.reach).items():
            place = view.places.get(name)
            if place is None or not place.version or name == newcomer or way in (newcomer, view.name):
                continue
            if view.is_dead(name):
                continue
            if len(place.neighbours) < degree:
                (emptied if way == self.emptied else free).append(place)
            if way not in (view.parent, self.emptied):
                below.setdefault(distance, []).append(place)
        return free or below.get(max(below, default=0), []) or emptied

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


class ChooseParent(Timer, frozen=True):
    """When to take the best of those that have answered."""


class Candidate(msgspec.Struct, frozen=True):
    name: str
    trip_us: int
    missing: int


def near_us(nearest_us: int) -> int:
    """Up to here a round trip counts as near."""
    return nearest_us * 3 // 2 + NEAR_US


def choose(candidates: Iterable[Candidate]) -> str | None:
    """The parent to take; None when nobody has answered."""
    answered = list(candidates)
    if not answered:
        return None
    most_us = near_us(min(candidate.trip_us for candidate in answered))
    near = [candidate for candidate in answered if candidate.trip_us <= most_us]
    return min(near, key=lambda candidate: (candidate.missing, candidate.trip_us, candidate.name)).name


class ChosenParent(msgspec.Struct, frozen=True):
    """What came of a search."""

    name: str | None
    """None when nobody answered."""


class ParentSearch:
    """One search. It is over when a call returns what was `ChosenParent`."""

    def __init__(
        self,
        life: BrokerLife,
        peers: Peers,
        offers: Iterable[Offer],
    ) -> None:
        self._life = life
        self._peers = peers
        self._missing = {offer.name: offer.missing for offer in offers}
        self._awaited = dict.fromkeys(self._missing)
        self._asked_us: dict[str, int] = {}
        """When a round trip began."""
        self._trips: dict[str, int] = {}
        self._begun_us = life.now_us

    def begin(self) -> ChosenParent | None:
        life = self._life
        life.out.append(SetTimer(ChooseParent(), life.now_us + PATIENCE_US))
        for name in self._missing:
            if self._peers.is_clear(name):
                self._measure(name)
            else:
                self._peers.post(name, Probe(CALL))
        return self._check()

    def probed(self, name: str, number: int) -> ChosenParent | None:
        """An answer to a probe. Whoever answers what it was not asked is not believed."""
        life = self._life
        if name not in self._awaited:
            return None
        if number == CALL and name not in self._asked_us:
            self._measure(name)
        elif number == MEASURE and name in self._asked_us:
            del self._awaited[name]
            self._trips[name] = life.now_us - self._asked_us[name]
            nearest_us = min(self._trips.values())
            life.out.append(SetTimer(ChooseParent(), self._begun_us + SET_UP_TRIPS * near_us(nearest_us)))
            return self._check()
        return None

    def lost(self, name: str) -> ChosenParent | None:
        """It is not there."""
        return self._check() if self._awaited.pop(name, self) is None else None

    def end(self) -> ChosenParent:
        """Choose among those that have answered."""
        self._life.out.append(CancelTimer(ChooseParent()))
        self._awaited = {}
        return ChosenParent(choose([Candidate(name, trip, self._missing[name]) for name, trip in self._trips.items()]))

    def _measure(self, name: str) -> None:
        self._asked_us[name] = self._life.now_us
        self._peers.post(name, Probe(MEASURE))

    def _check(self) -> ChosenParent | None:
        return self.end() if not self._awaited else None


def locate(life: BrokerLife, offers: Iterable[Offer]) -> list[Offer]:
    """Those that can be called, and where they listen."""
    usable = [offer for offer in list(offers)[:OFFERED_MAX] if offer.name != life.seat.name]
    life.out.extend([Locate(offer.name, offer.address) for offer in usable if offer.address])
    return usable


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
        self._passed_us: int | None = None
        """When this broker last passed on a request of its parent."""
        self._asked: dict[str, int] = {}
        """Leaves that were asked to move -> how often."""
        self._emptied: dict[str, tuple[int, int]] = {}
        """Branches that were asked for a leaf -> how many brokers were seen there, and how often it was asked since."""
        self._passed: dict[str, int] = {}
        """Children to which requests of the parent were passed on -> how often."""

    def find_move(self) -> tuple[str, MoveAway] | None:
        """A child that should go, or give up a leaf behind it, and what to tell it; None when all is well, or nothing
        can be done now."""
        life = self._life
        if len(self._links) <= life.options.total_degree:
            self._asked = {}
            self._emptied = {}
            self._offers.emptied = None
            return None
        if self._is_early(self._moved_us, PAUSE_LEASES):
            return None
        move = self._leaf_move() or self._branch_move()
        if move is not None:
            self._moved_us = life.now_us
        return move

    def pass_on(self, message: MoveAway) -> tuple[str, MoveAway] | None:
        """The child that gets a request of the parent in place of this broker, which has children; None if there is
        none, if it is too early for another move, or if this broker moves children away itself. A leaf is asked before
        others, and a small branch before a large one; those that were asked in vain come last."""
        if len(self._links) > self._life.options.total_degree or self._is_early(self._passed_us, PAUSE_LEASES / 2):
            return None
        children = [name for name in self._links if self._is_child(name)]
        if not children:
            return None
        sizes = self._sizes()
        child = min(children, key=lambda name: (self._passed.get(name, 0), sizes[name], self._wants(name), name))
        self._passed_us = self._life.now_us
        self._passed = {name: self._passed.get(name, 0) + (name == child) for name in children}
        return child, MoveAway(message.offers[:OFFERED_MAX])

    def _is_early(self, last_us: int | None, leases: float) -> bool:
        life = self._life
        return last_us is not None and life.now_us - last_us < leases * life.options.lease_us

    def _leaf_move(self) -> tuple[str, MoveAway] | None:
        """A leaf next to this broker that should go."""
        leaves = sorted(
            [name for name in self._links if self._is_leaf(name)], key=lambda name: self._asked.get(name, 0)
        )
        moves = [(leaf, offers) for leaf in leaves[:MOVES_WEIGHED] if (offers := self._offers_for(leaf))]
        if not moves:
            return None
        leaf, offers = min(moves, key=lambda move: self._price(*move))
        self._asked = {name: self._asked.get(name, 0) + (name == leaf) for name in leaves}
        return leaf, MoveAway(offers)

    def _branch_move(self) -> tuple[str, MoveAway] | None:
        """The smallest branch below this broker, which should give up a leaf."""
        sizes = self._sizes()
        branches = {name: self._count_asked(name, sizes[name]) for name in self._links if self._is_child(name)}
        rank = {name: (asked // ASKED_IN_A_ROW, sizes[name]) for name, (_, asked) in branches.items()}
        smallest = sorted(branches, key=lambda name: (*rank[name], self._wants(name), name))
        for name in smallest[:MOVES_WEIGHED]:
            self._offers.emptied = name
            if offers := self._offers_for(name):
                seen, asked = branches[name]
                self._emptied = branches | {name: (seen, asked + 1)}
                return name, MoveAway(offers)
        self._offers.emptied = None
        return None

    def _count_asked(self, branch: str, size: int) -> tuple[int, int]:
        """How many brokers are seen in a branch, and how often it was asked since it was larger."""
        seen, asked = self._emptied.get(branch, (size, 0))
        return (seen, asked) if size >= seen else (size, 0)

    def _offers_for(self, child: str) -> tuple[Offer, ...]:
        return self._offers.make(child, self._interest.index.predicates_of(child))

    def _price(self, leaf: str, offers: tuple[Offer, ...]) -> tuple[int, int, int, str]:
        missing = min(offer.missing for offer in offers)
        return self._asked.get(leaf, 0), missing, self._wants(leaf), leaf

    def _wants(self, name: str) -> int:
        return len(self._interest.index.predicates_of(name))

    def _sizes(self) -> Counter[str]:
        """How many brokers are seen behind each neighbour, itself included."""
        view = self._life.view
        return Counter(way for _, way in lineage.branches(view, view.reach + 1).values())

    def _is_child(self, name: str) -> bool:
        place = self._life.view.places.get(name)
        return (
            self._links[name].open and place is not None and place.version > 0 and place.parent == self._life.view.name
        )

    def _is_leaf(self, name: str) -> bool:
        place = self._life.view.places.get(name)
        me = self._life.seat.name
        return self._links[name].open and place is not None and (place.parent, place.neighbours) == (me, (me,))
