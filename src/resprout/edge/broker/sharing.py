"""What a durable subscription is given, until somebody has processed it: what waits, who has what, what is done.

Messages wait in the order in which they were shown. A consumer is handed some, and each of them is out until it is
acknowledged; whatever a consumer that is gone had out waits again, in its old place, marked as handed out before. Where
several consumers share, a message goes to the one that has the least out; those that name a key go to whoever has
others of that key out, and wait for it, so that each key keeps its order. So whoever says that it has a message of a
key says, too, that all earlier ones of the same origin and key are done, but for those that it has as well.

A consumer can acknowledge, and say that it has, only what was handed out: to it, or by an earlier broker of the
subscription, or to a consumer that is gone (`Portion.redelivered`). Whatever else it names stays as it is, and numbers
that are not here yet are not remembered as done. So a false claim takes nothing away that nobody was given.

Not decided here: who may consume, and where the subscription lives.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from resprout.core.bundle import Bundle, Origin, Pair, pairs_of
from resprout.core.limits import Attributes
from resprout.core.message_fields import Marks
from resprout.core.message_ids import rows_with_ids
from resprout.edge.broker.portion import (
    NO_TIMES,
    Consumer,
    DropCount,
    DroppedItems,
    IndexByOrigin,
    Portion,
    cost_of,
    load_of,
    offsets_of,
)
from resprout.edge.broker.ports import HeldBundle, SpillPatience
from resprout.edge.broker.queue_progress import AckedElsewhere, QueueProgress
from resprout.edge.broker.retries import GONE, Retries
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.timed import TimesCache, by_time
from resprout.edge.broker.waiting_portions import PriorityPortions, WaitingPortions
from resprout.edge.durable_messages import NO_DROPS, Drops, Span, Spans

SECOND_US: Final = 1_000_000
CAME_MAX: Final = 10_000
"""Seconds in which something came, of which it is remembered what. What is older counts as if it came then."""
LOOK_AHEAD: Final = 1_000
"""What is looked at behind something that has to wait for its key."""
CLAIMED_MAX: Final = 1 << 16
"""Messages that a consumer may say it has: as many as it can have been handed (`consumers.WINDOW_MAX`)."""
PORTIONS_MAX: Final = 64
"""Of one bundle, of which each goes to another consumer: to make one costs as much as the whole bundle."""


class SharedQueue:
    def __init__(
        self,
        session: ClientSession,
        is_shared: bool,
        took: Callable[[HeldBundle], None],
        done: Marks,
        spans: Spans = (),
        drops: Drops = NO_DROPS,
        retries: Retries | None = None,
    ) -> None:
        """`session`: whose backlog this is fed from. `took` is told what is wholly done. `done`: up to where everything
        was done elsewhere; `spans`: and what else was; `drops`: what was dropped elsewhere."""
        self.session = session
        self.consumers: dict[str, Consumer] = {}
        self.drops = DropCount(drops)
        self.again_below = 0
        """What has a place before this one may have been handed out by the broker that held the subscription before."""
        self.retries = retries or Retries(None)
        self.times = TimesCache()
        self.patience: SpillPatience | None = None
        """Told of what waits, where it may wait on disk."""
        self._is_shared = is_shared
        self._took = took
        self._pending: WaitingPortions | PriorityPortions = WaitingPortions()
        self._out_again = IndexByOrigin()
        """What consumers have that somebody may have been handed before."""
        self._left: dict[int, int] = {}
        """By item: its messages that are not done."""
        self._progress = QueueProgress(session, done, spans)
        self._acked_elsewhere = AckedElsewhere()
        self._keys: dict[Pair, tuple[str, int]] = {}
        """Who has messages of this key out, and how many portions."""
        self._claims: dict[tuple[Origin, Pair], int] = {}
        """The last number of a key that a consumer said it has, until earlier ones that wait were looked for."""
        self._serial = 0
        self._handed = 0
        self._came: deque[tuple[int, int]] = deque(maxlen=CAME_MAX)
        """When portions came: the first serial in each second."""
        self.dropped_items = DroppedItems()

    @property
    def waiting(self) -> int:
        """Messages that nobody was handed, or nobody any more."""
        return self._pending.messages

    # -- what comes ----------------------------------------------------------------------------------------------------

    def fill(self) -> None:
        """Take what was shown."""
        backlog = self.session.backlog
        while backlog:
            item = backlog.popleft()
            bundle = item.bundle
            assert bundle is not None, "a reader pins the bundle"
            if self.patience is not None:
                self.patience.be_patient(item)
            offsets = offsets_of(item, bundle, self.session)
            again = item.no < self.again_below
            if (ids := rows_with_ids(bundle)) is not None:
                self._drop_repeats(item, offsets, ids, again)
            if again and (acked := self._acked_elsewhere.of(bundle.origin)) is not None:
                self._note_done(bundle, [offset for offset in offsets if bundle.first + offset in acked])
            done = self._progress.of(bundle.origin)
            if done is not None:
                offsets = [offset for offset in offsets if bundle.first + offset not in done]
            if not offsets:
                self._finish(item, bundle)
                continue
            self._serial += 1
            if not self._came or self.retries.now_us - self._came[-1][1] >= SECOND_US:
                self._came.append((self._serial, self.retries.now_us))
            self._left[id(item)] = len(offsets)
            self._progress.open(item, bundle)
            keys = pairs_of(bundle.topic, bundle.keys) if self._is_shared and bundle.keys else ()
            portion = Portion(item, self._serial, offsets, keys, again)
            times = self.times.of(bundle)
            for timed in (portion,) if times is None else by_time(portion, times, self.retries, self._is_shared):
                due_us = timed.due_us
                for part in self.retries.divide(timed) if again else (timed,):
                    if self.retries.is_spent(part):
                        self._bury(part, "", "")
                    else:
                        self._wait(self._claimed(part), due_us)
        self._settle_claims()

    def _drop_repeats(self, item: HeldBundle, offsets: Sequence[int], rows: Sequence[Attributes], again: bool) -> None:
        """Count as done what repeats a message with the same id. Keep what has a new one until others know the id."""
        repeats, bundle = self.retries.repeats, item.bundle
        assert bundle is not None, "a reader pins the bundle"
        found, is_new = repeats.among(item, bundle, offsets, rows, self.retries.wall_us, again)
        if is_new:
            self.dropped_items.note(item)
        done = self._progress.of(bundle.origin)
        repeats.dropped += sum([done is None or bundle.first + at not in done for at in found])
        self._note_done(bundle, found)

    def drop_oldest(self, most: int, most_bytes: int) -> None:
        """Drop what waits, the oldest first, until at most `most` messages wait and no more than `most_bytes` are owed.
        What consumers have counts for the bytes and is not dropped. The last portion stays, whatever its size."""
        while (is_heavy := len(self._pending) > 1 and self.session.owed_bytes > most_bytes) or self.waiting > most:
            portion = self._pending.pop_to_drop()
            count = len(portion.offsets)
            if not is_heavy:
                count = min(count, self.waiting + count - most)
            over, kept = portion.split(count)
            if kept.offsets:
                self._pending.appendleft(kept)
            self._drop(over)

    def _drop(self, portion: Portion) -> None:
        """Drop messages that nobody has."""
        self.drops.add(len(portion.offsets))
        self.dropped_items.note(portion.item)
        self._note_done(portion.bundle, portion.offsets)
        self._less(portion, len(portion.offsets))

    def release_dropped(self) -> None:
        """Let the log forget items of which messages were dropped, if other brokers were told in an earlier step."""
        for item in self.dropped_items.take_told():
            self.session.dropped_bytes -= cost_of(item)
            self._took(item)

    # -- consumers -----------------------------------------------------------------------------------------------------

    def join(self, consumer: Consumer, done: Iterable[Span]) -> None:
        """It may have been given, and have done, something elsewhere."""
        self.consumers[consumer.session.name] = consumer
        for span in done:
            self.acknowledge(consumer.session.name, span)
        for origin, ranges in consumer.has.items():
            for first, last in ranges.above(0):
                self._claim(origin, first, last)
        self._settle_claims()

    def leave(self, name: str) -> None:
        """What it has not acknowledged is for others."""
        consumer = self.consumers.pop(name, None)
        if consumer is None:
            return
        self.drops.left(consumer.notice)
        if not consumer.out:
            return
        self._came_back(list(consumer.out), GONE)

    def hand_out(self, give: Callable[[Consumer, Portion], None]) -> None:
        """As much as consumers have room for. `give` lowers the room of the consumer's session."""
        if self._pending and self.consumers:
            if self._is_shared:
                self._share(give)
            else:
                consumer = next(iter(self.consumers.values()))
                while consumer.free > 0 and (portion := self._next()) is not None:
                    if self.retries.is_last_try(portion):
                        if consumer.count:
                            self._pending.appendleft(portion)
                            return
                        portion = consumer.alone = self._first_of(portion, 1)
                    self._hand(consumer, portion, give)

    def acknowledge(self, name: str, span: Span) -> None:
        """Also of what it does not have any more, because it was silent for too long, or nobody knew that it had it."""
        origin = span.origin
        done = self._progress.of(origin)
        if done is not None and done.holds(span.first, span.last):
            return
        consumer = self.consumers.get(name)
        left = span.last - span.first + 1
        if done is not None and (done.has_islands or span.first <= done.upto):
            left = sum(last - first + 1 for first, last in done.lacks(span.first, span.last))
        if consumer is not None:
            for portion in consumer.out.find(origin, span.first, span.last):
                left -= self._done_out(portion, span)
        if left > 0:
            for portion in self._out_again.find(origin, span.first, span.last):
                left -= self._done_out(portion, span)
        if left > 0:
            for portion in self._pending.find_again(origin, span.first, span.last):
                self._done_waiting(portion, span)
        if left > 0:
            for portion in self.retries.aside.find(origin, span.first, span.last):
                self._done_aside(portion, span)
        if left > 0 and self.again_below:
            self._acked_elsewhere.add(origin, span)

    def _came_back(self, portions: list[Portion], reason: str, due_us: int = 0) -> None:
        """Consumers had these, and have not acknowledged them."""
        back: list[Portion] = []
        for portion in portions:
            holder = portion.holder
            self._unlock(portion)
            self.retries.came_back(portion)
            self.retries.expires(portion)
            if self.retries.is_spent(portion):
                self._bury(portion, holder, reason)
            elif due_us:
                self._lock_keys(portion, "")
                self.retries.put_aside(portion, due_us)
            else:
                back.append(portion)
        self._pending.put_back(back)

    def _bury(self, portion: Portion, consumer: str, reason: str) -> None:
        """Later messages of its keys wait until its dead letter is safe: whoever is handed one knows that this one is
        done."""
        for part in self.retries.bury(portion, consumer, reason):
            self._lock_keys(part, "")

    # -- how far it has come -------------------------------------------------------------------------------------------

    @property
    def dirty(self) -> bool:
        """Whether more is done than was told."""
        return bool(self._progress.dirty)

    def progress(self) -> tuple[Marks, Spans]:
        """See `QueueProgress.take`."""
        return self._progress.take()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _wait(self, portion: Portion | None, due_us: int) -> None:
        if portion is None:
            return
        self.retries.expires(portion)
        if portion.priority and isinstance(self._pending, WaitingPortions):
            self._pending = PriorityPortions(self._pending)
        if due_us:
            self.retries.put_aside(portion, due_us)
        else:
            self._pending.append(portion)

    def _next(self) -> Portion | None:
        """Take the first portion that waits and has not expired."""
        while self._pending:
            if (portion := self._unexpired(self._pending.popleft())) is not None:
                return portion
        return None

    def _unexpired(self, portion: Portion) -> Portion | None:
        """Return a waiting portion without what has expired, which is done; None: all of it has."""
        over = portion.take_expired(self.retries.wall_us) if portion.expiries else ()
        if over:
            self._note_done(portion.bundle, over)
            self._less(portion, len(over))
        return portion if portion.offsets else None

    def _claim(self, origin: Origin, first: int, last: int) -> None:
        """A consumer that comes says that it has these: they are out, as far as they wait."""
        for portion in self._pending.find_again(origin, first, last):
            rest = self._claimed(portion)
            if rest is not portion:
                self._pending.replace(portion, rest)

    def _claimed(self, portion: Portion) -> Portion | None:
        """Without what a consumer says that it has: that is out."""
        for consumer in self.consumers.values() if portion.redelivered else ():
            has = consumer.has.get(portion.bundle.origin)
            if has is not None and consumer.count < CLAIMED_MAX:
                first = portion.bundle.first
                mine = [offset for offset in portion.offsets if first + offset in has]
                if mine:
                    self._lend(consumer, portion.cut(mine))
                    for key in portion.keys:
                        claim = (portion.bundle.origin, key)
                        self._claims[claim] = max(self._claims.get(claim, 0), first + mine[-1])
                    rest = [offset for offset in portion.offsets if first + offset not in has]
                    if not rest:
                        return None
                    portion = portion.cut(rest)
        return portion

    def _settle_claims(self) -> None:
        """What waits of a key and an origin before something that a consumer has was done at the broker before this
        one, or it would not have been handed something later. Handed out again, it would break the order of the key."""
        claims, self._claims = self._claims, {}
        highest: dict[Origin, int] = {}
        for (origin, _), number in claims.items():
            highest[origin] = max(number, highest.get(origin, 0))
        for origin, number in highest.items():
            for portion in self._pending.find_again(origin, 1, number - 1):
                before = max([claims.get((origin, key), 0) for key in portion.keys], default=0)
                if before > 1:
                    self._done_waiting(portion, Span(*origin, 1, before - 1))

    def _lend(self, consumer: Consumer, portion: Portion) -> None:
        consumer.out.add(portion)
        portion.delays = NO_TIMES
        portion.holder = consumer.session.name
        self.retries.handed(portion)
        if portion.redelivered:
            self._out_again.add(portion)
        consumer.count += len(portion.offsets)
        consumer.bytes += portion.bytes
        self._lock_keys(portion, consumer.session.name)

    def _lock_keys(self, portion: Portion, name: str) -> None:
        """`name`: the consumer that has it; empty while it is aside."""
        for key in portion.keys:
            self._keys[key] = (name, self._keys.get(key, (name, 0))[1] + 1)

    def _unlock(self, portion: Portion) -> None:
        """No consumer has it any more."""
        if portion.redelivered:
            self._out_again.remove(portion)
        portion.holder = ""
        self._unlock_keys(portion)

    def _unlock_keys(self, portion: Portion) -> None:
        for key in portion.keys:
            name, count = self._keys[key]
            if count > 1:
                self._keys[key] = (name, count - 1)
            else:
                del self._keys[key]

    def _hand(self, consumer: Consumer, portion: Portion, give: Callable[[Consumer, Portion], None]) -> None:
        self._handed += 1
        consumer.served = self._handed
        self._lend(consumer, portion)
        give(consumer, portion)

    def _first_of(self, portion: Portion, count: int) -> Portion:
        """Let all but so many messages wait."""
        portion, rest = portion.split(count)
        if rest.offsets:
            self._pending.appendleft(rest)
        return portion

    def _share(self, give: Callable[[Consumer, Portion], None]) -> None:
        retries, is_draining = self.retries, False
        passed: list[Portion] = []
        blocked: set[Pair] = set()
        free = {name: consumer for name, consumer in self.consumers.items() if consumer.free > 0}
        while free and len(passed) < LOOK_AHEAD and (portion := self._next()) is not None:
            holders = {self._keys[key][0] for key in portion.keys if key in self._keys}
            is_held = len(holders) > 1 or not free.keys() >= holders or (retries.policy is not None and bool(holders))
            if is_held or not blocked.isdisjoint(portion.keys):
                blocked.update(portion.keys)
                passed.append(portion)
                continue
            chosen = free[holders.pop()] if holders else min(free.values(), key=load_of)
            is_alone = retries.is_last_try(portion)
            if is_alone and chosen.count:  # it waits until one consumer has nothing else
                if not is_draining:
                    is_draining = True
                    del free[chosen.session.name]
                blocked.update(portion.keys)
                passed.append(portion)
                continue
            if is_alone:
                portion = chosen.alone = self._first_of(portion, 1)
            elif retries.policy is not None and portion.keys:  # one at a time: any of them may come back
                portion = self._first_of(portion, 1)
            elif not portion.keys:
                share = max(-(-len(portion.offsets) // len(free)), -(-portion.bundle.count // PORTIONS_MAX))
                portion = self._first_of(portion, min(share, chosen.free))
            self._hand(chosen, portion, give)
            if chosen.free <= 0:
                del free[chosen.session.name]
        for portion in reversed(passed):
            self._pending.appendleft(portion)

    def _done_out(self, portion: Portion, span: Span) -> int:
        """These messages are done. Return how many of them were in this portion, which a consumer has."""
        consumer = self.consumers[portion.holder]
        count, size = len(portion.offsets), portion.bytes
        rest = self._without(portion, span)
        if rest is None:
            consumer.out.remove(portion)
            self._unlock(portion)
        left = len(rest.offsets) if rest is not None else 0
        consumer.count -= count - left
        consumer.bytes -= size - (rest.bytes if rest is not None else 0)
        return count - left

    def _done_waiting(self, portion: Portion, span: Span) -> None:
        """These messages are done. They were handed out before, and wait."""
        before, rest = len(portion.offsets), self._without(portion, span)
        self._pending.lessen(portion, before - (len(rest.offsets) if rest is not None else 0))
        if rest is None:
            self._pending.remove(portion)

    def _done_aside(self, portion: Portion, span: Span) -> None:
        """These messages are done. They were handed out before, and are aside."""
        dead = self.retries.dead.get(id(portion))
        if (dead is not None and dead.letter is not None) or id(portion) in self.retries.following:
            return  # its dead letter, or its follow-up, is on the way
        if self._without(portion, span) is None:
            self._unlock_keys(portion)
            self.retries.drop(portion)

    def _without(self, portion: Portion, span: Span) -> Portion | None:
        """What is left of it when these are done; None for nothing."""
        first = portion.bundle.first
        low, high = span.first - first, span.last - first
        offsets = portion.offsets
        if offsets[0] > high or offsets[-1] < low:
            return portion
        if low <= offsets[0] and offsets[-1] <= high:
            self._note_done(portion.bundle, offsets)
            self._less(portion, len(offsets))
            return None
        rest = portion.without(span.first, span.last)
        self._note_done(portion.bundle, portion.take(span.first, span.last))
        self._less(portion, len(offsets) - len(rest))
        portion.offsets = rest
        return portion if rest else None

    def _note_done(self, bundle: Bundle, offsets: Sequence[int]) -> None:
        """These messages of a bundle are done."""
        if not offsets:
            return
        low, high = bundle.first + offsets[0], bundle.first + offsets[-1]
        self._progress.add(bundle, low, high, None if high - low < len(offsets) else list(offsets))

    def _less(self, portion: Portion, messages: int) -> None:
        """So many of its item are done."""
        key = id(portion.item)
        self._left[key] -= messages
        if self._left[key] == 0:
            del self._left[key]
            self._finish(portion.item, portion.bundle)

    def _finish(self, item: HeldBundle, bundle: Bundle) -> None:
        self._progress.finish(bundle)
        self._is_done(item)

    def _is_done(self, item: HeldBundle) -> None:
        if self.patience is not None:
            self.patience.took_patiently(item)
        self.session.took(item)
        if item in self.dropped_items:
            self.session.dropped_bytes += cost_of(item)
            self.dropped_items.keep(item)
        else:
            self._took(item)
