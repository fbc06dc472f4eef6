"""The consumer's half of a durable subscription, as a pure machine.

A consumer is a client of its own, with a session in which it does nothing else. It remembers what it was handed and has
not acknowledged, and what it has acknowledged lately: when its broker is gone, the next one is told both, so that
nothing is handed to it twice and nothing that it did is done again. What it acknowledges while there is no broker is
told to the next.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from resprout.core.bundle import Origin, unpack_attributes, unpack_payloads
from resprout.core.contract import (
    Answer,
    Deliver,
    Effect,
    EndCause,
    EndCode,
    Event,
    Heard,
    LinkDown,
    LinkUp,
    Received,
    Request,
    Send,
    Silent,
    TimerFired,
)
from resprout.core.errors import WireError
from resprout.core.guarantee import Guarantee
from resprout.core.limits import BUNDLE_MESSAGES
from resprout.core.message import Message
from resprout.core.seen import Ranges, as_ranges
from resprout.core.timing import has_expired, is_timed
from resprout.edge.client.follow_ups import FollowUpsAsked
from resprout.edge.client.options import ClientOptions
from resprout.edge.client.search import BrokerSearch
from resprout.edge.durable_messages import (
    SPANS_MAX,
    Acknowledge,
    Acknowledged,
    Consume,
    Consuming,
    DropsTold,
    DurableAction,
    EndSubscription,
    FollowedUp,
    Handed,
    Replayed,
    Settle,
    Settlement,
    Span,
    Standing,
    TakenBack,
    Terms,
)
from resprout.edge.messages import GoTo, HoldTold, Serving, Successors
from resprout.edge.requests import (
    AcknowledgeRequest,
    BrokerChanged,
    ConsumerBegan,
    ConsumerOver,
    DeliveriesExpired,
    DroppedBefore,
    EndRequest,
    FollowUpAnswered,
    FollowUpRequest,
    LeaveRequest,
    ReplayedRequest,
    SettleRequest,
)
from resprout.values.rows import is_retained

WINDOW: Final = 4_096
"""Messages that a consumer which has a subscription alone may be handed before it has acknowledged any."""
GROUP_WINDOW: Final = 64
"""The same of one that shares. Fewer: work is shared more evenly; more: the way to the broker costs less."""


LATE_KEPT: Final = 1 << 16
"""Messages that were taken back from it and whose acknowledgement would still count."""
TERMINATED_KEPT: Final = 1_000
"""Rejections that are said again to the next broker. One of more may be lost with its broker: then the message is
handed out again."""


class ConsumerMachine:
    def __init__(
        self,
        name: str,
        incarnation: int,
        broker: str,
        subscription: str,
        terms: Terms,
        *,
        window: int | None = None,
        options: ClientOptions | None = None,
        others: Sequence[str] = (),
        ends: bool = False,
        replay: str = "",
        action: DurableAction = DurableAction.CONSUME,
    ) -> None:
        """`name`: of the consumer. `others`: brokers to turn to when the first one cannot be reached. `ends`: it
        consumes nothing, and says that the subscription is over."""
        self.name = name
        self.incarnation = incarnation
        self.subscription = subscription
        self.terms = terms
        self.standing: Standing | None = None
        """What it is to the subscription; None until it was told."""
        self._window = window or (GROUP_WINDOW if terms.group else WINDOW)
        options = options or ClientOptions()
        self._search = BrokerSearch(broker, options.patience_us, others)
        self._epoch_us = options.epoch_us
        self._over = False
        self._turn = 0
        self._position = 0
        self._has: dict[Origin, set[int]] = {}
        """Handed, and not acknowledged."""
        self._done: dict[Origin, Ranges] = {}
        """Acknowledged, and perhaps not known everywhere."""
        self._late: dict[tuple[Origin, int], None] = {}
        """Taken back by the broker because they took too long; an acknowledgement of them still counts."""
        self._terminated: dict[Span, str] = {}
        """Rejected for good, with the reason, and perhaps not known everywhere: said again to the next broker."""
        self._follow_ups = FollowUpsAsked()
        self._since: list[Span] = []
        """Of that, what the broker that is asked to serve was not told when it was asked."""
        self._last: dict[Origin, int] = {}
        """Of one that has the subscription alone: the last number that it was handed."""
        self._dropped_upto = self._dropped_term = 0
        """The latest count of dropped messages that it was told, and by which broker of the subscription."""
        self._ending = False
        self._ends = ends
        self._action = action
        self._replay = replay
        self._has_replayed = False
        self._on_event: dict[type, Callable[[Any, int, list[Effect]], None]] = {
            Received: self._received,
            Request: self._requested,
            TimerFired: lambda event, now_us, out: self._search.fired(event.timer, now_us, out),
            LinkUp: self._link_up,
            LinkDown: self._link_down,
            Silent: lambda event, now_us, out: self._search.silent(event.peer, event.refused, now_us, out),
            Heard: lambda event, now_us, out: self._search.heard(event.peer, out),
        }
        self._on_message: dict[type, Callable[[Any, int, list[Effect]], None]] = {
            Handed: self._handed,
            DropsTold: self._told_of_drops,
            TakenBack: self._taken_back,
            FollowedUp: self._followed_up,
            Consuming: self._told,
            Acknowledged: self._acknowledged,
            Successors: lambda message, now_us, out: self._search.learn(message.successors, out),
            GoTo: lambda message, now_us, out: self._search.go_to(self.broker, message.successor, now_us, out),
        }

    def release(self) -> None:
        """Break the reference cycles of this object, which is not used any more, so that it is freed at once."""
        self._on_event.clear()
        self._on_message.clear()

    def _is_in_order(self, origin: Origin) -> bool:
        """Whether it is handed an origin in order, without anything that comes back, or is due, later."""
        return not self.terms.group and self.terms.retry is None and origin[1] != Guarantee.EVENTUAL.stream

    @property
    def broker(self) -> str:
        """Holds the subscription, or did so last, or will be the first to be asked."""
        return self._search.home

    def start(self, now_us: int) -> Sequence[Effect]:
        out: list[Effect] = []
        self._search.start(now_us, out)
        return out

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        out: list[Effect] = []
        handler = self._on_event.get(type(event))
        if handler is not None and not self._over:
            handler(event, now_us, out)
        return out

    # -- what the program wants ----------------------------------------------------------------------------------------

    def _requested(self, event: Request, now_us: int, out: list[Effect]) -> None:
        request = event.body
        if isinstance(request, AcknowledgeRequest):
            self._acknowledge(request.messages, out)
        elif isinstance(request, SettleRequest):
            self._settle(request, out)
        elif isinstance(request, FollowUpRequest):
            self._follow_ups.ask(request)
            self._say_follow_ups(out)
        elif isinstance(request, ReplayedRequest):
            self._has_replayed = True
            if self._search.stands:
                out.append(Send(self.broker, Replayed()))
        elif isinstance(request, EndRequest):
            self._ending = True
            if self._search.stands:
                out.append(Send(self.broker, EndSubscription()))
        elif isinstance(request, LeaveRequest):
            self._stop("the consumer leaves", out)

    def _acknowledge(self, messages: Iterable[Message], out: list[Effect]) -> None:
        """What it does not have, or not any more, is passed over."""
        new: dict[Origin, list[int]] = {}
        for message in messages:
            origin = (message.publisher, message.stream, message.epoch)
            if self._let_go(origin, message.seq) or self._late.pop((origin, message.seq), 0) is None:
                new.setdefault(origin, []).append(message.seq)
        spans = _spans(new)
        for span in spans:
            self._done.setdefault(span.origin, Ranges()).add(span.first, span.last)
        if self._search.candidate is not None:
            self._since += spans
        if self._search.stands:
            self._say(spans, out)

    def _say_follow_ups(self, out: list[Effect]) -> None:
        if self._search.stands:
            out.extend([Send(self.broker, each) for each in self._follow_ups.take_room()])

    def _followed_up(self, message: FollowedUp, now_us: int, out: list[Effect]) -> None:
        span, asked = message.span, self._follow_ups.answered(message.span)
        if asked is None:
            return
        if not message.reason:
            self._let_go(span.origin, span.first)
            self._late.pop((span.origin, span.first), None)
            self._done.setdefault(span.origin, Ranges()).add(span.first, span.first)
        out.append(Answer(FollowUpAnswered(asked.message, message.reason)))
        self._say_follow_ups(out)

    def _let_go(self, origin: Origin, seq: int) -> bool:
        """Whether it had this message, which it has no longer."""
        has = self._has.get(origin)
        if has is None or seq not in has:
            return False
        has.remove(seq)
        if not has:
            del self._has[origin]
        return True

    def _settle(self, request: SettleRequest, out: list[Effect]) -> None:
        """Say something else of messages that it has. What the broker does not hear is handed out again anyway, except
        for a rejection, which is said again to the next broker."""
        seqs: dict[Origin, list[int]] = {}
        for message in request.messages:
            origin = (message.publisher, message.stream, message.epoch)
            is_kept = request.settlement is Settlement.IN_PROGRESS
            has = message.seq in self._has.get(origin, ()) if is_kept else self._let_go(origin, message.seq)
            if has:
                seqs.setdefault(origin, []).append(message.seq)
        spans = _spans(seqs)
        if request.settlement is Settlement.TERM:
            self._terminated.update(dict.fromkeys(spans, request.reason))
            while len(self._terminated) > TERMINATED_KEPT:
                del self._terminated[next(iter(self._terminated))]
        if spans and self._search.stands:
            out.append(Send(self.broker, Settle(request.settlement, tuple(spans), request.delay_us, request.reason)))

    def _say(self, spans: list[Span], out: list[Effect]) -> None:
        starts = range(0, len(spans), SPANS_MAX)
        out.extend(
            [Send(self.broker, Acknowledge(tuple(spans[at : at + SPANS_MAX]), self._dropped_upto)) for at in starts]
        )

    # -- sessions ------------------------------------------------------------------------------------------------------

    def _link_up(self, event: LinkUp, now_us: int, out: list[Effect]) -> None:
        if self._search.up(event.peer, now_us, out):
            done: list[Span] = []
            for origin, ranges in self._done.items():
                if ranges.upto:
                    done.append(Span(*origin, 1, ranges.upto))
                done += [Span(*origin, first, last) for first, last in ranges.islands()]
            has = [*_spans({origin: sorted(seqs) for origin, seqs in self._has.items()}), *self._terminated]
            asked = Consume(
                self.subscription,
                self.terms,
                self._window,
                self._turn,
                tuple(done[-SPANS_MAX:]),
                tuple(has[:SPANS_MAX]),
                self._ends,
                self._replay,
                self._dropped_upto,
                self._dropped_term,
                self._action,
            )
            out.append(Send(event.peer, asked))
            self._since = []

    def _link_down(self, event: LinkDown, now_us: int, out: list[Effect]) -> None:
        if event.code is not EndCode.NONE:
            self._end(Standing.FENCED if event.code is EndCode.REPLACED else Standing.REFUSED, event.reason, out)
        elif not self._search.was_served and not self._search.searching:
            self._end(Standing.REFUSED, event.reason, out)
        else:
            self._search.down(event.peer, now_us, out, event.cause is EndCause.CLOSED)

    def _received(self, event: Received, now_us: int, out: list[Effect]) -> None:
        search, message = self._search, event.message
        if type(message) is HoldTold:  # a consumer publishes nothing
            return
        try:
            if event.peer == search.candidate:
                if isinstance(message, GoTo):
                    search.go_to(event.peer, message.successor, now_us, out)
                elif isinstance(message, Serving):
                    before = search.home if search.was_served else None
                    search.serves(event.peer, message.successors, now_us, out)
                    if before not in (None, event.peer):
                        out.append(Answer(BrokerChanged(event.peer)))
                    self._say(self._since, out)
                    self._since = []
                    self._follow_ups.begin_again()
                    self._say_follow_ups(out)
                    for span, reason in self._terminated.items():
                        out.append(Send(event.peer, Settle(Settlement.TERM, (span,), 0, reason)))
                    if self._ending:
                        out.append(Send(event.peer, EndSubscription()))
                elif isinstance(message, Consuming):
                    self._told(message, now_us, out)
                else:
                    raise WireError(f"{type(message).__name__} before Serving")
            elif event.peer == search.home and search.stands:
                if search.searching:
                    search.heard(event.peer, out)
                handler = self._on_message.get(type(message))
                if handler is None:
                    raise WireError(f"a broker does not say {type(message).__name__} to a consumer")
                handler(message, now_us, out)
        except WireError as error:
            self._end(Standing.REFUSED, str(error), out)

    def _told(self, message: Consuming, now_us: int, out: list[Effect]) -> None:
        if message.standing is not Standing.CONSUMER:
            self._end(message.standing, message.reason, out)
            return
        self._turn = message.turn
        if self._has_replayed and message.replay:  # its broker died before it told anybody
            out.append(Send(self.broker, Replayed()))
        if self.standing is None:
            out.append(Answer(ConsumerBegan(message.replay, message.turn > 1)))
        self.standing = message.standing

    def _end(self, standing: Standing, reason: str, out: list[Effect]) -> None:
        self._stop(reason, out)
        self.standing = standing
        out.append(Answer(ConsumerOver(standing, reason)))

    def _stop(self, reason: str, out: list[Effect]) -> None:
        self._over = True
        self._search.stop(reason, out)

    # -- what is handed out --------------------------------------------------------------------------------------------

    def _handed(self, message: Handed, now_us: int, out: list[Effect]) -> None:
        """WireError, with nothing done, for what no honest broker sends."""
        messages = self._unpack(message)
        origin = message.bundle.origin
        if messages is None:
            self._leave_out(message, out)
            return
        has, done = self._has.get(origin, set()), self._done.get(origin)
        known = [each for each in messages if done is not None and each.seq in done]
        if known:  # the broker had not heard
            spans = _spans({origin: [each.seq for each in known]})
            out.append(Send(self.broker, Acknowledge(tuple(spans))))
        new = [each for each in messages if each.seq not in has and (done is None or each.seq not in done)]
        new = self._without_expired(message, new, now_us, out)
        if not new:
            return
        self._position += len(new)
        has.update([each.seq for each in new])
        self._has[origin] = has
        if self._late:
            for each in new:
                self._late.pop((origin, each.seq), None)
        if self._is_in_order(origin):
            self._skip(origin, [each.seq for each in new])
        out.append(Deliver(new))

    def _told_of_drops(self, message: DropsTold, now_us: int, out: list[Effect]) -> None:
        self._dropped_upto, self._dropped_term = message.upto, message.term
        out.append(Answer(DroppedBefore(message.messages, message.upto)))

    def _taken_back(self, message: TakenBack, now_us: int, out: list[Effect]) -> None:
        for span in message.spans:
            for seq in range(span.first, min(span.last, span.first + BUNDLE_MESSAGES) + 1):
                if self._let_go(span.origin, seq):
                    self._late[span.origin, seq] = None
        while len(self._late) > LATE_KEPT:
            del self._late[next(iter(self._late))]

    def _skip(self, origin: Origin, seqs: list[int]) -> None:
        """Whoever has a subscription alone is handed each origin in order: what lies between was not for it, and what
        lies before the first was done by others. So little need be remembered of what is done."""
        done = self._done.setdefault(origin, Ranges())
        at = self._last.get(origin, 0)
        for seq in seqs:
            if seq > at:
                if seq > at + 1:
                    done.add(at + 1, seq - 1)
                at = seq
        self._last[origin] = at

    def _leave_out(self, message: Handed, out: list[Effect]) -> None:
        """Go on without what cannot be read, as if it were processed: the next consumer could not read it either."""
        bundle = message.bundle
        seqs = [bundle.first + place for place in _places(message)]
        done = self._done.setdefault(bundle.origin, Ranges())
        for first, last in as_ranges(seqs):
            done.add(first, last)
        out.append(Send(self.broker, Acknowledge(tuple(_spans({bundle.origin: seqs})))))
        out.append(Answer(DroppedBefore(len(seqs))))

    def _without_expired(
        self, message: Handed, messages: list[Message], now_us: int, out: list[Effect]
    ) -> list[Message]:
        """Leave out what has expired on its way, as if it were processed."""
        bundle = message.bundle
        if self._epoch_us is None or not is_timed(bundle.attributes) or is_retained(bundle):
            return messages
        wall_us = self._epoch_us + now_us
        seqs = [each.seq for each in messages if has_expired(each.attributes, wall_us)]
        if not seqs:
            return messages
        spans = _spans({bundle.origin: seqs})
        for span in spans:
            self._done.setdefault(bundle.origin, Ranges()).add(span.first, span.last)
        out.append(Send(self.broker, Acknowledge(tuple(spans), self._dropped_upto)))
        out.append(Answer(DeliveriesExpired(tuple(spans))))
        return [each for each in messages if each.seq not in seqs]

    def _unpack(self, message: Handed) -> list[Message] | None:
        """None when its columns cannot be read: brokers pass them on unread, so that is no fault of this one."""
        bundle = message.bundle
        places = _places(message)
        try:
            payloads, rows = unpack_payloads(bundle), unpack_attributes(bundle)
        except WireError:
            return None
        is_total = bundle.guarantee is Guarantee.TOTAL and message.tseq >= 0
        share = -(-message.metadata_bytes // max(1, bundle.count))
        return [
            Message(
                bundle.publisher, bundle.incarnation, bundle.first + place, bundle.topic, bundle.keys, bundle.guarantee,
                row, payload, self._position + number, message.hops, share, message.tseq + place if is_total else -1,
                message.redelivered, message.deliveries,
            )
            for number, (place, row, payload) in enumerate(zip(places, rows, payloads, strict=True))
        ]  # fmt: skip

    def _acknowledged(self, message: Acknowledged, now_us: int, out: list[Effect]) -> None:
        """Nobody will ask for this any more; or perhaps the next broker does."""
        if not message.known:
            for mark in message.marks:
                self._done.setdefault(mark.origin, Ranges()).add(1, mark.seq)
            for span in message.spans:
                self._done.setdefault(span.origin, Ranges()).add(span.first, span.last)
            return
        for mark in message.marks:
            for span in [span for span in self._terminated if span.origin == mark.origin and span.last <= mark.seq]:
                del self._terminated[span]
            ranges = self._done.get(mark.origin)
            if ranges is not None and not self._is_in_order(mark.origin):
                kept = Ranges()
                for first, last in ((1, ranges.upto), *ranges.islands()):
                    if last > mark.seq:
                        kept.add(max(first, mark.seq + 1), last)
                if kept.has_islands:
                    self._done[mark.origin] = kept
                else:
                    del self._done[mark.origin]


def _places(message: Handed) -> Sequence[int]:
    """Of its messages in the bundle."""
    bundle, offsets = message.bundle, message.offsets
    places = range(bundle.count) if offsets is None else offsets
    if len(places) != bundle.count or sorted(set(places)) != list(places):
        raise WireError(f"the offsets for {bundle!r} are not those of {bundle.count} messages")
    return places


def _spans(seqs: dict[Origin, list[int]]) -> list[Span]:
    return [Span(*origin, first, last) for origin, numbers in seqs.items() for first, last in as_ranges(numbers)]
