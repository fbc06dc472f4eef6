"""How far it is from one node to another: along the tree that the scenario describes."""

from resprout.core.errors import UsageError


class Distances:
    """One-way latencies. Every node but a root hangs on another one; any other pair talks along the tree."""

    def __init__(self, between_roots_us: int = 1_000) -> None:
        self._between_roots_us = between_roots_us
        self._up: dict[str, tuple[str | None, int]] = {}
        self._known: dict[tuple[str, str], int] = {}

    def place(self, name: str, toward: str | None, latency_us: int = 0) -> None:
        """Hang a node on another, which may be placed later; None makes it a root. Placing it again moves it."""
        if latency_us < 0:
            raise UsageError(f"the latency of {name} is negative")
        self._up[name] = (toward, latency_us)
        self._known.clear()

    def __contains__(self, name: str) -> bool:
        return name in self._up

    @property
    def reach_us(self) -> int:
        """No two nodes are further apart than this."""
        deepest_us = max((max(self._way_up(name).values()) for name in self._up), default=0)
        return 2 * deepest_us + self._between_roots_us

    def between(self, one: str, other: str) -> int:
        """Microseconds one way; the same in both directions."""
        pair = (one, other)
        latency_us = self._known.get(pair)
        if latency_us is None:
            latency_us = self._known[pair] = self._known[other, one] = self._measure(one, other)
        return latency_us

    def _measure(self, one: str, other: str) -> int:
        ours = self._way_up(one)
        theirs = self._way_up(other)
        for place, far_us in theirs.items():
            if place in ours:
                return ours[place] + far_us
        return max(ours.values()) + max(theirs.values()) + self._between_roots_us

    def _way_up(self, name: str) -> dict[str, int]:
        """The node and everything above it, with the distance to each."""
        way: dict[str, int] = {}
        at: str | None = name
        far_us = 0
        while at is not None and at not in way:
            way[at] = far_us
            at, latency_us = self._up.get(at, (None, 0))
            far_us += latency_us
        return way
