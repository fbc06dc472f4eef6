"""The values that the checks work on: publications, deliveries and subscribers.

*Row numbers* are places in the trace; rows are ordered by time, equal times as in the trace.
"""

from functools import lru_cache

import msgspec

from resprout.audit.naming import MessageId, life_name
from resprout.audit.subscriptions import NEVER, SubscriptionRecord
from resprout.core.guarantee import Guarantee
from resprout.core.keys import Pair, pairs_of, topics_of

__all__ = [
    "NEVER", "ClaimedPlace", "ClientLife", "DeliveryRecord", "PublicationFacts", "PublicationRecord", "lines_of",
    "names_of",
]  # fmt: skip


class PublicationFacts(msgspec.Struct, array_like=True, gc=False):
    """What is known of a publication when it is made."""

    number: int
    """Its place among all publications, in order of rows."""
    row: int
    time_us: int
    id: MessageId
    topic: str
    keys: tuple[str, ...]
    lane: str
    """What it is in order with has the same; see `core.promises`."""
    topics: tuple[str, ...]
    """Every topic it names; it matches a filter when any of them does."""
    lines: tuple[Pair, ...]
    """What binds it to totals; see `lines_of`."""
    guarantee: Guarantee
    ordered: bool
    """Not `eventual`, which has no order with anything."""
    attributes: dict[str, str] | None
    life: int
    """Number of the life that published it."""
    previous: int
    """The ordered publication of its lane that its client made before it; -1 when it is the first. The first one of a
    later life follows the last one of the earlier lives: what those had been given is forgotten."""


class PublicationRecord(PublicationFacts):
    pairs: tuple[Pair, ...]
    """Topics and keys that it names."""
    heard: int
    """How many sound deliveries its client's life had been given before it."""


@lru_cache(maxsize=1 << 16)
def names_of(topic: str, keys: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[Pair, ...]]:
    """The topics that a publication names, and its pairs of topic and key, each once: `k` and `topic#k` may be one."""
    return topics_of(topic, keys), pairs_of(topic, keys)


def lines_of(topic: str, pairs: tuple[Pair, ...], guarantee: Guarantee, lane: str) -> tuple[Pair, ...]:
    """What binds a publication to totals: its pairs, or only those of its topic where order holds within each; for a
    total without keys, its topic with an empty key, which nothing else names."""
    if not pairs:
        return ((topic, ""),) if guarantee is Guarantee.TOTAL else ()
    return tuple(pair for pair in pairs if pair[0] == topic) if lane else pairs


class DeliveryRecord(msgspec.Struct, frozen=True, gc=False):
    row: int
    time_us: int
    position: int
    id: MessageId
    tseq: int | None
    """The place that the subscriber was told, of a total."""


class ClaimedPlace(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A place in the order of totals, and the subscriber that was told it."""

    tseq: int
    name: str
    node: str
    time_us: int


class ClientLife:
    """One subscriber: a client from its start or recovery to its crash or the end of the trace."""

    def __init__(self, number: int, node: str, ordinal: int) -> None:
        self.number = number
        self.node = node
        self.name = life_name(node, ordinal)
        self.end_row = NEVER
        self.frozen_since: int | None = None
        self.freezes: list[tuple[int, int]] = []
        self.expected = 0
        """The next position."""
        self.deliveries: list[DeliveryRecord] = []
        """All of them, in row order."""
        self.heard: list[int] = []
        """Publications of the first sound deliveries, in row order."""
        self.first: dict[int, DeliveryRecord] = {}
        """The first sound delivery of each publication."""
        self.sequence: list[int] = []
        """`heard`, by position."""
        self.early: dict[int, int] = {}
        """Publications with a delivery that stands before them, and the position of the first one."""
        self.drops = False
        """It asks to have the oldest dropped."""
        self.dropped: set[int] = set()
        """Publications that it was told to be dropped."""
        self.subscriptions: list[SubscriptionRecord] = []
        self.losses: dict[int, int] = {}
        """Rows at which it was told that deliveries may be missing, and when that was."""

    @property
    def correct(self) -> bool:
        return self.end_row == NEVER and self.frozen_since is None

    def has(self, number: int) -> bool:
        """Whether there is any delivery of the publication, sound or not."""
        return number in self.first or number in self.early

    def place_of(self, number: int) -> int | None:
        """Where it delivered the publication first, in order of rows."""
        if (early := self.early.get(number)) is not None:
            return early
        return d.position if (d := self.first.get(number)) is not None else None

    def frozen_between(self, begin: int, end: int) -> bool:
        return any(since < end and until > begin for since, until in self.freezes)
