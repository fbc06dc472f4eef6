"""What neighbours have and this broker lacks: most of it is on its way, and the rest is asked for after a while.

Of several that have the same, one is asked at a time: the others in the next rounds, if it still has not come.
"""

from typing import Final

from resprout.core.bundle import Origin
from resprout.core.seen import Range, Ranges, SeenRanges

ANNOUNCED_MAX: Final = 16_384
"""Ranges of one neighbour. What it announces beyond that is not noted, and will be offered again."""

Wanted = dict[Origin, list[Range]]


class Announced:
    def __init__(self, seen: SeenRanges) -> None:
        self._seen = seen
        self._by_peer: dict[str, Wanted] = {}
        self._counts: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._by_peer)

    def note(self, peer: str, origin: Origin, ranges: tuple[Range, ...]) -> None:
        """The neighbour has these; what was seen here is not noted."""
        missing = [part for first, last in ranges for part in self._seen.missing(origin, first, last)]
        count = self._counts.get(peer, 0)
        if missing and count + len(missing) <= ANNOUNCED_MAX:
            self._counts[peer] = count + len(missing)
            self._by_peer.setdefault(peer, {}).setdefault(origin, []).extend(missing)

    def forget(self, peer: str) -> None:
        self._by_peer.pop(peer, None)
        self._counts.pop(peer, None)

    def take(self) -> dict[str, Wanted]:
        """Whom to ask for what now, each for what nobody else is asked for."""
        asked: dict[Origin, Ranges] = {}
        wanted: dict[str, Wanted] = {}
        announced, self._by_peer, self._counts = self._by_peer, {}, {}
        for peer, by_origin in announced.items():
            for origin, ranges in by_origin.items():
                taken = asked.setdefault(origin, Ranges())
                for first, last in sorted(ranges):
                    for part in self._seen.missing(origin, first, last):
                        new = taken.add(*part)
                        if new:
                            wanted.setdefault(peer, {}).setdefault(origin, []).extend(new)
                        if new != [part]:
                            self.note(peer, origin, (part,))
        return wanted
