"""What a broker heard of late, for those that have not. Bounded in bytes; the oldest goes first."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from resprout.core.bundle import Bundle, Origin
from resprout.core.seen import Range


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
