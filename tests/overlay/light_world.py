"""A light world for overlays without a tree: messages in order between any two, deaths that are noticed after a while,
timers; no sessions, no clients."""

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from resprout.core.contract import Outcome, ProtocolMessage, Timer
from resprout_lab.blocks.mesh import OverlayMember
from tests.network import Time

LATENCY_US = (1_000, 20_000)
"""Least and most, of a pair."""
NOTICED_US = 50_000
"""After so long it is known of a member that it cannot be reached."""

M = TypeVar("M", bound="LightMember[Any]")
W = TypeVar("W", bound="LightWorld[Any]")


class LightMember(Generic[W]):
    """What a member says and wants (`Wires`), and what it is told."""

    def __init__(self, net: W, name: str) -> None:
        self.net = net
        self.name = name
        self.timers: dict[Timer, int] = {}

    # -- what it wants -------------------------------------------------------------------------------------------------

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
        """It found something out."""

    # -- what it is told -----------------------------------------------------------------------------------------------

    def hear(self, name: str, message: Any) -> None:
        raise NotImplementedError

    def gone(self, name: str) -> None:
        raise NotImplementedError

    def fire(self, timer: Timer) -> None:
        raise NotImplementedError

    def near(self) -> Iterable[str]:
        """Of whom it notices when they die."""
        raise NotImplementedError


class LightWorld(Time, Generic[M]):
    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed
        self.rng = random.Random(seed)
        self.living: dict[str, M] = {}
        self.said: Counter[str] = Counter()
        self.cut: frozenset[str] = frozenset()
        """These, and all others, do not reach each other."""
        self._ways: dict[tuple[str, str], int] = {}

    def later(self, after_us: int, what: Any) -> None:
        self.after(after_us, lambda: self._happen(*what))

    def latency_us(self, one: str, other: str) -> int:
        """From one to the other, always the same: so what one says comes in order."""
        if (one, other) not in self._ways:
            self._ways[one, other] = self.rng.randint(*LATENCY_US)
        return self._ways[one, other]

    def kill(self, names: Iterable[str]) -> None:
        """All at once."""
        for name in list(names):
            del self.living[name]
        self._notice()

    def part(self, names: Iterable[str]) -> None:
        """The network is in two."""
        self.cut = frozenset(names)
        self._notice()

    def pass_time(self, us: int) -> None:
        end_us = self.now_us + us
        while self.pass_on(end_us):
            pass
        self.now_us = end_us

    def _reach(self, one: str, other: str) -> bool:
        return other in self.living and (one in self.cut) == (other in self.cut)

    def _notice(self) -> None:
        for name, member in self.living.items():
            for other in member.near():
                if not self._reach(name, other):
                    self.later(NOTICED_US, ("gone", name, other, None))

    def _happen(self, kind: str, name: str, first: Any, second: Any) -> None:
        member = self.living.get(name)
        match kind:
            case "hear" if member is None or not self._reach(first, name):
                self.later(NOTICED_US, ("gone", first, name, None))
            case "hear" if member is not None and first in self.living:
                member.hear(first, second)
            case "gone" if member is not None:
                member.gone(first)
            case "wake" if member is not None and member.timers.get(first) == second:
                del member.timers[first]
                member.fire(first)
