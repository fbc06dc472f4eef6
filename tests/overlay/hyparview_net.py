"""Members of HyParView in a light world: messages in order between any two, deaths that neighbours notice, no sessions,
no clients."""

import heapq
import random
from collections import Counter
from collections.abc import Iterable
from itertools import count
from typing import Any

from resprout.core.contract import Outcome, ProtocolMessage, Timer
from resprout.overlay.hyparview.membership import (
    AskedTooLong,
    HyParView,
    NeighbourDown,
    NeighbourUp,
    ShuffleDue,
)  # fmt: skip
from resprout.overlay.hyparview.options import ViewOptions
from resprout.overlay.wires import OverlayMember

LATENCY_US = (1_000, 20_000)
"""Least and most, of a pair."""
NOTICED_US = 50_000
"""After so long it is known of a member that it cannot be reached."""


class OneMember:
    """A member, and what it says and wants (`Wires`)."""

    def __init__(self, net: "Members", name: str, contacts: Iterable[str]) -> None:
        self.net = net
        self.name = name
        rng = random.Random(f"{net.seed}/{name}")
        self.overlay = HyParView(OverlayMember(name), list(contacts), net.options, rng, self)
        self.timers: dict[Timer, int] = {}
        self.linked: dict[str, None] = {}
        """Neighbours, as they were told to the owner."""

    def say(self, member: OverlayMember, message: ProtocolMessage) -> None:
        assert member.name != self.name
        self.net.said[type(message).__name__] += 1
        self.net.later(self.net.latency_us(self.name, member.name), ("hear", member.name, self.name, message))

    def wake(self, timer: Timer, after_us: int) -> None:
        self.timers[timer] = self.net.now_us + after_us
        self.net.later(after_us, ("wake", self.name, timer, self.timers[timer]))

    def let_sleep(self, timer: Timer) -> None:
        self.timers.pop(timer, None)

    def tell(self, outcome: Outcome) -> None:
        if isinstance(outcome, NeighbourUp):
            assert outcome.name not in self.linked
            self.linked[outcome.name] = None
        elif isinstance(outcome, NeighbourDown):
            del self.linked[outcome.name]


class Members:
    def __init__(self, seed: int, options: ViewOptions | None = None) -> None:
        self.seed = seed
        self.options = options or ViewOptions()
        self.rng = random.Random(seed)
        self.now_us = 0
        self.living: dict[str, OneMember] = {}
        self.said: Counter[str] = Counter()
        self.cut: frozenset[str] = frozenset()
        """These, and all others, do not reach each other."""
        self.resting = False
        """Nobody shuffles any more."""
        self._calendar: list[tuple[int, int, Any]] = []
        self._numbers = count()
        self._ways: dict[tuple[str, str], int] = {}

    def later(self, after_us: int, what: Any) -> None:
        heapq.heappush(self._calendar, (self.now_us + after_us, next(self._numbers), what))

    def latency_us(self, one: str, other: str) -> int:
        """From one to the other, always the same: so what one says comes in order."""
        if (one, other) not in self._ways:
            self._ways[one, other] = self.rng.randint(*LATENCY_US)
        return self._ways[one, other]

    def join(self, name: str, *contacts: str) -> OneMember:
        member = self.living[name] = OneMember(self, name, contacts)
        member.overlay.begin()
        return member

    def grow(self, members: int, every_us: int = 20_000) -> None:
        """One after the other, each by anybody who was there before it, or else by the first."""
        for no in range(members):
            contacts = [self.rng.choice(list(self.living)), "m0"] if no else []
            self.join(f"m{no}", *contacts)
            self.pass_time(every_us)

    def kill(self, names: Iterable[str]) -> None:
        """All at once; whoever has one of them for a neighbour notices after a while."""
        dead = dict.fromkeys(names)
        for name in dead:
            del self.living[name]
        for name, member in self.living.items():
            for other in member.linked:
                if other in dead:
                    self.later(NOTICED_US, ("gone", name, other, False))

    def part(self, names: Iterable[str]) -> None:
        """The network is in two."""
        self.cut = frozenset(names)
        for name, member in self.living.items():
            for other in member.linked:
                if not self._reach(name, other):
                    self.later(NOTICED_US, ("gone", name, other, False))

    def pass_time(self, us: int) -> None:
        end_us = self.now_us + us
        while self._calendar and self._calendar[0][0] <= end_us:
            self.now_us, _, what = heapq.heappop(self._calendar)
            self._happen(*what)
        self.now_us = end_us

    def rest(self) -> None:
        """Until nothing is on its way."""
        self.resting = True
        self.pass_time(20_000_000)

    def _reach(self, one: str, other: str) -> bool:
        return (one in self.cut) == (other in self.cut)

    def _happen(self, kind: str, name: str, first: Any, second: Any) -> None:
        member = self.living.get(name)
        match kind:
            case "hear" if member is None or not self._reach(name, first):
                self.later(NOTICED_US, ("gone", first, name, False))
            case "hear" if member is not None and first in self.living:
                member.overlay.hear(first, second)
            case "gone" if member is not None:
                member.overlay.gone(first, lives=second)
            case "wake" if member is not None and member.timers.get(first) == second:
                del member.timers[first]
                if isinstance(first, ShuffleDue):
                    if not self.resting:
                        member.overlay.shuffle_due(first)
                elif isinstance(first, AskedTooLong):
                    member.overlay.asked_too_long(first)

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
