"""Recent publications of a broker, for brokers that lack them, and those that neighbours have announced.

`RecentBundles` is bounded in bytes and drops the oldest first. `Announced` holds what neighbours have and this broker
lacks. Most of it is on its way; the rest is requested after a while, from one neighbour at a time, and in the next
rounds from the others.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from resprout.core.bundle import Bundle, Origin
from resprout.core.seen import Range, Ranges, SeenRanges

ANNOUNCED_MAX: Final = 16_384
"""Ranges of one neighbour. What it announces beyond that is not noted, and will be offered again."""

Wanted = dict[Origin, list[Range]]


class StoredBundle(NamedTuple):
    bundle: Bundle
    hops: int


class RecentBundles:
    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._by_origin: dict[Origin, dict[int, StoredBundle]] = {}
        """Origin -> first number -> it."""
        self._order: deque[Bundle] = deque()
        self.version = 0
        """Grows with everything that is put here."""
        self._told: tuple[int, dict[Origin, list[Range]]] = (0, {})

    def __len__(self) -> int:
        return len(self._order)

    def put(self, bundle: Bundle, hops: int) -> None:
        """It is not here."""
        self.version += 1
        self._by_origin.setdefault(bundle.origin, {})[bundle.first] = StoredBundle(bundle, hops)
        self._order.append(bundle)
        self._bytes += bundle.cost
        while self._bytes > self._bytes_max:
            oldest = self._order.popleft()
            self._bytes -= oldest.cost
            of_origin = self._by_origin[oldest.origin]
            del of_origin[oldest.first]
            if not of_origin:
                del self._by_origin[oldest.origin]

    def offers(self) -> dict[Origin, list[Range]]:
        """All of it, by number."""
        version, offers = self._told
        if version != self.version:
            offers = {
                origin: joined((one.bundle.first, one.bundle.last) for one in bundles.values())
                for origin, bundles in self._by_origin.items()
            }
            self._told = (self.version, offers)
        return offers

    def find(self, origin: Origin, ranges: Iterable[Range]) -> Iterator[StoredBundle]:
        """Those of which anything is wanted, in order."""
        bundles = self._by_origin.get(origin)
        if bundles is None:
            return
        wanted = list(ranges)
        place = 0
        for first in sorted(bundles):
            while place < len(wanted) and wanted[place][1] < first:
                place += 1
            if place == len(wanted):
                return
            if wanted[place][0] <= bundles[first].bundle.last:
                yield bundles[first]


def joined(ranges: Iterable[Range]) -> list[Range]:
    """In order, neighbours joined; they do not overlap."""
    found: list[Range] = []
    for first, last in sorted(ranges):
        if found and found[-1][1] == first - 1:
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return found


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
