"""A durable subscription whose consumers may reject a message, ask for more time (`Settle`), or take too long.

See `SharedQueue` for who is handed what, and `Retries` for what is counted.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterator
from operator import attrgetter
from typing import Final

from resprout.core.bundle import Origin
from resprout.core.message_fields import NUMBER_MAX
from resprout.edge.broker.portion import Consumer, Portion
from resprout.edge.broker.repeats import Numbered
from resprout.edge.broker.retries import REJECTED, TOO_LATE, DeadMessage
from resprout.edge.broker.session import ENTRY_BYTES
from resprout.edge.broker.sharing import SharedQueue
from resprout.edge.durable_messages import Span

DELAYED_SHARE: Final = 8
"""A subscription that drops the oldest looks at its delayed messages after each such part of its room."""


class RetryQueue(SharedQueue):
    def nack(self, name: str, span: Span, due_us: int) -> None:
        """Hand these out again, not before this time; 0: at once. What the consumer does not have stays as it is."""
        back = self._take_from(name, span)
        self._came_back(back, REJECTED, due_us)

    def terminate(self, name: str, span: Span, reason: str) -> None:
        """Nobody is handed these any more."""
        for portion in self._take_from(name, span):
            self._unlock(portion)
            self.retries.came_back(portion)
            self._bury(portion, name, reason or REJECTED)

    def extend(self, name: str, span: Span) -> None:
        """The consumer works on these: its time for them begins anew."""
        consumer = self.consumers.get(name)
        for portion in consumer.out.find(span.origin, span.first, span.last) if consumer is not None else ():
            if consumer is not None and portion.take(span.first, span.last):
                self.retries.handed(self._part_out(consumer, portion, span))

    def take_back_overdue(self) -> dict[str, list[Span]]:
        """Hand out again what consumers have had for too long. Return it by consumer."""
        found: dict[str, list[Span]] = {}
        for portion in self.retries.overdue():
            consumer = self.consumers[portion.holder]
            found.setdefault(portion.holder, []).extend(portion.spans())
            self._take_out(consumer, portion)
            self._came_back([portion], TOO_LATE)
        return found

    def release_due(self) -> None:
        """Let what was put aside wait in its old place, when its time has come."""
        due = self.retries.take_due()
        for portion in due:
            self._unlock_keys(portion)
        self._pending.put_back(due)

    def drop_oldest(self, most: int, most_bytes: int) -> None:
        """Delayed messages may take half of the room: otherwise everything else would be dropped until their time has
        come."""
        if self.session.owed_bytes > most_bytes and self.retries.put_aside_bytes > most_bytes // DELAYED_SHARE:
            self._drop_aside(most_bytes // 2)
        super().drop_oldest(most, most_bytes)

    def _drop_aside(self, most_bytes: int) -> None:
        """Drop what is aside, the latest first, until it takes no more than this."""
        retries = self.retries
        retries.put_aside_bytes = 0
        aside = [portion for portion in retries.aside if not retries.is_leaving(portion)]
        aside.sort(key=attrgetter("due_us"))
        size = sum([ENTRY_BYTES + portion.bytes for portion in aside])
        while size > most_bytes:
            portion = aside.pop()
            size -= ENTRY_BYTES + portion.bytes
            self._unlock_keys(portion)
            retries.drop(portion)
            self._drop(portion)

    def drop_expired(self) -> None:
        """Count as done what waits and has expired, now and then."""
        retries = self.retries
        if not retries.looks_for_expired(len(self._pending)):
            return
        for portion in self._pending.take_all():
            rest = self._unexpired(portion)
            if rest is not None:
                self._pending.append(rest)
                retries.expires(rest)
        for portion in [each for each in retries.aside if each.expires_us and not retries.is_leaving(each)]:
            if self._unexpired(portion) is None:
                self._unlock_keys(portion)
                retries.drop(portion)
            else:
                retries.expires(portion)

    def decide_repeats(self, is_final: bool) -> None:
        """Count repeats as done that an earlier home may have handed out; see `Repeats.decide`."""
        repeats = self.retries.repeats
        for origin, seq in repeats.decide(self._was_handed, is_final, self.retries.wall_us) if repeats.doubts else ():
            span = Span(*origin, seq, seq)
            for portion in self._pending.find_again(origin, seq, seq):
                repeats.dropped += len(portion.take(seq, seq))
                self._done_waiting(portion, span)
            for portion in self.retries.aside.find(origin, seq, seq):
                self._done_aside(portion, span)

    def _was_handed(self, message: Numbered) -> bool:
        """Whether a consumer has a message, or it is done."""
        origin, seq = message
        return self.is_done(origin, seq) or any(
            portion.take(seq, seq) for each in self.consumers.values() for portion in each.out.find(origin, seq, seq)
        )

    def told(self) -> None:
        """Note that other brokers are told in this step what was dropped, and which ids came. Items of which it is not
        decided whether they are repeats are kept on."""
        self.dropped_items.tell()
        for item in self.retries.repeats.doubted_items():
            self.dropped_items.note(item)

    def oldest_us(self) -> int:
        """When the oldest message came that is not done, to the second; 0: there is none."""
        oldest = min([portion.serial for portion in self.portions()], default=0)
        at = bisect_right(self._came, (oldest, NUMBER_MAX)) - 1 if oldest else -1
        return self._came[max(at, 0)][1] if oldest else 0

    def portions(self) -> Iterator[Portion]:
        """Everything that is not done."""
        yield from self._pending
        yield from self.retries.waiting_aside()
        for consumer in self.consumers.values():
            yield from consumer.out

    def waiting_portions(self) -> Iterator[Portion]:
        return iter(self._pending)

    def purge(self) -> int:
        """Drop everything that no consumer has, and that is not leaving. Return how many messages that were."""
        aside = [portion for portion in self.retries.aside if not self.retries.is_leaving(portion)]
        for portion in aside:
            self._unlock_keys(portion)
            self.retries.drop(portion)
        self._pending.put_back(aside)
        count = self.waiting
        self.drop_oldest(0, NUMBER_MAX)
        return count

    def dead_letter_is_safe(self, dead: DeadMessage) -> None:
        """The message is done."""
        portion = dead.portion
        self._unlock_keys(portion)
        self.retries.drop(portion)
        self._note_done(portion.bundle, portion.offsets)
        self._less(portion, len(portion.offsets))

    def is_done(self, origin: Origin, seq: int) -> bool:
        done = self._progress.of(origin)
        return done is not None and seq in done

    def is_dead(self, origin: Origin, seq: int) -> bool:
        """Whether a message was given up."""
        dead = self.retries.dead
        return any(id(each) in dead and each.take(seq, seq) for each in self.retries.aside.find(origin, seq, seq))

    def set_aside(self, consumers: Collection[str], span: Span) -> Portion | None:
        """Take one message that these consumers were handed from whoever has it, because its follow-up is published.
        Return it, or None if it is not here, or dead, or somebody else was handed it for the first time."""
        seq, retries = span.first, self.retries
        for name, consumer in self.consumers.items():
            found = consumer.out.find(span.origin, seq, seq)
            if name in consumers or any(portion.redelivered and portion.take(seq, seq) for portion in found):
                for portion in self._take_from(name, span):
                    self._unlock(portion)
                    return self._follow(portion)
        for portion in self._pending.find_again(span.origin, seq, seq):
            if mine := portion.take(seq, seq):
                part, rest = portion.cut(mine), portion.without(seq, seq)
                self._pending.lessen(portion, 1)
                if rest:
                    portion.offsets = rest
                else:
                    self._pending.remove(portion)
                return self._follow(part)
        for portion in retries.aside.find(span.origin, seq, seq):
            if (mine := portion.take(seq, seq)) and not retries.is_leaving(portion):
                part, rest = portion.cut(mine), portion.without(seq, seq)
                if rest:
                    portion.offsets = rest
                else:
                    self._unlock_keys(portion)
                    retries.drop(portion)
                return self._follow(part)
        return None

    def _follow(self, portion: Portion) -> Portion:
        """Later messages of its keys wait until its follow-up is safe."""
        portion.deadline_us = 0
        self._lock_keys(portion, "")
        self.retries.aside.add(portion)
        self.retries.following[id(portion)] = portion
        return portion

    def is_followed(self, portion: Portion) -> None:
        """The follow-up of a message is safe: it is done."""
        self._unlock_keys(portion)
        self.retries.drop(portion)
        self._note_done(portion.bundle, portion.offsets)
        self._less(portion, len(portion.offsets))

    def empty(self) -> None:
        """End the subscription: all of its messages are released."""
        out = [portion for each in self.consumers.values() for portion in each.out]
        aside = [*self.retries.waiting_aside()]
        items = {id(portion.item): portion.item for portion in (*self._pending.take_all(), *out, *aside)}
        self.retries.clear()
        self._out_again.clear()
        self.consumers.clear()
        self.dropped_items.tell()
        for item in items.values():
            self._is_done(item)
        self.release_dropped()

    def _take_from(self, name: str, span: Span) -> list[Portion]:
        """Take these from a consumer, as far as it has them."""
        consumer = self.consumers.get(name)
        taken: list[Portion] = []
        if consumer is not None:
            for portion in consumer.out.find(span.origin, span.first, span.last):
                if portion.take(span.first, span.last):
                    taken.append(self._part_out(consumer, portion, span))
                    self._take_out(consumer, taken[-1])
        return taken

    def _part_out(self, consumer: Consumer, portion: Portion, span: Span) -> Portion:
        """Return a portion of these messages, which a consumer has in a larger one."""
        mine = portion.take(span.first, span.last)
        if len(mine) == len(portion.offsets):
            return portion
        part = portion.cut(mine)
        portion.offsets = portion.without(span.first, span.last)
        part.holder, part.deadline_us = portion.holder, portion.deadline_us
        consumer.out.add(part)
        if part.redelivered:
            self._out_again.add(part)
        self._lock_keys(part, consumer.session.name)
        return part

    def _take_out(self, consumer: Consumer, portion: Portion) -> None:
        consumer.out.remove(portion)
        consumer.count -= len(portion.offsets)
        consumer.bytes -= portion.bytes
