"""All that the live judge remembers, as plain values that can be written down and read back.

Publications, lives and totals are known by numbers that are never used again; whoever holds a number finds out by
looking whether the thing is still remembered. A *row* is the place of an observation among those judged so far.
"""

from typing import Final

import msgspec

from resprout.audit.causal import Delivered
from resprout.audit.loss import MissingDelivery
from resprout.audit.presence import Stray
from resprout.audit.records import ClaimedPlace, MessageId, PublicationFacts
from resprout.audit.totals import PlacedTotal
from resprout.core.bundle import Pair
from resprout.core.guarantee import Promises
from resprout.trace.schema import Row

VERSION: Final = 4
"""Of the written form; another one is refused, not guessed at."""

TICK_US_MAX: Final = 500_000

Place = tuple[int, int, int]
"""Of a delivery at a subscriber: (position, row, time in microseconds)."""

Stream = tuple[str, int, str]
"""(publisher, incarnation, stream)."""


class LiveOptions(msgspec.Struct, frozen=True, array_like=True):
    """How long the live judge waits, and how far back it remembers; all in time of the run."""

    lateness_us: int = 2_000_000
    """Rows are judged in the order of their times, as long as none is later than the newest by more than this."""
    grace_us: int = 1_000_000
    """So long after it was overtaken, something owed that has not come counts as lost; and so long a delivery waits for
    its publication to turn up."""
    linger_us: int = 5_000_000
    """What all its subscribers have is remembered for so long."""
    horizon_us: int = 60_000_000
    """What is older is forgotten, but for what is still owed."""

    @property
    def tick_us(self) -> int:
        """How often the judge looks back for what is missing and what can be forgotten."""
        return max(1, min(TICK_US_MAX, self.grace_us // 2))


class Overtaker(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A delivery that should have come after one that is still missing."""

    number: int
    id: MessageId
    position: int
    row: int
    time_us: int
    causal: bool
    """It depends on the missing one, and promises to keep that order."""


class Sides(msgspec.Struct, array_like=True, gc=False):
    """Of a publication and one of its keys: the totals next to it, and a subscriber that has them so."""

    before: dict[int, int] = {}
    after: dict[int, int] = {}
    told: bool = False


class KeptPublication(PublicationFacts, msgspec.Struct, array_like=True, gc=False):
    source: int
    """Of that life and its lane."""
    index: int
    """Its place among the ordered publications of that source, from 1; 0 for one that is not."""
    given: list[int]
    """What its client was given between the two."""
    past: dict[int, int]
    """What it depends on: by source, all up to this index."""
    due: dict[int, int]
    """By life that has not delivered it: the row until which it is due there."""
    waiting: int
    """At how many of those it is due and may still come."""
    had: dict[int, Place] = {}
    early: dict[int, int] = {}
    """Positions of deliveries that stand before it."""
    overtaken: dict[int, list[Overtaker]] = {}
    """By life that has not delivered it: what came instead."""
    flagged: list[int] = []
    """Lives at which it was reported to stand before something it depends on."""
    sides: dict[Pair, Sides] = {}
    complete_us: int = -1
    safe: bool = False
    failed: bool = False
    refused: bool = False
    place: ClaimedPlace | None = None
    misplaced: bool = False
    """It has been said that somebody was told another place."""
    dropped: list[int] = []
    """Lives that were told that it is dropped."""

    def depends_on(self, other: "KeptPublication") -> bool:
        return self.past.get(other.source, 0) >= other.index

    def hear(self, receipt: str) -> None:
        """A receipt, or "refused"."""
        if receipt in ("safe", "delivered"):
            self.safe = True
        elif receipt == "failed":
            self.failed = True
        elif receipt == "refused":
            self.refused = True


class LaneMemory(msgspec.Struct, array_like=True, gc=False):
    """What a life did and was given among publications that are in order with each other. Its number, the *source* of
    what it publishes there, is never used again."""

    source: int
    published: int = 0
    clock: dict[int, int] = {}
    """What its next ordered publication depends on: by source, all up to this index."""
    given: list[int] = []
    """Ordered publications that were delivered here since its latest one."""


class KeptLife(msgspec.Struct, array_like=True, gc=False):
    """A client from its start or recovery to its crash; see `audit.history`."""

    number: int
    node: str
    name: str
    ended_us: int = -1
    frozen: bool = False
    expected: int = 0
    """The next position."""
    lanes: dict[str, LaneMemory] = {}
    missing: dict[int, dict[int, int]] = {}
    """Ordered publications that are due here: by their source, numbers by index."""
    loose: dict[int, None] = {}
    """Eventual publications that are due here."""
    newest: dict[tuple[str, str], Delivered] = {}
    """By publisher and lane: the latest ordered publication that was delivered here, and where."""
    recent: list[int] = []
    """Causal and total publications that were delivered here, in order."""
    overdue: dict[MessageId, MissingDelivery] = {}
    """What is owed here and is forgotten otherwise."""
    passed: dict[Stream, list[int]] = {}
    """What was delivered here and is forgotten otherwise, as intervals of numbers."""
    streams: list[Stream] = []
    """That it published in."""
    losses: dict[int, int] = {}
    """Rows at which it was told that deliveries may be missing, and when that was."""
    drops: bool = False
    """It asks to have the oldest dropped."""

    @property
    def correct(self) -> bool:
        return self.ended_us < 0 and not self.frozen


class KeptTotal(msgspec.Struct, array_like=True, gc=False):
    """A total with keys that somebody has delivered, among the others."""

    rank: int
    """Compatible with all that is known about the order."""
    after: dict[int, dict[Pair, int]] = {}
    """Totals that some subscriber delivered right after it: by pair that both name, who."""
    before: dict[int, None] = {}
    passed: dict[int, None] = {}
    """Publications that are no totals and that some subscriber delivered right after it."""
    knot: int = -1
    """Totals of one knot contradict each other, and it has been said."""


class KeyPlace(msgspec.Struct, array_like=True, gc=False):
    """How far one subscriber is with the publications that name one key."""

    total: int = -1
    """The latest total."""
    since: dict[int, None] = {}
    """What came after it and is no total."""
    highest: PlacedTotal | None = None
    """Of the totals whose place was told here, the highest one."""


class Key(msgspec.Struct, array_like=True, gc=False):
    """What is remembered of one (topic, key) pair."""

    places: dict[int, KeyPlace] = {}
    """By life."""
    contradicted: bool = False
    """Its totals have no common order, so there is nothing to be a barrier in."""


class LastOrdered(msgspec.Struct, array_like=True, gc=False):
    number: int
    life: int
    source: int
    index: int
    past: dict[int, int]


class KeptSubscription(msgspec.Struct, array_like=True, gc=False):
    """As `audit.subscriptions.Subscription`, with texts."""

    life: int
    filter: str
    where: str | None
    asked: int
    confirmed: int
    ending: int
    repeats: int
    confirmed_us: int


class Memory(msgspec.Struct, array_like=True):
    options: LiveOptions
    promise: Promises = Promises()
    """What the run is judged by."""
    held: list[Row] = []
    """Rows that wait for the watermark, in order of arrival."""
    seen_us: int = -1
    """The latest time of any row."""
    watermark_us: int = -1
    """Every row up to here has been judged."""
    look_us: int = 0
    """When to look back for what is missing and what can be forgotten."""
    row: int = 0
    ended: str = ""
    publications: dict[int, KeptPublication] = {}
    """In the order in which they were made."""
    number_of: dict[MessageId, int] = {}
    next_number: int = 0
    published: dict[Stream, list[int]] = {}
    """All numbers of a stream, as intervals."""
    newest: dict[tuple[str, str], MessageId] = {}
    """By publisher and stream: the highest number."""
    incarnations: dict[str, list[int]] = {}
    """By publisher, those it has published under."""
    lives: dict[int, KeptLife] = {}
    current: dict[str, int] = {}
    """By client, its latest life."""
    ordinals: dict[str, int] = {}
    """By client, how many lives it has begun."""
    next_life: int = 0
    last_forgotten: dict[str, int] = {}
    """By client, the latest incarnation that belongs to a life that is forgotten."""
    next_source: int = 0
    last_ordered: dict[str, dict[str, LastOrdered]] = {}
    """By client and lane."""
    subscriptions: list[KeptSubscription] = []
    """Only in the written form; `audit.interest` works on them otherwise."""
    premature: dict[MessageId, list[str]] = {}
    """Receipts and refusals (as "refused") of what has not been published yet."""
    strays: dict[MessageId, list[Stray]] = {}
    gaps: list[tuple[int, int, int]] = []
    """(time, publication, life) where something was overtaken, in order of time."""
    complete: list[int] = []
    """Publications that all their subscribers have, in order of when that was so."""
    totals: dict[int, KeptTotal] = {}
    places: dict[tuple[str, int], int] = {}
    """By lane and place in the order that the run claims, the first total of those that have it."""
    next_rank: int = 0
    keys: dict[Pair, Key] = {}
    counts: dict[str, int] = {}
    found: dict[str, int] = {}
    """Anomalies by rule."""


_decode = msgspec.msgpack.Decoder(tuple[int, Memory]).decode
_encode = msgspec.msgpack.Encoder().encode


def to_bytes(memory: Memory) -> bytes:
    return _encode((VERSION, memory))


def from_bytes(state: bytes) -> Memory:
    """ValueError when it is not the state of a live judge of this version."""
    try:
        version, _ = msgspec.msgpack.decode(state, type=tuple[int, msgspec.Raw])
        if version != VERSION:
            raise ValueError(f"the state of a live judge of version {version}; this program reads version {VERSION}")
        return _decode(state)[1]
    except msgspec.MsgspecError as error:
        raise ValueError(f"no state of a live judge: {error}") from None
