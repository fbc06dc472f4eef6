"""The memory of the live judge as plain values that can be written and read back, and the view that all rules share.

Publications, lives and totals are known by numbers that are never reused; the holder of a number looks up whether the
thing is still remembered. A *row* is the place of an observation among those judged so far.

`LiveView` has the memory, the open subscriptions, the names for verdicts, and the list of violations.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from resprout.audit.causal import Delivered, Way
from resprout.audit.interest import TraceInterest
from resprout.audit.loss import MissingDelivery, is_owed
from resprout.audit.presence import Stray
from resprout.audit.records import NEVER, ClaimedPlace, MessageId, Naming, PublicationFacts
from resprout.audit.totals import PlacedTotal
from resprout.audit.verdict import EXPLAINED_MAX, Anomaly
from resprout.core.bundle import Pair
from resprout.core.guarantee import Promises
from resprout.trace import kinds
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
    """As `audit.records.SubscriptionRecord`, with texts."""

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


class LiveView:
    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.interest = read_back(memory.subscriptions)
        memory.subscriptions = []
        self.found: list[Anomaly] = []
        """Not yet handed out: of each rule no more than a verdict would hold. The rest is counted."""
        self._waiting: dict[str, int] = {}
        """How many of each rule."""
        self._way: tuple[int, int, Way] | None = None
        """From the cause that was asked for last, up to the latest publication that there was then."""
        self.now_us = memory.watermark_us
        """The time of the row that is judged."""
        self.naming = self._names()

    def is_full(self, rule: str) -> bool:
        """Whether so many anomalies of the rule wait to be handed out that the rest is only counted."""
        return self._waiting.get(rule, 0) >= EXPLAINED_MAX

    def count_untold(self, rule: str) -> None:
        self.memory.found[rule] = self.memory.found.get(rule, 0) + 1

    def hand_out(self) -> list[Anomaly]:
        found, self.found = self.found, []
        self._waiting.clear()
        return found

    def between(self, cause: KeptPublication, number: int) -> list[KeptPublication] | None:
        """Return `Way.between`. Consecutive calls with the same cause share one search."""
        publications = self.memory.publications
        if self._way is None or self._way[0] != cause.number or self._way[1] < number:
            later = (p for p in publications.values() if p.number > cause.number and p.depends_on(cause))
            had = {life: row for life, (_, row, _) in cause.had.items()}
            way = Way(cause, had, later, lambda p: (p.previous, *p.given))
            self._way = (cause.number, self.memory.next_number - 1, way)
        steps = self._way[2].between(number)
        if steps is None or not publications.keys() >= set(steps):  # forgotten since it was asked for first
            return None
        return [publications[step] for step in steps]

    def tell(self, anomaly: Anomaly) -> None:
        rule = anomaly.rule
        self.count_untold(rule)
        if not self.is_full(rule):
            self._waiting[rule] = self._waiting.get(rule, 0) + 1
            self.found.append(anomaly)

    def count(self, what: str) -> None:
        self.memory.counts[what] = self.memory.counts.get(what, 0) + 1

    def name(self, id: MessageId) -> str:
        return self.naming.message(id)

    def knows_incarnation(self, publisher: str, incarnation: int) -> None:
        """From its second one on, a publisher's incarnation is part of the names."""
        known = self.memory.incarnations.setdefault(publisher, [])
        if incarnation not in known:
            known.append(incarnation)
            del known[:-2]
            self.naming = self._names()

    def life(self, number: int) -> KeptLife | None:
        return self.memory.lives.get(number)

    def id_of(self, number: int) -> MessageId:
        return self.memory.publications[number].id

    def life_of(self, number: int) -> KeptLife:
        return self.memory.lives[number]

    def place(self, life: int, number: int) -> tuple[int, int]:
        position, _, time_us = self.memory.publications[number].had[life]
        return position, time_us

    def owed(self, p: KeptPublication) -> bool:
        """As `audit.loss` would say if the run ended now."""
        lives, publisher = self.memory.lives, self.memory.lives.get(p.life)
        is_delivered = any((life := lives.get(number)) is not None and life.correct for number in p.had)
        return is_owed(p.refused, p.safe, is_delivered, p.failed, publisher is not None and publisher.correct)

    def _names(self) -> Naming:
        known = self.memory.incarnations.items()
        return Naming((publisher, incarnation, "", 0) for publisher, mine in known for incarnation in mine)


def kept(interest: TraceInterest) -> list[KeptSubscription]:
    """What clients ask for, to be written down."""
    return [
        KeptSubscription(s.life, one.filter, one.where, s.asked, s.confirmed, s.ending, s.repeats, one.confirmed_us)
        for one in interest.open_subscriptions()
        for s in (one.subscription,)
    ]


def read_back(subscriptions: Iterable[KeptSubscription]) -> TraceInterest:
    """Their steps once more: whoever has seen them is in the same state."""
    interest = TraceInterest()
    for one in subscriptions:
        steps = [(kinds.SUBSCRIBE, one.asked), *[(kinds.SUBSCRIBE, one.asked)] * one.repeats]
        steps += [(kinds.SUBSCRIBED, one.confirmed)] if one.confirmed != NEVER else []
        steps += [(kinds.UNSUBSCRIBE, one.ending)] if one.ending != NEVER else []
        for kind, row in steps:
            interest.record(one.life, kind, row, one.confirmed_us, one.filter, one.where)
    return interest
