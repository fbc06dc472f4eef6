"""The latest publications that came by a broker: whence, and to whom they went. A bounded memory, for who asks.

What happens is only written down, a line each; what belongs together is found when somebody asks. Lines hold names and
numbers, so that nothing that was published is kept by them.
"""

from collections import deque
from typing import Final

from resprout.core.bundle import Bundle, Origin
from resprout.core.guarantee import Guarantee, ReceiptLevel

KEPT: Final = 4_096
"""Lines of each kind; at full rate that is a second, otherwise minutes or hours."""
NAMED_MAX: Final = 64
"""Readers, and neighbours, of one bundle that are remembered by name; the others are counted."""

Came = tuple[Origin, int, int, str, Guarantee, str, bool, int]
"""Origin, first number, how many; topic and guarantee; from whom, whether that is its publisher, and when."""
Receipt = tuple[str, str, ReceiptLevel, int, int, int]
"""Client, stream, level; the numbers of a bundle; when it was told. Only of bundles that are timed."""


class SentCopies:
    """A bundle on its way out, to several in one go."""

    __slots__ = ("count", "first", "names", "now_us", "origin", "to_client")

    def __init__(self, bundle: Bundle, name: str, to_client: bool, now_us: int) -> None:
        self.origin = bundle.origin
        self.first = bundle.first
        self.names = [name]
        self.count = 1
        self.to_client = to_client
        self.now_us = now_us

    def add(self, name: str) -> None:
        self.count += 1
        if self.count <= NAMED_MAX:
            self.names.append(name)


class Passage:
    """One bundle at one broker; times are those of the broker's clock, 0 for what has not happened."""

    def __init__(self, came: Came) -> None:
        self.origin, self.first, self.count, self.topic, self.guarantee, self.from_peer, self.is_own, self.seen_us = (
            came
        )
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

    def add(self, left: SentCopies) -> None:
        if left.to_client:
            self.shown_us = self.shown_us or left.now_us
            self.given += left.count
            self.readers = [*self.readers, *left.names][:NAMED_MAX]
        else:
            self.passed_us = self.passed_us or left.now_us
            self.passed += left.count
            self.passed_to = [*self.passed_to, *left.names][:NAMED_MAX]


class Passages:
    def __init__(self, most: int = KEPT) -> None:
        self.came: deque[Came] = deque(maxlen=most)
        self.left: deque[SentCopies] = deque(maxlen=most)
        self.told: deque[Receipt] = deque(maxlen=most)

    def find(self, origin: Origin, seq: int) -> Passage | None:
        """Of the bundle that holds this publication: how it came first, and all that became of it."""
        came = next((one for one in self.came if one[0] == origin and one[1] <= seq < one[1] + one[2]), None)
        if came is None:
            return None
        passage = Passage(came)
        for left in self.left:
            if left.first == passage.first and left.origin == origin:
                passage.add(left)
        if passage.is_own:
            publisher, stream, _ = origin
            for client, told_stream, level, first, last, now_us in self.told:
                if client == publisher and told_stream == stream and first <= seq <= last and now_us >= passage.seen_us:
                    passage.safe_us = passage.safe_us or now_us
                    if level is ReceiptLevel.DELIVERED:
                        passage.delivered_us = passage.delivered_us or now_us
        return passage
