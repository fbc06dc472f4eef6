"""Where publications get their places: the next number of each publisher is expected, and what comes early waits.

A leader that dies may leave the second of two publications decided and the first one not; its broker proposes the first
one again, and it would stand behind (correction A4). So the site that orders them takes none before its predecessor.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from resprout.core.bundle import Bundle, Origin

ORIGINS_KEPT: Final = 100_000
"""Origins that are remembered, those that were met last. All brokers of a site forget the same one at the same slot."""
EARLY_MAX: Final = 4_096
"""Bundles of one origin that may wait for those before them. A client has fewer that are not known to be safe; more can
only come from a site that makes them up, and are dropped."""


class Early(msgspec.Struct, frozen=True, array_like=True):
    bundle: Bundle
    hops: int
    source: str


class SiteIntake:
    def __init__(self) -> None:
        self.reached: dict[Origin, int] = {}
        """The last number of each origin that was taken, the latest origin last."""
        self.early: dict[Origin, dict[int, Early]] = {}
        """By first number."""

    def has(self, bundle: Bundle) -> bool:
        """It was taken, in its turn."""
        return bundle.last <= self.reached.get(bundle.origin, 0)

    def is_repeat(self, bundle: Bundle) -> bool:
        return bundle.first <= self.reached.get(bundle.origin, 0)

    def begin(self, bundle: Bundle, marks: Mapping[Origin, int]) -> None:
        """Nothing before it is to come here: it was published at another site. `marks`: what has come from there."""
        if bundle.origin not in self.reached:
            raise_mark(self.reached, bundle.origin, max(bundle.first - 1, marks.get(bundle.origin, 0)))

    def take(self, bundle: Bundle, hops: int, source: str) -> Iterator[Early]:
        """Whatever has its turn now: nothing for a repeat, or while something before it is missing."""
        origin = bundle.origin
        if self.is_repeat(bundle):
            return
        waiting = self.early.setdefault(origin, {})
        if len(waiting) < EARLY_MAX:
            waiting.setdefault(bundle.first, Early(bundle, hops, source))
        while (first := self.following(origin, waiting)) is not None:
            early = waiting.pop(first)
            raise_mark(self.reached, origin, early.bundle.last)
            yield early
        if not waiting:
            del self.early[origin]

    def following(self, origin: Origin, waiting: dict[int, Early]) -> int | None:
        """The first number of the one that has its turn."""
        following = self.reached.get(origin, 0) + 1
        return following if following in waiting else None


def raise_mark(marks: dict[Origin, int], origin: Origin, last: int) -> None:
    """The latest origin stands last, and the one that was not met for longest is forgotten where there are too many."""
    marks[origin] = max(last, marks.pop(origin, 0))
    if len(marks) > ORIGINS_KEPT:
        del marks[next(iter(marks))]
