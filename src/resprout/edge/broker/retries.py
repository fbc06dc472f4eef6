"""Messages of a durable subscription that came back without an acknowledgement: how often, until when, and the end.

A message comes back when its consumer is gone, says so (`Settlement.NACK`), or has had it for too long
(`RetryTerms.ack_wait_us`). Each time counts as a try. The counts are told to other brokers with the progress of the
subscription, so the next home of it goes on counting. A home that dies takes along what it had not told, so a count is
a lower bound.

A message that was tried `max_deliver` times, or that its consumer terminates, is *dead*: nobody is handed it again. It
stays here, and counts as not done, until its dead letter is stored as safely as it is.

A consumer that crashes takes along everything that it has, while perhaps one message is to blame. So the last try of a
message is made alone: its consumer is handed nothing else meanwhile.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

from resprout.core.bundle import Origin
from resprout.core.message_fields import next_number
from resprout.edge.broker.portion import NO_TIMES, IndexByOrigin, Portion
from resprout.edge.broker.repeats import Repeats
from resprout.edge.broker.session import ENTRY_BYTES
from resprout.edge.durable_messages import RetryTerms, Tries

TRIES_TOLD_MAX: Final = 2_000
"""Ranges of counts in one message. Of more, some are told with the next."""
TRIES_KEPT: Final = 20_000
"""Messages of one subscription of which the count is remembered for another broker. Of more, the count begins anew if
the home dies."""

OVERDUE_MAX: Final = 1_024
"""Portions that are taken back in a step. The others follow at once, in steps of their own."""
STALE_MAX: Final = 1_024
"""Portions that are remembered with a time that does not count any more, besides as many as there are others."""
EXPIRY_US: Final = 1_000_000
"""How often waiting messages are looked at because some may have expired. None that has is handed out in between."""
EXPIRY_PORTIONS: Final = 1_000
"""Portions that are looked at so often; of more, it is rarer."""
LOOK_AGAIN_US: Final = 3_600_000_000
"""A timer for something later is set anew after so long: timers of drivers have bounds."""

GONE: Final = "its consumer was gone"
TOO_LATE: Final = "it was not acknowledged in time"
REJECTED: Final = "its consumer rejected it"


class DeadMessage:
    """One message that was given up, until its dead letter is safe."""

    __slots__ = ("consumer", "letter", "portion", "reason")

    def __init__(self, portion: Portion, consumer: str, reason: str) -> None:
        self.portion = portion
        self.consumer = consumer
        """Consumer that had it last; empty where an earlier home knew."""
        self.reason = reason
        self.letter: object | None = None
        """The entry of its dead letter in the log, once it is published."""


class TryCounts:
    """Counts by message, up to a bound."""

    __slots__ = ("_counts", "_of")

    def __init__(self, tries: Iterable[Tries] = ()) -> None:
        self._of: dict[Origin, dict[int, int]] = {}
        self._counts = 0
        self.add(tries)

    def __bool__(self) -> bool:
        return bool(self._of)

    def add(self, tries: Iterable[Tries]) -> list[Tries]:
        """Take the greater counts, and return those that say something new."""
        new: list[Tries] = []
        for each in tries:
            counts = self._of.get(each.origin, {})
            numbers: Iterable[int] = range(each.first, each.last + 1)
            if self._counts >= TRIES_KEPT:
                numbers = _of_both(counts, each.first, each.last)
            fresh = [seq for seq in numbers if counts.get(seq, 0) < each.times]
            if not fresh:
                continue
            self._of[each.origin] = counts
            self._counts -= len(counts)
            counts.update(dict.fromkeys(fresh, each.times))
            self._counts += len(counts)
            new.append(each)
        return new

    def of(self, origin: Origin) -> dict[int, int]:
        return self._of.get(origin, {})

    def forget(self, origin: Origin, first: int, last: int) -> None:
        """These are done."""
        counts = self._of.get(origin)
        if counts is None:
            return
        for seq in _of_both(counts, first, last):
            self._counts -= counts.pop(seq, 0) > 0
        if not counts:
            del self._of[origin]

    def all(self) -> tuple[Tries, ...]:
        """As many as fit into a message: the latest."""
        told = [each for origin, counts in self._of.items() for each in _joined(origin, counts)]
        return tuple(told[-TRIES_TOLD_MAX:])


class Retries:
    """Of one subscription where it lives."""

    def __init__(
        self,
        policy: RetryTerms | None,
        known: Iterable[Tries] = (),
        epoch_us: int = 0,
        repeats: Repeats | None = None,
    ) -> None:
        """`known`: what an earlier home told. `epoch_us`: time 0 in microseconds since 1970."""
        self.repeats = repeats or Repeats()
        self.policy = policy
        self.epoch_us = epoch_us
        self.dead: dict[int, DeadMessage] = {}
        """By the `id` of the portion."""
        self.following: dict[int, Portion] = {}
        """By the `id` of the portion: single messages whose follow-ups are not safe."""
        self.aside = IndexByOrigin()
        """Portions that wait for their time, are dead, or whose follow-up is under way."""
        self.now_us = 0
        """Time of the step; whoever calls the queue sets it."""
        self.redeliveries = 0
        """Messages that came back at this broker."""
        self.dead_letters = 0
        """Dead letters that are safe, of this broker."""
        self.expiry_us = 0
        """When to look for waiting messages that have expired; 0: never."""
        self._looked_us = 0
        """When that was done last."""
        self._look_us = EXPIRY_US
        self.put_aside_bytes = 0
        """Bytes that were put aside since `SharedQueue.drop_oldest` looked at them."""
        self._known = TryCounts(known)
        self._untold: list[Tries] = []
        self._due: list[tuple[int, int, int, Portion]] = []
        """A heap of portions aside; some are done meanwhile."""
        self._deadlines: deque[tuple[int, Portion]] = deque()
        """Portions that consumers have. All have the same time, so the oldest is the first. Some have another deadline
        by now, or are done."""
        self._dropped = 0
        """Portions that were done while they were aside, since the heap was looked at last."""
        self._deadlines_kept = 0
        """How many of them counted when this was looked at last."""
        self._serial = 0

    # -- counts --------------------------------------------------------------------------------------------------------

    def came_back(self, portion: Portion) -> None:
        """Count a try of these messages."""
        portion.redelivered = True
        portion.tries = next_number(portion.tries)  # another broker may have told any number
        portion.deadline_us = 0
        self.redeliveries += len(portion.offsets)
        self._untold += [Tries(*span.origin, span.first, span.last, portion.tries) for span in portion.spans()]
        if len(self._untold) > 2 * TRIES_KEPT:
            del self._untold[:-TRIES_KEPT]

    def take_untold(self) -> tuple[Tries, ...]:
        """Return counts that other brokers were not told, as many as one message holds."""
        told, self._untold = self._untold[:TRIES_TOLD_MAX], self._untold[TRIES_TOLD_MAX:]
        return tuple(told)

    @property
    def is_untold(self) -> bool:
        return bool(self._untold)

    def divide(self, portion: Portion) -> list[Portion]:
        """Divide what an earlier home may have handed out by how often it told that it had."""
        counts = self._known.of(portion.origin) if self._known else {}
        if not counts:
            return [portion]
        parts: dict[int, list[int]] = {}
        for offset in portion.offsets:
            parts.setdefault(counts.get(portion.first + offset, 0), []).append(offset)
        divided = [portion.cut(offsets) for offsets in parts.values()]
        for part, tries in zip(divided, parts, strict=True):
            part.tries = tries
        return divided

    def is_spent(self, portion: Portion) -> bool:
        """Whether these messages were tried as often as they may be."""
        policy = self.policy
        return policy is not None and 0 < policy.max_deliver <= portion.tries

    def is_last_try(self, portion: Portion) -> bool:
        policy = self.policy
        return policy is not None and portion.tries > 0 and portion.tries == policy.max_deliver - 1

    # -- deadlines -----------------------------------------------------------------------------------------------------

    def handed(self, portion: Portion) -> None:
        """A consumer has it from now on, or has it anew."""
        policy = self.policy
        if policy is not None and policy.ack_wait_us:
            portion.deadline_us = self.now_us + policy.ack_wait_us
            self._deadlines.append((portion.deadline_us, portion))
            if len(self._deadlines) > 2 * self._deadlines_kept + STALE_MAX:
                live = {portion: due_us for due_us, portion in self._deadlines if _is_due(portion, due_us)}
                self._deadlines = deque([(due_us, portion) for portion, due_us in live.items()])
                self._deadlines_kept = len(live)

    def overdue(self) -> list[Portion]:
        """Return what consumers have had for too long."""
        found: list[Portion] = []
        while len(found) < OVERDUE_MAX and (deadline_us := self.deadline_us) and deadline_us <= self.now_us:
            found.append(self._deadlines.popleft()[1])
        return found

    @property
    def deadline_us(self) -> int:
        """The next deadline; 0: there is none."""
        deadlines = self._deadlines
        while deadlines:
            deadline_us, portion = deadlines[0]
            if _is_due(portion, deadline_us):
                return deadline_us
            deadlines.popleft()
        return 0

    @property
    def timed(self) -> int:
        """Number of deadlines and delays that are remembered, those of messages that are done included."""
        return len(self._deadlines) + len(self._due)

    # -- aside ---------------------------------------------------------------------------------------------------------

    def put_aside(self, portion: Portion, due_us: int) -> None:
        """It is handed out later."""
        self.aside.add(portion)
        self.put_aside_bytes += ENTRY_BYTES + portion.bytes
        self._wait_until(portion, due_us)

    def _wait_until(self, portion: Portion, due_us: int) -> None:
        portion.due_us = due_us
        self._serial += 1
        heappush(self._due, (due_us, portion.serial, self._serial, portion))

    def take_due(self) -> list[Portion]:
        """Return what has waited for long enough; it is not aside any more."""
        found: list[Portion] = []
        while (due_us := self.due_us) and due_us <= self.now_us:
            portion = heappop(self._due)[-1]
            ready = portion.take_due(self.wall_us) if portion.delays else portion.offsets
            if portion.delays and portion.offsets:
                released = portion.cut(ready)
                self._wait_until(portion, portion.delays[portion.delays_passed][0] - self.epoch_us)
            else:
                released, portion.offsets, portion.due_us = portion, ready, 0
                self.aside.remove(portion)
            released.delays = NO_TIMES
            if ready:
                found.append(released)
        return found

    def drop(self, portion: Portion) -> None:
        """It is done while it is aside."""
        portion.due_us = 0
        self.aside.remove(portion)
        self.dead.pop(id(portion), None)
        self.following.pop(id(portion), None)
        self._dropped += 1
        if self._dropped > STALE_MAX + len(self._due) // 2:
            self._dropped = 0
            self._due = [each for each in self._due if each[-1].due_us == each[0]]
            heapify(self._due)

    @property
    def due_us(self) -> int:
        """When something aside is due; 0: never."""
        while self._due:
            due_us, _, _, portion = self._due[0]
            if portion.due_us == due_us:
                return due_us
            heappop(self._due)
        return 0

    def next_us(self) -> int:
        """When to look again; 0: not because of time."""
        times = [time_us for time_us in (self.deadline_us, self.due_us, self.expiry_us) if time_us]
        return max(self.now_us, min(min(times), self.now_us + LOOK_AGAIN_US)) if times else 0

    # -- expiry --------------------------------------------------------------------------------------------------------

    @property
    def wall_us(self) -> int:
        """Microseconds since 1970."""
        return self.epoch_us + self.now_us

    def expires(self, portion: Portion) -> None:
        """Plan to look at messages that wait from now on, at most once in `EXPIRY_US`."""
        if expires_us := portion.expires_us:
            at_us = max(expires_us - self.epoch_us, self._looked_us + self._look_us)
            if not self.expiry_us or at_us < self.expiry_us:
                self.expiry_us = at_us

    def looks_for_expired(self, portions: int) -> bool:
        """Return whether it is time to look for expired messages, and begin to plan anew. `portions`: how many will be
        looked at. The more there are, the rarer that is."""
        if not self.expiry_us or self.expiry_us > self.now_us:
            return False
        self.expiry_us, self._looked_us = 0, self.now_us
        self._look_us = EXPIRY_US * max(1, portions // EXPIRY_PORTIONS)
        return True

    # -- the dead ------------------------------------------------------------------------------------------------------

    def bury(self, portion: Portion, consumer: str, reason: str) -> list[Portion]:
        """Nobody is handed these messages again. Return them one by one."""
        parts = [portion.cut([offset]) for offset in portion.offsets] if len(portion.offsets) > 1 else [portion]
        for part in parts:
            self.aside.add(part)
            self.dead[id(part)] = DeadMessage(part, consumer, reason)
        return parts

    def is_leaving(self, portion: Portion) -> bool:
        """Whether a message aside is handed to nobody any more: it is dead, or its follow-up is under way."""
        return id(portion) in self.dead or id(portion) in self.following

    def waiting_aside(self) -> Iterator[Portion]:
        return iter(self.aside)

    def clear(self) -> None:
        self.aside.clear()
        self.dead.clear()
        self.following.clear()
        self._due.clear()
        self._deadlines.clear()


def _is_due(portion: Portion, deadline_us: int) -> bool:
    """Whether a consumer has it, and this is the time until which it may."""
    return bool(portion.holder) and portion.deadline_us == deadline_us


def _of_both(counts: dict[int, int], first: int, last: int) -> list[int]:
    """Return the numbers from first to last that have a count, and look at no more numbers than either has."""
    if last - first < len(counts):
        return [seq for seq in range(first, last + 1) if seq in counts]
    return [seq for seq in counts if first <= seq <= last]


def _joined(origin: Origin, counts: dict[int, int]) -> Sequence[Tries]:
    found: list[Tries] = []
    for seq in sorted(counts):
        last = found[-1] if found else None
        if last is not None and last.last == seq - 1 and last.times == counts[seq]:
            found[-1] = Tries(*origin, last.first, seq, last.times)
        else:
            found.append(Tries(*origin, seq, seq, counts[seq]))
    return found
