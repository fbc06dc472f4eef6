"""Durable subscriptions that this broker holds, and who consumes them.

To the stack each of them is a reader of its own (`ClientSession.is_inner`): a direction with a name that no client can
have, which takes something when a consumer has acknowledged it. Where a subscription lives, and who knows of it, is the
stack's business; it calls `open` and `close`.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from resprout.core.bundle import Bundle, UnpackedBundle, whole
from resprout.core.contract import Effect, Send, SetTimer
from resprout.core.errors import BoundError
from resprout.core.guarantee import Guarantee
from resprout.core.message_fields import NUMBER_MAX, Marks, next_number
from resprout.core.message_ids import WINDOW_US
from resprout.edge.broker.portion import Consumer, Portion, disjoint
from resprout.edge.broker.ports import SpillPatience
from resprout.edge.broker.quotas import party_of
from resprout.edge.broker.repeats import Repeats
from resprout.edge.broker.retries import Retries
from resprout.edge.broker.retry_queue import RetryQueue
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.broker.timed import TimesCache
from resprout.edge.durable_messages import (
    NO_DROPS,
    SPANS_MAX,
    Acknowledge,
    Acknowledged,
    Consume,
    Consuming,
    Drops,
    DropsTold,
    DurableDue,
    Handed,
    IdBatches,
    Replayed,
    RetryDue,
    Settle,
    Settlement,
    Spans,
    Standing,
    TakenBack,
    Terms,
    Tries,
    WhenFull,
)
from resprout.edge.messages import GoTo, Successor
from resprout.edge.rights import adopter, fault_of_consumer, sees_terms
from resprout.wire.sizes import ordering_bytes

PREFIX: Final = "="
"""No node may be called so."""
CONSUMERS_MAX: Final = 1_024
"""Of one subscription."""
TURN_LEAP_MAX: Final = 1 << 20
"""So many turns may have been given by a broker that died before it told."""
PEEKED_MAX: Final = 1_000
"""Messages that are shown at once to a client that does not consume."""
PEEKED_BYTES: Final = 1 << 20
WINDOW_MAX: Final = 1 << 16
"""Messages that one consumer may have out."""
WINDOWS_MAX: Final = 1 << 17
"""Messages that the consumers of one identity may have out: all of them come back when these leave together. Each may
use half of what others leave."""
WINDOW_MIN: Final = 256
"""Every consumer gets a window of so many, if it asks for them."""
HANDED_MAX: Final = 4_096
"""Portions of a subscription that are handed out in a step, and one for each consumer. The others follow at once, in
steps of their own."""


def inner_name(subscription: str) -> str:
    """Of the reader that stands for a durable subscription: no client can be called so."""
    return PREFIX + subscription


class HeldDurable:
    """One subscription, where it lives."""

    def __init__(self, name: str, terms: Terms, queue: RetryQueue) -> None:
        self.name = name
        self.terms = terms
        self.queue = queue
        self.owner = ""
        """The identity that it belongs to (`edge.rights`); empty: none."""
        self.is_confirmed = False
        """Nothing that matches is missed, and whoever may have to hold it one day knows of it."""
        self.turn = 0
        """Of the consumer that has it alone."""
        self.term = 1
        self.edition = 0
        self.base: Marks = ()
        """For the stack: how many brokers have held it, what was said of it, and what had passed before it."""
        self.changes = 0
        """For the stack: how often its consumers have changed since the last sign of life."""
        self.awaited: set[str] = set()
        """Consumers of the broker that held it before: they know what they have, and what they have done."""
        self.awaited_until_us = 0
        self.notice_us = 0
        """When consumers are told of dropped messages, unless somebody is handed something before; 0: nothing is to be
        told."""
        self.retry_us = 0
        """When the queue is looked at again because of time (`RetryDue`); 0: not yet planned."""
        self.steps: dict[Any, Any] = {}
        """For the stack: follow-ups that are not safe."""
        self.follow_ups = 0
        """Follow-ups that are safe, of this broker."""
        self.replay = ""
        """What of the past a consumer has to read first."""
        self.missing = ""
        """Why messages may be missing; told to the next consumer."""


class Consumers:
    def __init__(
        self,
        sessions: ClientSessions,
        changed: Callable[[HeldDurable], None],
        patience: SpillPatience | None = None,
        share_bytes: int = 1 << 62,
        notice_delay_us: int = 0,
        epoch_us: int = 0,
        repeats_us: int = WINDOW_US,
    ) -> None:
        """`changed` is told when a subscription has other consumers than before. `patience` is told of what may wait on
        disk. `share_bytes`: what a subscription that drops the oldest may be owed. `notice_delay_us`: so long a notice
        of dropped messages waits for something that is handed out. `epoch_us`: time 0 in microseconds since 1970.
        `repeats_us`: so long repeats of a message are recognised by its id."""
        self._repeats_us = repeats_us
        self._sessions = sessions
        self._changed = changed
        self._patience = patience
        self._share_bytes = share_bytes
        self._notice_delay_us = notice_delay_us
        self._epoch_us = epoch_us
        self.held: dict[str, HeldDurable] = {}
        self._of: dict[str, HeldDurable] = {}
        """By the name of a consumer's session."""
        self._windows: Counter[str] = Counter()
        """By identity, or client: the windows of its consumers together."""
        self._times = TimesCache()
        self._picker = _Picker()

    @property
    def waking(self) -> dict[str, ClientSession]:
        """Sessions with something to be handed out, or with room for it."""
        return self._sessions.waking

    # -- subscriptions -------------------------------------------------------------------------------------------------

    def open(
        self,
        name: str,
        terms: Terms,
        done: Marks = (),
        spans: Spans = (),
        drops: Drops = NO_DROPS,
        tries: tuple[Tries, ...] = (),
        ids: IdBatches = (),
    ) -> HeldDurable:
        """It lives here from now on. Its session wants nothing yet, and has nothing."""
        session = self._sessions.arrive(inner_name(name), 0, 0)
        session.is_inner = True
        retries = Retries(terms.retry, tries, self._epoch_us, Repeats(self._repeats_us, ids))
        queue = RetryQueue(session, terms.group, self._sessions.took, done, spans, drops, retries)
        queue.times = self._times
        if terms.when_full is WhenFull.SPILL and self._patience is not None:
            queue.patience = self._patience
        held = self.held[name] = HeldDurable(name, terms, queue)
        return held

    def close(self, name: str, standing: Standing, reason: str, out: list[Effect]) -> None:
        """It lives here no longer: its consumers are told why."""
        held = self.held.pop(name)
        for consumer in list(held.queue.consumers.values()):
            self._forget(consumer)
            out.append(Send(consumer.session.name, Consuming(standing, reason)))
        held.queue.empty()
        self._sessions.quotas.end_durable(name)
        self._sessions.leave(inner_name(name), out)

    def move(self, name: str, successor: Successor, out: list[Effect]) -> None:
        """Another broker holds it: its consumers are sent there."""
        held = self.held.pop(name)
        for consumer in list(held.queue.consumers.values()):
            self._forget(consumer)
            out.append(Send(consumer.session.name, GoTo(successor)))
        held.queue.empty()
        self._sessions.quotas.end_durable(name)
        self._sessions.leave(inner_name(name), out)

    def confirmed(self, held: HeldDurable, out: list[Effect]) -> None:
        """Those who wait for it may begin."""
        held.is_confirmed = True
        told = Consuming(Standing.CONSUMER, turn=held.turn, replay=held.replay)
        out.extend([Send(consumer, told) for consumer in held.queue.consumers])
        self._sessions.waking[held.queue.session.name] = held.queue.session

    # -- consumers -----------------------------------------------------------------------------------------------------

    def join(self, held: HeldDurable, session: ClientSession, message: Consume, now_us: int, out: list[Effect]) -> None:
        """It has been told that it is served."""
        refusal = self._refusal(held, session, message)
        if refusal is not None:
            out.append(Send(session.name, refusal))
            return
        queue = held.queue
        held.owner = held.owner or adopter(session, held.name)
        if not held.terms.group:
            held.turn = message.turn or next_number(held.turn)
            for other in list(queue.consumers):
                self._drop(held, other)
                out.append(Send(other, Consuming(Standing.FENCED, "another consumer has taken over")))
            held.awaited.clear()
        self._of[session.name] = held
        queue.drops.heard_before(message.dropped_upto, message.dropped_term >= held.term)
        queue.retries.now_us = now_us
        left = WINDOWS_MAX - self._windows[party_of(session)]
        window = min(message.window, WINDOW_MAX, max(left // 2, WINDOW_MIN))
        self._windows[party_of(session)] += window
        consumer = Consumer(session, window, message.has[:SPANS_MAX])
        queue.join(consumer, message.done[:SPANS_MAX])
        held.awaited.discard(session.name)
        if held.is_confirmed:
            told = Consuming(Standing.CONSUMER, turn=held.turn, replay=held.replay)
            out.append(Send(session.name, told))
        self._sessions.waking[queue.session.name] = queue.session
        self._changed(held)

    def _refusal(self, held: HeldDurable, session: ClientSession, message: Consume) -> Consuming | None:
        if fault := fault_of_consumer(session, held.name, held.owner):
            return Consuming(Standing.REFUSED, fault)
        if message.terms != held.terms and not sees_terms(session, held.name, held.owner):
            return Consuming(Standing.DIFFERENT, f"{held.name!r} is there already, with other terms")
        if message.terms != held.terms:
            return Consuming(Standing.DIFFERENT, f"{held.name!r} is there already, and is {_told(held.terms)}")
        if held.missing:
            reason, held.missing = held.missing, ""
            return Consuming(Standing.INCOMPLETE, reason)
        if not held.terms.group and message.turn > held.turn + TURN_LEAP_MAX:
            return Consuming(Standing.REFUSED, f"nobody was given turn {message.turn}")
        if not held.terms.group and message.turn and message.turn < held.turn:
            return Consuming(Standing.FENCED, "another consumer has taken over")
        if len(held.queue.consumers) >= CONSUMERS_MAX:
            return Consuming(Standing.REFUSED, f"{held.name!r} has {CONSUMERS_MAX} consumers, and no room for more")
        return None

    def leave(self, name: str) -> None:
        """The session of somebody is over."""
        held = self._of.get(name)
        if held is not None:
            self._drop(held, name)
            self._changed(held)

    def of(self, name: str) -> HeldDurable | None:
        """What this one consumes."""
        return self._of.get(name)

    def _forget(self, consumer: Consumer) -> None:
        """It is no consumer of any subscription any more."""
        del self._of[consumer.session.name]
        party = party_of(consumer.session)
        self._windows[party] -= consumer.window
        if not self._windows[party]:
            del self._windows[party]

    def _drop(self, held: HeldDurable, consumer: str) -> None:
        self._forget(held.queue.consumers[consumer])
        held.queue.leave(consumer)
        self._sessions.waking[held.queue.session.name] = held.queue.session

    def acknowledge(self, session: ClientSession, message: Acknowledge) -> None:
        held = self._of.get(session.name)
        if held is None:
            return  # it was fenced off, and has not heard
        if len(message.spans) > SPANS_MAX:
            raise BoundError(f"{len(message.spans)} acknowledgements at once; at most {SPANS_MAX}")
        _check_order(message.spans, "acknowledged")
        for span in disjoint(message.spans):
            held.queue.acknowledge(session.name, span)
        consumer = held.queue.consumers[session.name]
        if 0 < consumer.notice <= message.dropped_upto:
            held.queue.drops.heard(consumer.notice)
            consumer.notice = 0
        self._sessions.waking[held.queue.session.name] = held.queue.session

    def settle(self, session: ClientSession, message: Settle, now_us: int) -> None:
        """A consumer does not acknowledge messages, or not yet."""
        held = self._of.get(session.name)
        if held is None:
            return  # it was fenced off, and has not heard
        if held.terms.retry is None:
            raise BoundError(f"{held.name!r} has no policy for messages that are not acknowledged")
        if len(message.spans) > SPANS_MAX:
            raise BoundError(f"{len(message.spans)} spans of messages at once; at most {SPANS_MAX}")
        queue = held.queue
        queue.retries.now_us = now_us
        _check_order(message.spans, "not acknowledged")
        for span in disjoint(message.spans):
            if message.settlement is Settlement.IN_PROGRESS:
                queue.extend(session.name, span)
            elif message.settlement is Settlement.TERM:
                queue.terminate(session.name, span, message.reason)
            else:
                queue.nack(session.name, span, now_us + message.delay_us if message.delay_us else 0)
        self._sessions.waking[queue.session.name] = queue.session

    def replayed(self, session: ClientSession, message: Replayed) -> None:
        held = self._of.get(session.name)
        if held is not None and held.replay:
            held.replay = ""
            self._changed(held)

    # -- handing out ---------------------------------------------------------------------------------------------------

    def hand_out(self, now_us: int, out: list[Effect]) -> None:
        """At the end of a step in which somebody was woken."""
        woken = list(self._sessions.waking)
        self._sessions.waking.clear()
        todo: dict[str, HeldDurable] = {}
        for name in woken:
            held = self.held.get(name[1:]) if name.startswith(PREFIX) else self._of.get(name)
            if held is not None:
                todo[held.name] = held
        for held in todo.values():
            self._serve(held, now_us, out)
        self._forget_bundles()

    def _serve(self, held: HeldDurable, now_us: int, out: list[Effect]) -> None:
        queue = held.queue
        queue.retries.now_us = now_us
        queue.fill()
        queue.release_due()
        queue.drop_expired()
        for name, spans in queue.take_back_overdue().items():
            starts = range(0, len(spans), SPANS_MAX)
            out.extend([Send(name, TakenBack(tuple(spans[at : at + SPANS_MAX]))) for at in starts])
        is_awaiting = bool(held.awaited) and now_us < held.awaited_until_us
        if not is_awaiting:
            queue.decide_repeats(is_final=True)
        if held.terms.when_full is WhenFull.DROP_OLDEST:
            # Consumers that return may have what seems to wait.
            queue.drop_oldest(NUMBER_MAX if is_awaiting else held.terms.max_pending, self._share_bytes)
        goes_on = False
        if held.is_confirmed and not is_awaiting:
            consumers = list(queue.consumers.values())
            for consumer in consumers:
                consumer.portions_left = HANDED_MAX // len(consumers) + 1
            queue.hand_out(lambda consumer, portion: self._give(held, consumer, portion, out))
            goes_on = any(not consumer.portions_left for consumer in consumers)
            self._plan_notice(held, now_us, out)
        next_us = max(now_us, 1) if goes_on else queue.retries.next_us()
        if queue.retries.dead or held.steps:  # their publications are looked for, with a timer that a run waits for
            next_us = min(next_us or NUMBER_MAX, now_us + self._notice_delay_us)
        if next_us and (not held.retry_us or next_us < held.retry_us):
            held.retry_us = next_us
            out.append(SetTimer(RetryDue(held.name), next_us))

    def _plan_notice(self, held: HeldDurable, now_us: int, out: list[Effect]) -> None:
        """Tell a consumer of dropped messages soon, also if nothing more is handed out."""
        if not held.queue.drops.untold or not held.queue.consumers:
            held.notice_us = 0
        elif not held.notice_us:
            held.notice_us = now_us + self._notice_delay_us
            out.append(SetTimer(DurableDue(held.name), held.notice_us))
        elif now_us >= held.notice_us:
            held.notice_us = 0
            self._tell_drops(held, next(iter(held.queue.consumers.values())), out)

    def _tell_drops(self, held: HeldDurable, consumer: Consumer, out: list[Effect]) -> None:
        drops = held.queue.drops
        if drops.untold:
            consumer.notice = drops.messages
            out.append(Send(consumer.session.name, DropsTold(drops.untold, drops.messages, held.term)))
            drops.tell()

    def _give(self, held: HeldDurable, consumer: Consumer, portion: Portion, out: list[Effect]) -> None:
        self._tell_drops(held, consumer, out)
        handed = self._picker.handed(portion, portion.offsets)
        consumer.session.room -= handed.bundle.cost
        consumer.portions_left -= 1
        out.append(Send(consumer.session.name, handed))

    def peek(self, held: HeldDurable, session: ClientSession, count: int, out: list[Effect]) -> None:
        """Show a client the next messages that wait, as many as may be shown at once."""
        held.queue.fill()
        left, room = min(count, PEEKED_MAX), PEEKED_BYTES
        for portion in held.queue.waiting_portions():
            if not left or room <= 0:
                break
            handed = self._picker.handed(portion, portion.offsets[:left])
            left -= handed.bundle.count
            room -= handed.bundle.cost
            out.append(Send(session.name, handed))
        self._forget_bundles()

    def _forget_bundles(self) -> None:
        self._times.clear()
        self._picker.clear()

    # -- how far it has come -------------------------------------------------------------------------------------------

    def progress(self, held: HeldDurable) -> tuple[Marks, Spans]:
        """What is done since this was asked last."""
        return held.queue.progress() if held.queue.dirty else ((), ())

    def is_busy(self, name: str) -> bool:
        """Whether a consumer has messages whose time to be acknowledged is not over."""
        held = self._of.get(name)
        if held is None or held.terms.retry is None or not held.terms.retry.ack_wait_us:
            return False
        return held.queue.consumers[name].count > 0

    def tell(self, held: HeldDurable, message: Acknowledged, out: list[Effect]) -> None:
        """What consumers need not remember any longer, or have to; unless it is nothing."""
        if (message.marks or message.spans) and held.is_confirmed:
            out.extend([Send(consumer, message) for consumer in held.queue.consumers])


def _check_order(spans: Spans, what: str) -> None:
    for span in spans:
        if not 0 < span.first <= span.last:
            raise BoundError(f"publications {span.first} to {span.last} are {what}")


class _Picker:
    """Hands out parts of bundles. A bundle of which a thousand parts are handed out in a step is unpacked once."""

    def __init__(self) -> None:
        self._bundle: Bundle | None = None
        """Bundle that was unpacked last, as its item has it."""
        self._unpacked: UnpackedBundle | None = None

    def handed(self, portion: Portion, offsets: Sequence[int]) -> Handed:
        """Return the message that gives these messages of a portion to a consumer."""
        item, bundle = portion.item, portion.bundle
        picked = None if len(offsets) == bundle.count else tuple(offsets)
        given = whole(bundle) if picked is None else self._unpack(bundle).pick(picked)
        tseq = item.place if bundle.guarantee is Guarantee.TOTAL else -1
        size = ordering_bytes(bundle, item.hops)
        return Handed(given, item.hops, size, picked, tseq, portion.redelivered, next_number(portion.tries))

    def _unpack(self, bundle: Bundle) -> UnpackedBundle:
        if self._unpacked is None or bundle is not self._bundle:
            self._bundle, self._unpacked = bundle, UnpackedBundle(whole(bundle))
        return self._unpacked

    def clear(self) -> None:
        self._bundle = self._unpacked = None


def _told(terms: Terms) -> str:
    """What was asked for, in words, for whoever asks for something else under the same name."""
    filter = terms.filter if terms.where is None else f"{terms.filter} where {terms.where}"
    kind = "a group on" if terms.group else "one on"
    most = f", with at most {terms.max_pending} waiting messages" if terms.when_full is WhenFull.DROP_OLDEST else ""
    where = ", with its backlog on disk" if terms.when_full is WhenFull.SPILL else ""
    retry = terms.retry
    again = "" if retry is None else (
        f", with max_deliver {retry.max_deliver or 'none'}, ack_wait {retry.ack_wait_us / 1e6:g} s and dead letters on"
        f" {retry.topic}"
    )  # fmt: skip
    return f"{kind} {filter}{most}{where}{again}"
