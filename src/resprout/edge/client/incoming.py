"""What a client is given: unpacked, positioned, and acknowledged when its application has it.

Positions and watermarks go on whatever broker serves. Acknowledgements do not: each broker hears only of what it gave
itself, and what the application takes of an earlier session concerns nobody any more.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise, repeat

from msgspec.structs import replace

from resprout.core.bundle import unpack_attributes, unpack_payloads
from resprout.core.contract import Answer, CancelTimer, Deliver, Effect, Hold, Release, Send, SetTimer
from resprout.core.errors import UsageError, WireError
from resprout.core.guarantee import Guarantee
from resprout.core.limits import AttributeValue
from resprout.core.message import Message
from resprout.core.seen import Seen
from resprout.core.timing import has_expired
from resprout.edge.client.delayed import (
    MESSAGE_BYTES,
    TOO_MUCH,
    DelayedMessages,
    SortedOut,
    sort_out,
    spans_at,
    spans_of,
)
from resprout.edge.client.options import ClientOptions, DelayOver, TellTaken
from resprout.edge.durable_messages import Span
from resprout.edge.messages import (
    TOPIC_PLACES_MAX,
    DeliveriesDropped,
    Delivery,
    DropsAcknowledged,
    RetainedDelivery,
    Taken,
    TopicPlace,
)  # fmt: skip
from resprout.edge.requests import DeliveriesExpired, DeliveriesSkipped, SubscribeRequest

LOOK_AGAIN_US = 3_600_000_000
"""A timer for a message that is due later is set anew after so long: timers of drivers have bounds."""

_NO_SESSION = -1
"""Of a delivery that no broker has given in a session: delayed messages whose time has come."""


class Incoming:
    """The deliveries of one client: positions, watermarks, and acknowledgements to the broker."""

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        self.clock = 0
        """The highest stamp seen so far."""
        self.received = Seen()
        """How far each origin has come here."""
        self.places: dict[str, int] = {}
        """How far topics with an order of their own have come here."""
        self._position = 0
        self._session = 0
        self._untaken: deque[tuple[int, bool, int]] = deque()
        """Deliveries that the application has not taken: size, whether the publisher waits, session. The size is 0 of
        one that it never takes, because nothing of it is delivered; the first one is none of these."""
        self._never_taken = 0
        """Of these, the ones of size 0."""
        self._delayed = DelayedMessages()
        self._delay_set_us = 0
        """For when the timer of delayed messages is set; 0: it is not."""
        self.untaken_bytes = 0
        self._awaited = False
        """Whether a publisher waits for the acknowledgement of what was taken last."""
        self._holding = False
        self.taken = 0
        """Deliveries of this session that the application has; the broker was told of the first `told`."""
        self.told = 0
        self._drop_notices = 0
        """Notices of dropped messages that came in this session."""
        self._timer_set = False

    def begin_session(self, broker: str, out: list[Effect]) -> None:
        self._session += 1
        self.taken = self.told = self._drop_notices = 0
        self._awaited = False
        self._holding = self.untaken_bytes > self._options.untaken_bytes_max
        if self._holding:
            out.append(Hold(broker))

    @property
    def awaited(self) -> bool:
        """Whether a publisher waits for the acknowledgement of the delivery that the application takes next."""
        return bool(self._untaken) and self._untaken[0][1]

    def deliver(self, message: Delivery, broker: str, now_us: int, out: list[Effect]) -> None:
        """Unpack a delivery for the application. Raises WireError, with nothing done, for what no honest broker
        sends."""
        bundle, offsets = message.bundle, message.offsets
        first = bundle.first
        seqs = range(first, bundle.last + 1) if offsets is None else _numbers(message)
        if not seqs:
            raise WireError(f"nothing is in {bundle!r}")
        try:
            payloads, rows = unpack_payloads(bundle), unpack_attributes(bundle)
        except WireError as error:
            self._leave_out(message, seqs[-1], str(error), out)
            return
        share = -(-message.metadata_bytes // bundle.count)
        self.clock = max(self.clock, bundle.stamp)
        self.received.raise_to(bundle.origin, seqs[-1])
        if bundle.attributes and (sorted_out := sort_out(bundle, rows, self._wall_us(now_us))) is not None:
            self._deliver_part(message, seqs, rows, payloads, sorted_out, broker, now_us, out)
            return
        position = self._position
        self._position += bundle.count
        if self._options.takes_at_once:
            self.taken += 1
            self._awaited |= message.prompt
        else:
            self._keep(message, broker, out)
        messages = map(
            Message, repeat(bundle.publisher), repeat(bundle.incarnation), seqs, repeat(bundle.topic),
            repeat(bundle.keys), repeat(bundle.guarantee), rows, payloads, range(position, self._position),
            repeat(message.hops), repeat(share), repeat(-1) if message.tseq < 0 else _places(message, seqs),
        )  # fmt: skip
        out.append(Deliver(list(messages)))

    def _deliver_part(
        self,
        message: Delivery,
        seqs: Sequence[int],
        rows: Sequence[dict[str, AttributeValue]],
        payloads: Sequence[bytes],
        found: SortedOut,
        broker: str,
        now_us: int,
        out: list[Effect],
    ) -> None:
        """Deliver what is due and has not expired; keep what is delayed."""
        bundle, share = message.bundle, -(-message.metadata_bytes // message.bundle.count)
        places = [-1] * len(seqs) if message.tseq < 0 else list(_places(message, seqs))

        def unpack(at: int, position: int) -> Message:
            return Message(
                bundle.publisher, bundle.incarnation, seqs[at], bundle.topic, bundle.keys, bundle.guarantee, rows[at],
                payloads[at], position, message.hops, share, places[at],
            )  # fmt: skip

        if found.expired:
            out.append(Answer(DeliveriesExpired(spans_at(bundle, seqs, found.expired))))
        dropped = [each for at, due_us in found.due.items() for each in self._delayed.add(unpack(at, -1), due_us)]
        if dropped:
            out.append(Answer(DeliveriesSkipped(spans_of(dropped), TOO_MUCH)))
        self._wait_for_delayed(now_us, out)
        if self._options.takes_at_once:
            self.taken += 1
            self._awaited |= message.prompt
        elif found.now:
            self._keep(message, broker, out)
        else:
            self._untaken.append((0, message.prompt, self._session))
            self._never_taken += 1
            self._pass_over()
        if found.now:
            position = self._position
            self._position += len(found.now)
            out.append(Deliver([unpack(at, position + number) for number, at in enumerate(found.now)]))

    def deliver_delayed(
        self, now_us: int, is_wanted: Callable[[Message], bool], broker: str, out: list[Effect]
    ) -> None:
        """Deliver messages whose time has come, unless they have expired, or their subscription is over."""
        wall_us = self._wall_us(now_us)
        self._delay_set_us = 0
        if wall_us is None:
            return
        due: list[Message] = []
        for message in self._delayed.take_due(wall_us):
            if has_expired(message.attributes, wall_us):
                span = Span(message.publisher, message.stream, message.epoch, message.seq, message.seq)
                out.append(Answer(DeliveriesExpired((span,))))
            elif is_wanted(message):
                due.append(replace(message, position=self._position))
                self._position += 1
        self._wait_for_delayed(now_us, out)
        if due:
            if not self._options.takes_at_once:
                size = sum([len(message.payload) + MESSAGE_BYTES for message in due])
                self._count_untaken(size, False, _NO_SESSION, broker, out)
            out.append(Deliver(due))

    def _wait_for_delayed(self, now_us: int, out: list[Effect]) -> None:
        """Set the timer for the first delayed message."""
        next_us = self._delayed.next_us
        if next_us and (not self._delay_set_us or next_us < self._delay_set_us):
            self._delay_set_us = next_us
            at_us = min(next_us - (self._options.epoch_us or 0), now_us + LOOK_AGAIN_US)
            out.append(SetTimer(DelayOver(), at_us))

    def _wall_us(self, now_us: int) -> int | None:
        """Return microseconds since 1970; None where this client does not look at them."""
        epoch_us = self._options.epoch_us
        return None if epoch_us is None else epoch_us + now_us

    def deliver_retained(
        self, message: RetainedDelivery, request: SubscribeRequest, broker: str, out: list[Effect]
    ) -> None:
        """Unpack the last value of a topic for the subscription that begins with it; it has no position. Raises
        WireError like `deliver`."""
        bundle = message.bundle
        payloads, rows = unpack_payloads(bundle), unpack_attributes(bundle)
        self.clock = max(self.clock, bundle.stamp)
        if self._options.takes_at_once:
            self.taken += 1
        else:
            self._keep(message, broker, out)
        seqs = range(bundle.first, bundle.last + 1)
        messages = [
            Message(
                bundle.publisher, bundle.incarnation, seq, bundle.topic, bundle.keys, bundle.guarantee, row, payload,
                -1, tseq=place, retained=True,
            )
            for seq, row, payload, place in zip(seqs, rows, payloads, _places(message, seqs), strict=True)
        ]  # fmt: skip
        out.append(Deliver(messages, request))

    def reach(self, places: Iterable[TopicPlace]) -> None:
        """Note that everything of these topics up to these positions is delivered here."""
        for place in places:
            self.places[place.topic] = max(place.position, self.places.get(place.topic, 0))

    def known_places(self) -> tuple[TopicPlace, ...]:
        """Return the positions for the next broker: all of them, or none if they do not fit into a message."""
        if len(self.places) > TOPIC_PLACES_MAX:
            return ()
        return tuple([TopicPlace(topic, position) for topic, position in self.places.items()])

    def _leave_out(self, message: Delivery, last: int, reason: str, out: list[Effect]) -> None:
        """Go on without what cannot be read. Brokers pass columns on unread, so it is not the fault of the one that
        delivers them, and the next one would bring them again."""
        bundle = message.bundle
        self.received.raise_to(bundle.origin, last)
        self.taken += 1
        self._awaited |= message.prompt
        out.append(Answer(DeliveriesSkipped((Span(*bundle.origin, bundle.first, last),), reason)))

    def skip(self, message: DeliveriesDropped, broker: str, out: list[Effect]) -> None:
        """Go on without what the broker has dropped, and acknowledge the notice: nobody has to keep these messages, or
        bring them later. Raises WireError like `deliver`."""
        for span in message.spans:
            if not 0 < span.first <= span.last:
                raise WireError(f"publications {span.first} to {span.last} are dropped")
        for span in message.spans:
            self.received.raise_to(span.origin, span.last)
        self._drop_notices += 1
        out.append(Answer(DeliveriesSkipped(message.spans)))
        out.append(Send(broker, DropsAcknowledged(self._drop_notices)))

    def _keep(self, message: Delivery, broker: str, out: list[Effect]) -> None:
        size = message.bundle.cost + MESSAGE_BYTES * message.bundle.count
        self._count_untaken(size, message.prompt, self._session, broker, out)

    def _count_untaken(self, size: int, prompt: bool, session: int, broker: str, out: list[Effect]) -> None:
        self._untaken.append((size, prompt, session))
        self.untaken_bytes += size
        if self.untaken_bytes > self._options.untaken_bytes_max and not self._holding:
            self._holding = True
            out.append(Hold(broker))

    def take(self, deliveries: int, broker: str, out: list[Effect]) -> None:
        """Note that the application has taken so many more deliveries, of this session or of earlier ones."""
        waiting = len(self._untaken) - self._never_taken
        if not 0 <= deliveries <= waiting:
            raise UsageError(f"{deliveries} deliveries taken, {waiting} waiting")
        for _ in range(deliveries):
            size, prompt, session = self._untaken.popleft()
            self.untaken_bytes -= size
            if session == self._session:
                self.taken += 1
                self._awaited |= prompt
            if self._never_taken:
                self._pass_over()
        if self._holding and self.untaken_bytes < self._options.untaken_bytes_max // 2:
            self._holding = False
            out.append(Release(broker))

    def _pass_over(self) -> None:
        """Count as taken what nobody takes, once everything before it is taken."""
        while self._untaken and self._untaken[0][0] == 0:
            _, prompt, session = self._untaken.popleft()
            self._never_taken -= 1
            if session == self._session:
                self.taken += 1
                self._awaited |= prompt

    def tell_soon(self, broker: str, now_us: int, out: list[Effect]) -> None:
        """Acknowledge now if a publisher waits or many are due, otherwise after a delay."""
        waiting = self.taken - self.told
        if waiting >= self._options.take_deliveries or (waiting and self._awaited):
            self.tell(broker, out)
        elif waiting and not self._timer_set:
            self._timer_set = True
            out.append(SetTimer(TellTaken(), now_us + self._options.take_delay_us))

    def tell(self, broker: str, out: list[Effect]) -> None:
        """Acknowledge everything that the application has taken (`Taken`)."""
        if self.told < self.taken:
            self.told = self.taken
            self._awaited = False
            out.append(Send(broker, Taken(self.told)))
            if self._timer_set:
                self._timer_set = False
                out.append(CancelTimer(TellTaken()))

    def timer_fired(self) -> None:
        self._timer_set = False


def _places(message: Delivery, seqs: Sequence[int]) -> Iterable[int]:
    """Return the place of each message in the total order; -1 for a message without one."""
    if message.bundle.guarantee is not Guarantee.TOTAL:
        return repeat(-1)
    begin = message.tseq - message.bundle.first
    return [begin + seq for seq in seqs]


def _numbers(message: Delivery) -> list[int]:
    """Return the sequence numbers of the messages that a content filter picked from a bundle."""
    bundle, offsets = message.bundle, message.offsets
    assert offsets is not None
    if len(offsets) != bundle.count:
        raise WireError(f"{len(offsets)} offsets for {bundle!r}")
    if any(after <= before for before, after in pairwise(offsets)):
        raise WireError(f"the offsets for {bundle!r} do not rise")
    first = bundle.first
    return [first + offset for offset in offsets]
