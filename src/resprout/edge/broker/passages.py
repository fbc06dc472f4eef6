"""The latest publications that came by a broker: whence, and to whom they went. A bounded memory, for who asks."""

from collections import OrderedDict
from typing import Final

from resprout.core.bundle import Bundle, Origin

KEPT: Final = 4_096
"""Bundles that are remembered; at full rate that is a second, otherwise minutes or hours."""
NAMED_MAX: Final = 64
"""Readers, and neighbours, of one bundle that are remembered by name; the others are counted."""


class Passage:
    """One bundle at one broker; times are those of the broker's clock, 0 for what has not happened."""

    __slots__ = (
        "count", "delivered_us", "first", "from_peer", "given", "guarantee", "is_own", "origin", "passed", "passed_to",
        "passed_us", "readers", "safe_us", "seen_us", "shown_us", "topic",
    )  # fmt: skip

    def __init__(self, bundle: Bundle, from_peer: str, is_own: bool, now_us: int) -> None:
        self.origin = bundle.origin
        self.first = bundle.first
        self.count = bundle.count
        self.topic = bundle.topic
        self.guarantee = bundle.guarantee
        self.from_peer = from_peer
        self.is_own = is_own
        """A client of this broker has published it here."""
        self.seen_us = now_us
        self.passed_us = 0
        """When it was sent to the first other broker."""
        self.passed = 0
        self.passed_to: list[str] = []
        self.shown_us = 0
        """When the first reader here was given it."""
        self.given = 0
        self.readers: list[str] = []
        self.safe_us = 0
        self.delivered_us = 0

    def pass_to(self, peer: str, now_us: int) -> None:
        self.passed_us = self.passed_us or now_us
        self.passed += 1
        if len(self.passed_to) < NAMED_MAX:
            self.passed_to.append(peer)

    def give_to(self, client: str, now_us: int) -> None:
        self.shown_us = self.shown_us or now_us
        self.given += 1
        if len(self.readers) < NAMED_MAX:
            self.readers.append(client)


class Passages:
    def __init__(self, most: int = KEPT) -> None:
        self._most = most
        self._recent: OrderedDict[tuple[Origin, int], Passage] = OrderedDict()

    def see(self, bundle: Bundle, from_peer: str, is_own: bool, now_us: int) -> Passage:
        """It comes; a second time, perhaps, and then the first one counts."""
        key = (bundle.origin, bundle.first)
        passage = self._recent.get(key)
        if passage is None:
            passage = self._recent[key] = Passage(bundle, from_peer, is_own, now_us)
            if len(self._recent) > self._most:
                self._recent.popitem(last=False)
        return passage

    def of(self, bundle: Bundle) -> Passage | None:
        return self._recent.get((bundle.origin, bundle.first))

    def find(self, origin: Origin, seq: int) -> Passage | None:
        """Of the bundle that holds this publication."""
        for one in self._recent.values():
            if one.origin == origin and one.first <= seq < one.first + one.count:
                return one
        return None
