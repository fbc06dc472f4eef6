"""Counts what passes a broker, whatever its stack: it stands between the links and the stack, and changes nothing.

Only the real driver has a meter, so simulated runs do not depend on it. The meter only remembers a step; `fold` then
looks at several steps together, a few in a row or when somebody asks, which costs half of looking at each one by
itself.

`TrafficTally` has the counts over all lives of the process: plain numbers. Latencies of receipts are measured for one
publication in five milliseconds, the next that comes: which one that is does not depend on how long others take, so
slow ones are not left out.

`Passages` remembers, within a bound, where the latest publications came from and where they went. Each event is only
written down, a line each; what belongs together is found when somebody asks. Lines hold names and numbers, so that they
keep nothing that was published. While publications come faster than anybody could ask for them before they are
forgotten, none are written down.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Sequence
from typing import Any, Final

from resprout.core.bundle import Bundle, Origin
from resprout.core.contract import Effect, Event, LinkDown, Machine, Received, Send
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.edge.messages import Delivery, PlacedDelivery, Publish, PublishRefused, SubscribeRefused, Turned

BOUNDS_US: Final = (
    250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
    10_000_000, 30_000_000,
)  # fmt: skip
"""Upper ends of what is counted together; the last count has no end."""

KEPT: Final = 4_096
"""Lines of each kind; at full rate that is a second, otherwise minutes or hours."""
NAMED_MAX: Final = 64
"""Readers, and neighbours, of one bundle that are remembered by name; the others are counted."""

Came = tuple[Origin, int, int, str, Guarantee, str, bool, int]
"""Origin, first number, how many; topic and guarantee; from whom, whether that is its publisher, and when."""
Receipt = tuple[str, str, ReceiptLevel, int, int, int]
"""Client, stream, level; the numbers of a bundle; when it was told. Only of bundles that are timed."""

TOGETHER: Final = 32
"""Steps that are looked at together. Until then they keep what they carry, so there are not many."""
FAST_US: Final = 250
"""When steps follow each other faster than this, 4,000 in a second, passages are not written down."""
TIMED_US: Final = 5_000
"""Two hundred in a second are enough for a histogram, and at full rate one in some hundred."""
TIMED_MAX: Final = 4_096
"""That wait for their receipts; when there are more, none is timed."""

_ACCEPTED: Final = ReceiptLevel.ACCEPTED
_DELIVERED: Final = ReceiptLevel.DELIVERED
_NOTHING, _PUBLISH, _CARRIES, _DELIVERY, _TURNED, _NO_PUBLISH, _NO_SUBSCRIBE = range(7)


class LatencyCounts:
    """How long something took, how often."""

    __slots__ = ("counts", "sum_us")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_US) + 1)
        self.sum_us = 0

    def add(self, took_us: int) -> None:
        self.counts[bisect_left(BOUNDS_US, took_us)] += 1
        self.sum_us += took_us


class TrafficTally:
    """Publications are counted as messages, not as bundles. `carried` is what other brokers sent, `passed_on` what was
    sent to other brokers, each copy."""

    __slots__ = (
        "carried", "delivered", "delivered_bytes", "passed_on", "published", "published_bytes",
        "refused_publications", "refused_subscriptions", "safe", "safe_latency", "spread", "spread_latency",
    )  # fmt: skip

    def __init__(self) -> None:
        self.published = 0
        self.published_bytes = 0
        self.carried = 0
        self.passed_on = 0
        self.delivered = 0
        """To clients here, each copy."""
        self.delivered_bytes = 0
        self.safe = 0
        self.spread = 0
        """Publications of clients here whose publishers were told `safe`, and `delivered`."""
        self.refused_publications = 0
        self.refused_subscriptions = 0
        self.safe_latency = LatencyCounts()
        self.spread_latency = LatencyCounts()
        """From the moment that a publication came from its publisher to the moment that this one was told so. Of those
        that are timed."""


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


class _Timed:
    __slots__ = ("first", "is_safe", "last", "since_us", "stream")

    def __init__(self, bundle: Bundle, since_us: int) -> None:
        self.stream = bundle.stream
        self.first = bundle.first
        self.last = bundle.last
        self.since_us = since_us
        self.is_safe = False


class Meter:
    """`receipts`: the levels that the stack tells of. `timed_us`: of the publications that come in so long, one is
    timed. `fast_us`: when steps follow each other faster, passages are not written down."""

    def __init__(
        self,
        machine: Machine,
        tally: TrafficTally,
        passages: Passages,
        receipts: Collection[ReceiptLevel],
        timed_us: int = TIMED_US,
        fast_us: int = FAST_US,
    ) -> None:
        self.machine = machine
        self._step = machine.step
        self._tally = tally
        self._steps: list[tuple[Event, Sequence[Effect], int]] = []
        """That were not looked at."""
        self._keeps = True
        """Whether passages are written down."""
        self._came = passages.came
        self._left = passages.left
        self._told = passages.told
        self._kinds: dict[type[Any], int] = {
            Publish: _PUBLISH,
            Delivery: _DELIVERY,
            PlacedDelivery: _DELIVERY,
            Turned: _TURNED,
            PublishRefused: _NO_PUBLISH,
            SubscribeRefused: _NO_SUBSCRIBE,
        }
        self._last_level = max(receipts, default=ReceiptLevel.ACCEPTED)
        self._upto: dict[str, dict[str, list[int]]] = {}
        """By client and stream: up to which number it was told `safe`, and `delivered`, without a gap."""
        self._timed: dict[str, list[_Timed]] = {}
        """By client: publications whose receipts are waited for."""
        self._timed_count = 0
        self._fast_us = fast_us
        self._between_us = timed_us
        self._timed_us = -timed_us

    def latest_life(self, client: str) -> int:
        latest = getattr(self.machine, "latest_life", None)
        return latest(client) if latest is not None else 0

    def knows_broker(self, name: str) -> bool:
        knows = getattr(self.machine, "knows_broker", None)
        return bool(knows(name)) if knows is not None else False

    def start(self, now_us: int) -> Sequence[Effect]:
        effects = self.machine.start(now_us)
        self._look(effects, now_us)
        return effects

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        effects = self._step(event, now_us)
        steps = self._steps
        steps.append((event, effects, now_us))
        if len(steps) >= TOGETHER:
            self.fold()
        return effects

    def fold(self) -> None:
        """Count what has passed. To be called before anybody looks at the tally, or at the passages."""
        steps, self._steps = self._steps, []
        if not steps:
            return
        self._keeps = steps[-1][2] - steps[0][2] >= self._fast_us * (len(steps) - 1)
        for event, effects, now_us in steps:
            if type(event) is Received:
                kind = self._kinds.get(type(event.message), -1)
                if kind:
                    self._heard(event.peer, event.message, kind, now_us)
            elif type(event) is LinkDown:
                self._forget(event.peer)
            if effects:
                self._look(effects, now_us)

    # -- in ------------------------------------------------------------------------------------------------------------

    def _heard(self, peer: str, message: Any, kind: int, now_us: int) -> None:
        if kind < 0:
            kind = self._learn(type(message))
        if kind == _PUBLISH:
            bundle: Bundle = message.bundle
            tally = self._tally
            tally.published += bundle.count
            tally.published_bytes += bundle.cost
            if self._keeps:
                self._came.append(
                    (bundle.origin, bundle.first, bundle.count, bundle.topic, bundle.guarantee, peer, True, now_us)
                )
            streams = self._upto.get(peer)
            if streams is None:
                streams = self._upto[peer] = {}
            if bundle.stream not in streams:  # what came before it was told elsewhere
                streams[bundle.stream] = [bundle.first - 1, bundle.first - 1]
            if now_us - self._timed_us >= self._between_us and self._timed_count < TIMED_MAX:
                self._timed_us = now_us
                self._timed_count += 1
                self._timed.setdefault(peer, []).append(_Timed(bundle, now_us))
        elif kind == _CARRIES:
            bundle = message.bundle
            self._tally.carried += bundle.count
            if self._keeps:
                self._came.append(
                    (bundle.origin, bundle.first, bundle.count, bundle.topic, bundle.guarantee, peer, False, now_us)
                )

    def _learn(self, kind: type[Any]) -> int:
        """Whatever else carries a bundle is said from broker to broker."""
        learnt = self._kinds[kind] = _CARRIES if "bundle" in kind.__struct_fields__ else _NOTHING
        return learnt

    def _forget(self, client: str) -> None:
        self._upto.pop(client, None)
        self._timed_count -= len(self._timed.pop(client, ()))

    # -- out -----------------------------------------------------------------------------------------------------------

    def _look(self, effects: Sequence[Effect], now_us: int) -> None:
        kinds, tally, keeps = self._kinds, self._tally, self._keeps
        left: SentCopies | None = None
        last: Bundle | None = None
        for effect in effects:
            if type(effect) is not Send:
                continue
            message = effect.message
            kind = kinds.get(type(message), -1)
            if kind == _NOTHING:
                continue
            if kind < 0:
                kind = self._learn(type(message))
            if kind == _DELIVERY or kind == _CARRIES:  # noqa: SIM109 (a tuple would be made each time)
                bundle: Bundle = message.bundle
                to_client = kind == _DELIVERY
                if to_client:
                    tally.delivered += bundle.count
                    tally.delivered_bytes += bundle.cost
                else:
                    tally.passed_on += bundle.count
                if not keeps:
                    continue
                if left is not None and bundle is last and left.to_client is to_client:
                    left.add(effect.peer)
                else:
                    last, left = bundle, SentCopies(bundle, effect.peer, to_client, now_us)
                    self._left.append(left)
            elif kind == _TURNED:
                if message.receipt is not _ACCEPTED:
                    self._turned(effect.peer, message, now_us)
            elif kind == _NO_PUBLISH:
                tally.refused_publications += message.count
                self._refused(effect.peer, message)
                if effect.peer in self._timed:
                    self._settle(effect.peer, message.stream, message.first, message.first + message.count - 1)
            elif kind == _NO_SUBSCRIBE:
                tally.refused_subscriptions += 1

    def _refused(self, client: str, message: PublishRefused) -> None:
        """Receipts that speak of all up to a number pass over these: they are taken off beforehand."""
        upto = self._upto.get(client, {}).get(message.stream)
        if upto is not None:
            upto[0] += message.count
            upto[1] += message.count

    def _turned(self, client: str, message: Turned, now_us: int) -> None:
        level, stream, first, last = message.receipt, message.stream, message.first, message.seq
        upto = streams.get(stream) if (streams := self._upto.get(client)) is not None else None
        if upto is not None and first == 1:  # others are counted when there is no gap before them any more
            if last > upto[0]:
                self._tally.safe += last - upto[0]
                upto[0] = last
            if level is _DELIVERED and last > upto[1]:
                self._tally.spread += last - upto[1]
                upto[1] = last
        if client in self._timed:
            self._time(client, message, now_us)

    def _time(self, client: str, message: Turned, now_us: int) -> None:
        stream, first, last, tally = message.stream, message.first, message.seq, self._tally
        for one in self._timed[client]:
            if one.stream == stream and first <= one.last <= last:
                self._told.append((client, stream, message.receipt, one.first, one.last, now_us))
                if not one.is_safe:
                    one.is_safe = True
                    tally.safe_latency.add(now_us - one.since_us)
                if message.receipt is _DELIVERED:
                    tally.spread_latency.add(now_us - one.since_us)
        if message.receipt >= self._last_level:
            self._settle(client, stream, first, last)

    def _settle(self, client: str, stream: str, first: int, last: int) -> None:
        """Nothing more is waited for of these."""
        timed = self._timed[client]
        kept = [one for one in timed if one.stream != stream or not first <= one.last <= last]
        self._timed_count -= len(timed) - len(kept)
        if kept:
            self._timed[client] = kept
        else:
            del self._timed[client]
