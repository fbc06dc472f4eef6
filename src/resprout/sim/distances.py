"""How far it is from one node to another: along the tree that the scenario describes, or where there is none, from one
node to the middle of the network and from there to the other."""

from typing import Final

from resprout.core.errors import UsageError

SPARE_US: Final = 1_000
"""What those who wait for the furthest node of a tree add: an answer needs a moment, too."""


class Distances:
    """One-way latencies. Every node but a root hangs on another one; any other pair talks along the tree. From one root
    to another it is as far as both are from the middle."""

    def __init__(self) -> None:
        self._up: dict[str, tuple[str | None, int]] = {}
        self._known: dict[tuple[str, str], int] = {}

    def place(self, name: str, toward: str | None, latency_us: int = 0) -> None:
        """Hang a node on another, which may be placed later; None makes it a root, so far from the middle. Placing it
        again moves it."""
        if latency_us < 0:
            raise UsageError(f"the latency of {name} is negative")
        self._up[name] = (toward, latency_us)
        self._known.clear()

    def __contains__(self, name: str) -> bool:
        return name in self._up

    @property
    def reach_us(self) -> int:
        """No two nodes are further apart than this."""
        roots = sum(toward is None for toward, _ in self._up.values())
        ways = [self._way_up(name) for name in self._up]
        if roots > 1:
            return 2 * max(middle_us for _, middle_us in ways)
        return 2 * max((max(way.values()) for way, _ in ways), default=0) + SPARE_US

    def between(self, one: str, other: str) -> int:
        """Microseconds one way; the same in both directions."""
        pair = (one, other)
        latency_us = self._known.get(pair)
        if latency_us is None:
            latency_us = self._known[pair] = self._known[other, one] = self._measure(one, other)
        return latency_us

    def _measure(self, one: str, other: str) -> int:
        ours, our_middle_us = self._way_up(one)
        theirs, their_middle_us = self._way_up(other)
        for place, far_us in theirs.items():
            if place in ours:
                return ours[place] + far_us
        return our_middle_us + their_middle_us

    def _way_up(self, name: str) -> tuple[dict[str, int], int]:
        """The node and everything above it, with the distance to each, and that to the middle."""
        way: dict[str, int] = {}
        at: str | None = name
        far_us = 0
        while at is not None and at not in way:
            way[at] = far_us
            at, latency_us = self._up.get(at, (None, 0))
            far_us += latency_us
        return way, far_us
