"""Which brokers of a scenario may be down at once, by what their stack says that it survives (`stacks.survival`).

Down is also who is frozen, cut off or leaves, until the network has grown together without it. In a tree whose dead and
leaders are decided by a majority of the root's list, the 2f + 1 brokers nearest to the root, fewer than f may fall
silent where there are fewer brokers than that. Processes that crash are another matter: their hosts say that they are
gone, and a voter that is certainly gone has no vote.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from random import Random

from resprout.scenario.model import BrokerSpec, Scenario
from resprout.stacks.registry import find_stack
from resprout.stacks.survival import Survival

ATTEMPTS = 6
"""To find one more broker that may fall together with others."""


def survival_of(scenario: Scenario) -> Survival:
    """What the scenario's stack survives with its options."""
    stack = find_stack(scenario.stack)
    return stack.survives(stack.parse_options(scenario.options))


class FaultModel:
    def __init__(self, brokers: Sequence[BrokerSpec], survival: Survival) -> None:
        self.survival = survival
        self.faults = faults = survival.faults
        self.names = tuple(broker.name for broker in brokers)
        self.root = next(broker.name for broker in brokers if broker.parent is None)
        self.parents = {broker.name: broker.parent for broker in brokers}
        self._site_of = {broker.name: broker.site for broker in brokers}
        self._ways = {name: _ways_up(name, self.parents) for name in self.names}
        by_depth = sorted(self.names, key=lambda name: len(self._ways[name]))
        last = by_depth[: 2 * faults + 1][-1]
        self._list = [name for name in by_depth if len(self._ways[name]) <= len(self._ways[last])]
        """Everybody who may be on the root's list; among equally distant ones it is anyone's guess."""

    def neighbours(self, name: str) -> list[str]:
        return [other for other in self.names if self.parents[other] == name or other == self.parents[name]]

    def path(self, one: str, other: str) -> list[str]:
        """From one to the other, both included."""
        up, down = self._ways[one], self._ways[other]
        meeting = next(name for name in up if name in down)
        return up[: up.index(meeting) + 1] + down[: down.index(meeting)][::-1]

    def bears(self, victims: Collection[str]) -> bool:
        """May all these be down at once, and say nothing?"""
        falling = sum(name in victims for name in self._list)
        left = not self.survival.majority or majority_left(len(self.names), falling, self.faults)
        return left and self.bears_crashes(victims)

    def bears_crashes(self, victims: Collection[str]) -> bool:
        """May the processes of all these crash at once?"""
        if victims and len(self.names) < self.survival.least:
            return False
        if self.survival.each_site:
            return max(Counter(self._site_of[name] for name in victims).values(), default=0) <= self.faults
        span = self.survival.span
        if span is None:
            return len(victims) <= self.faults
        paths = (self.path(one, other) for one, other in combinations(victims, 2))
        return all(sum(name in victims for name in path) <= self.faults for path in paths if len(path) <= span)

    def draw_victims(self, rng: Random) -> list[str]:
        """Some that may fall at once, the first of them the root more often than by chance; the others near or far."""
        victims = [self.root if rng.random() < 0.25 else rng.choice(self.names)]
        for _ in range(rng.choice((0, self.faults - 1, self.faults, ATTEMPTS))):
            near = self.neighbours(rng.choice(victims)) if rng.random() < 0.6 else []
            name = rng.choice(near or self.names)
            if name not in victims and self.bears([*victims, name]):
                victims.append(name)
        return victims if self.bears(victims) else []

    def draw_again(self, rng: Random, living: Sequence[str]) -> list[str]:
        """Some that may fall when the repair of those before is complete, by sites: the dead count as long as they are
        dead."""
        dead = [name for name in self.names if name not in living]
        victims: list[str] = []
        for name in rng.sample(living, min(len(living), ATTEMPTS)):
            if self.bears_crashes([*dead, *victims, name]):
                victims.append(name)
        return victims[: rng.randint(1, ATTEMPTS)]

    def draw_crashes(self, rng: Random, living: Sequence[str]) -> list[str]:
        """Up to f whose processes may crash at once; the majority of the root's list may be among them."""
        victims: list[str] = []
        if len(living) < self.survival.least:
            return victims
        for name in rng.sample(living, min(len(living) - 1, self.faults)):
            if self.bears_crashes([*victims, name]):
                victims.append(name)
        return victims

    def draw_piece(self, rng: Random) -> list[str]:
        """More than f brokers that hang together: nobody can take them for crashed."""
        piece = [rng.choice(self.names)]
        size = rng.randint(self.faults + 1, len(self.names) - 1)
        while len(piece) < size:
            around = [name for inside in piece for name in self.neighbours(inside) if name not in piece]
            piece.append(rng.choice(around))
        return piece


def majority_left(living: int, falling: int, faults: int) -> bool:
    """Of a list of the root that is as long as it can be, when these fall."""
    voters = min(living, 2 * faults + 1)
    return falling <= voters - (voters // 2 + 1)


def _ways_up(name: str, parents: Mapping[str, str | None]) -> list[str]:
    way = [name]
    while (parent := parents[way[-1]]) is not None:
        way.append(parent)
    return way
