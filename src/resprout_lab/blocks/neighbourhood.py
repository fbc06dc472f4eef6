"""The tree within k hops of one broker: who is there, on which path, and who comes next where some are dead.

It is made of places (`blocks.tree`), which their brokers publish; the newer one wins. Dead brokers keep their place:
nobody repairs the tree, they are passed over until they return. A link counts when both of its ends list it; an end of
which nothing is known is believed to, and this broker's own word is enough for its own links. News may come in any
order, so what is not connected to the rest yet is kept for a while.

Who needs how much: `delta` k = delta + 1, to bypass delta brokers in a row; LoCaMu k = 2f + 1, of which it talks to
those within f + 1; CBCAST k = f + 1 = 2. The default stack repairs its tree instead, and has `overlay.view`.

News spreads along the links: what `learn` and `move` return is told to each neighbour as far as it concerns it
(`concerning`); over a link that is new, both ends tell each other everything (`everything_for`). Who is dead is none of
the business of this file: a stack goes by what links and hosts say.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import msgspec

from resprout.overlay.messages import LEAP_MAX, Place

STRAYS_MAX: Final = 1024
"""Places that are not connected to the rest, or too far away: those heard of longest ago are forgotten first."""
NODES_MAX: Final = 65_536
"""Of one neighbourhood. What is farther away than these is not noticed."""

IsDead = Callable[[str], bool]


class _Spot(NamedTuple):
    distance: int
    before: str
    """The one before it on the path from here."""
    branch: str
    """The first on that path."""


class Bypass(NamedTuple):
    """Whom this broker talks to while some are dead."""

    hops: dict[str, tuple[str, ...]]
    """The living that have none but dead before them, nearest first, and those dead in the order of the path."""
    barriers: tuple[str, ...]
    """The dead beyond which nobody can be reached: all before them are dead, and there are too many."""


class Neighbourhood:
    def __init__(self, own: Place, hops: int) -> None:
        self.name: Final = own.name
        self.hops: Final = hops
        self._places: dict[str, Place] = {own.name: own}
        """What was heard of longest ago first."""
        self._spots: dict[str, _Spot] = {}
        """Everybody within k hops, nearest first."""
        self._look({own.name})

    # -- news ----------------------------------------------------------------------------------------------------------

    def learn(self, places: Iterable[Place]) -> list[Place]:
        """What others have published. Returns what has changed in the view: what is new, nearer than before, or on
        another way. What no honest broker says is not heard."""
        changed = [place for place in places if place.name != self.name and self._is_news(place)]
        for place in changed:
            self._places.pop(place.name, None)
            self._places[place.name] = place
        return self._look({place.name for place in changed}) if changed else []

    def move(self, own: Place) -> list[Place]:
        """This broker has published another place. Returns what has changed, this place first."""
        assert own.name == self.name and own.is_newer(self._places[own.name]), "an own place is always the next"
        self._places[own.name] = own
        return self._look({own.name})

    def stand_next_to(self, neighbours: Iterable[str]) -> list[Place]:
        """The same: it has these neighbours from now on."""
        own = self.own
        names = tuple(dict.fromkeys(neighbours))
        return self.move(msgspec.structs.replace(own, version=own.version + 1, neighbours=names))

    def concerning(self, neighbour: str, news: Iterable[Place]) -> tuple[Place, ...]:
        """What of the news this neighbour has to hear: what is within k hops of it, and not heard through it."""
        return tuple([place for place in news if self._is_for(neighbour, place.name)])

    def everything_for(self, neighbour: str) -> tuple[Place, ...]:
        """Over a new link, and to one that returns."""
        return self.concerning(neighbour, self._places.values())

    def _is_news(self, place: Place) -> bool:
        known = self._places.get(place.name)
        if known is None or place.incarnation > known.incarnation:
            return place.is_sound()
        return place.is_sound() and place.is_newer(known) and place.version <= known.version + LEAP_MAX

    def _is_for(self, neighbour: str, name: str) -> bool:
        spot = self._spots.get(name)
        return spot is not None and spot.distance < self.hops and spot.branch != neighbour

    # -- the view ------------------------------------------------------------------------------------------------------

    def __contains__(self, name: object) -> bool:
        """It is in view; this broker always is."""
        return name in self._spots

    @property
    def own(self) -> Place:
        """As this broker has published it."""
        return self._places[self.name]

    def branch(self, name: str) -> str:
        """The neighbour in whose direction it lies."""
        return self._spots[name].branch

    def place(self, name: str) -> Place | None:
        """What it has published, if that was heard here: of one at the edge of the view only the name may be known."""
        return self._places.get(name) if name in self._spots else None

    def places(self, names: Iterable[str]) -> tuple[Place, ...]:
        """What these have published, as far as it was heard here."""
        return tuple([place for name in names if (place := self.place(name)) is not None])

    def nodes(self, within: int | None = None) -> dict[str, int]:
        """Everybody else within so many hops, nearest first, and how far away."""
        most = self.hops if within is None else within
        return {name: spot.distance for name, spot in self._spots.items() if 0 < spot.distance <= most}

    def path(self, name: str) -> tuple[str, ...]:
        """From here to there, both included; empty when it is not in view."""
        if name not in self._spots:
            return ()
        path = [name]
        while path[-1] != self.name:
            path.append(self._spots[path[-1]].before)
        return tuple(reversed(path))

    def path_between(self, one: str, other: str) -> tuple[str, ...]:
        """Both included; empty when one of them is not in view."""
        here, there = self.path(one), self.path(other)
        if not here or not there:
            return ()
        common = sum(1 for a, b in zip(here, there, strict=False) if a == b)
        return (*reversed(here[common:]), *there[common - 1 :])

    def is_between(self, one: str, other: str) -> bool:
        """Does the path from one to the other lead through here? What comes from a node goes on only to those for which
        that is so: the others get it without this broker. False for what is not in view."""
        here, there = self._spots.get(one), self._spots.get(other)
        return here is not None and there is not None and (here.branch != there.branch or self.name in (one, other))

    def behind(self, name: str) -> list[str]:
        """Everybody whom this one is on the path to, nearest first, itself left out."""
        through: set[str] = set()
        for node, spot in self._spots.items():
            if node != name and (spot.before == name or spot.before in through):
                through.add(node)
        return [node for node in self._spots if node in through]

    # -- around the dead -----------------------------------------------------------------------------------------------

    def bypass(self, is_dead: IsDead, within: int | None = None) -> Bypass:
        """Whom to talk to, passing over the dead; at most so many hops away, or as far as the view reaches."""
        most = self.hops if within is None else within
        passed: dict[str, tuple[str, ...]] = {self.name: ()}
        hops: dict[str, tuple[str, ...]] = {}
        barriers: list[str] = []
        for name, spot in self._spots.items():
            if name == self.name or spot.before not in passed or spot.distance > most:
                continue
            if not is_dead(name):
                hops[name] = passed[spot.before]
            else:
                passed[name] = (*passed[spot.before], name)
                if spot.distance == most:
                    barriers.append(name)
        return Bypass(hops, tuple(barriers))

    def toward(self, targets: Iterable[str], bypass: Bypass) -> tuple[dict[str, list[str]], list[str]]:
        """To whom something goes that is for all of these: the living hop on the path to each, with the targets that
        are to be reached through it; and the targets to which there is none."""
        ways: dict[str, list[str]] = {}
        cut_off: list[str] = []
        for target in targets:
            hop = next((name for name in self.path(target)[1:] if name in bypass.hops), None)
            if hop is None:
                cut_off.append(target)
            else:
                ways.setdefault(hop, []).append(target)
        return ways, cut_off

    # -- inside --------------------------------------------------------------------------------------------------------

    def _look(self, changed: set[str]) -> list[Place]:
        before = self._spots
        self._spots = self._search()
        self._forget_strays()
        return [
            self._places[name]
            for name, spot in self._spots.items()
            if name in self._places and (name in changed or _is_other(before.get(name), spot))
        ]

    def _search(self) -> dict[str, _Spot]:
        found = {self.name: _Spot(0, self.name, self.name)}
        level = [self.name]
        for distance in range(1, self.hops + 1):
            following: list[str] = []
            for name in level:
                for other in self._links(name):
                    if other not in found and len(found) < NODES_MAX:
                        found[other] = _Spot(distance, name, other if distance == 1 else found[name].branch)
                        following.append(other)
            level = following
        return found

    def _links(self, name: str) -> list[str]:
        place = self._places.get(name)
        neighbours = () if place is None else place.neighbours
        if name == self.name:
            return list(neighbours)
        return [other for other in neighbours if (at := self._places.get(other)) is None or name in at.neighbours]

    def _forget_strays(self) -> None:
        strays = [name for name in self._places if name not in self._spots]
        for name in strays[: max(0, len(strays) - STRAYS_MAX)]:
            del self._places[name]


def _is_other(before: _Spot | None, spot: _Spot) -> bool:
    return before is None or spot.distance < before.distance or spot.branch != before.branch
