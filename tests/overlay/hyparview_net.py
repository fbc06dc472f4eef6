"""Members of HyParView in a light world, and what they say of themselves."""

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

from resprout.core.contract import Outcome, Timer
from resprout_lab.blocks.mesh import OverlayMember
from resprout_lab.gossip.hyparview import (
    AskedTooLong,
    HyParView,
    NeighbourDown,
    NeighbourUp,
    ShuffleDue,
)  # fmt: skip
from resprout_lab.gossip.options import ViewOptions
from tests.overlay.light_world import LightMember, LightWorld


class Gossiper(LightMember["Members"]):
    def __init__(self, net: "Members", name: str, contacts: Iterable[str]) -> None:
        super().__init__(net, name)
        rng = random.Random(f"{net.seed}/{name}")
        self.overlay = HyParView(OverlayMember(name), list(contacts), net.options, rng, self)
        self.linked: dict[str, None] = {}
        """Neighbours, as they were told to the owner."""

    def tell(self, outcome: Outcome) -> None:
        if isinstance(outcome, NeighbourUp):
            assert outcome.name not in self.linked
            self.linked[outcome.name] = None
        elif isinstance(outcome, NeighbourDown):
            del self.linked[outcome.name]

    def hear(self, name: str, message: Any) -> None:
        self.overlay.hear(name, message)

    def gone(self, name: str) -> None:
        self.overlay.unreachable(name, lives=False)

    def fire(self, timer: Timer) -> None:
        if isinstance(timer, AskedTooLong):
            self.overlay.asked_too_long(timer)
        elif isinstance(timer, ShuffleDue) and not self.net.resting:
            self.overlay.shuffle_due(timer)

    def near(self) -> Iterable[str]:
        return self.linked


class Members(LightWorld[Gossiper]):
    def __init__(self, seed: int, options: ViewOptions | None = None) -> None:
        super().__init__(seed)
        self.options = options or ViewOptions()
        self.resting = False
        """Nobody shuffles any more."""

    def join(self, name: str, *contacts: str) -> None:
        member = self.living[name] = Gossiper(self, name, contacts)
        member.overlay.begin()

    def grow(self, members: int, every_us: int = 20_000) -> None:
        """One after the other, each by anybody who was there before it, or else by the first."""
        for no in range(members):
            contacts = [self.rng.choice(list(self.living)), "m0"] if no else []
            self.join(f"m{no}", *contacts)
            self.pass_time(every_us)

    def rest(self) -> None:
        """Until nothing is on its way."""
        self.resting = True
        self.pass_time(20_000_000)

    # -- what they say of themselves -----------------------------------------------------------------------------------

    def degrees(self) -> Counter[int]:
        """How many have so many neighbours."""
        return Counter(len(member.overlay.neighbours) for member in self.living.values())

    def one_sided(self) -> list[tuple[str, str]]:
        """(a member, one that it has for a neighbour and that does not have it)."""
        return [
            (name, other)
            for name, member in self.living.items()
            for other in member.overlay.neighbours
            if other not in self.living or name not in self.living[other].overlay.neighbours
        ]

    def components(self) -> list[int]:
        """Sizes of the pieces that hang together by neighbours, the largest first."""
        left = dict.fromkeys(self.living)
        sizes = []
        while left:
            piece = [left.popitem()[0]]
            for name in piece:
                for other in self.living[name].overlay.neighbours:
                    if other in left:
                        del left[other]
                        piece.append(other)
            sizes.append(len(piece))
        return sorted(sizes, reverse=True)
