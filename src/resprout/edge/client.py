"""The client's half of the edge protocol, as a pure machine.

It numbers and bundles what the application publishes, unpacks and positions what arrives, and keeps receipts as
watermarks: one number per stream and kind. Bundles fill while there is no room to send, or while several requests come
before one `flush`; nothing waits to fill one. Once the network has said what it offers, a publication has its number as
soon as it is asked for, and keeps its place however long the broker is away; requests before that wait, unnumbered, so
that a guarantee that turns out not to be offered leaves no gap in a stream.
"""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise, repeat
from typing import Any

import msgspec

from resprout.core.bundle import unpack_attributes, unpack_payloads
from resprout.core.contract import (
    Answer,
    CancelTimer,
    Close,
    Deliver,
    Effect,
    Event,
    Hold,
    LinkDown,
    LinkUp,
    Open,
    Received,
    Release,
    Request,
    Send,
    SetTimer,
    Timer,
    TimerFired,
    Writable,
)  # fmt: skip
from resprout.core.errors import UnsupportedGuaranteeError, UsageError, WireError
from resprout.core.guarantee import Guarantee, Receipt
from resprout.core.message import Message
from resprout.core.names import check_attributes, check_keys, check_payload, check_topic
from resprout.edge.messages import (
    Advertise,
    Delivery,
    Publish,
    PublishRefused,
    Serving,
    Subscribe,
    Subscribed,
    SubscribeRefused,
    Taken,
    Turned,
    Unadvertise,
    Unsubscribe,
    Unsubscribed,
)  # fmt: skip
from resprout.edge.outgoing import Outgoing
from resprout.edge.requests import (
    AdvertiseRequest,
    ClientRequest,
    FlushRequest,
    LeaveRequest,
    Published,
    PublishRequest,
    ReceiptTurned,
    Refused,
    RoomAgain,
    SessionBegan,
    SessionLost,
    SubscribeRequest,
    SubscriptionConfirmed,
    SubscriptionEnded,
    TakeRequest,
    UnsubscribeRequest,
)  # fmt: skip
from resprout.filters.predicate import parse_predicate

MESSAGE_BYTES = 300
"""What a message takes in memory besides its payload, roughly: small ones must not look like nothing."""


class ClientOptions(msgspec.Struct, frozen=True):
    queue_bytes_max: int = 64 << 20
    """Publications that wait for the broker; beyond that they are refused, which is definite."""
    queue_bytes_high: int = 1 << 20
    """With so much waiting a publisher is asked to pause, until half of it has left."""
    early_max: int = 10_000
    """Publications asked for before the broker was first reached."""
    take_delay_us: int = 20_000
    """How long an acknowledgement of deliveries may wait for company, unless a publisher waits for it."""
    take_deliveries: int = 64
    """Deliveries after which the acknowledgement does not wait."""
    takes_at_once: bool = True
    """A delivery counts as taken when it is handed up. Otherwise the application says so with `TakeRequest`."""
    untaken_bytes_max: int = 32 << 20
    """What may wait for the application before the broker is granted no more; again from half of it on."""


class TellTaken(Timer, frozen=True):
    """When to tell the broker which deliveries the application has."""


class ClientMachine:
    """One client of one broker. Requests in, deliveries and news out."""

    def __init__(self, name: str, incarnation: int, broker: str, options: ClientOptions | None = None) -> None:
        self.name = name
        self.incarnation = incarnation
        self.broker = broker
        self.options = options or ClientOptions()
        self.prompt = True
        """Somebody waits for receipts: the broker shall tell them at once."""
        self.serving: Serving | None = None
        """What the network offers; None until the broker has said it."""
        self._up = False
        self._room = 0
        self.outgoing = self._outgoing = Outgoing(name, incarnation)
        """Where a caller that checks what it publishes may add directly; `FlushRequest` sends it."""
        self._crowded = False
        self._clock = 0
        self._controls: deque[Any] = deque()
        self._early: deque[tuple[PublishRequest, int]] = deque()
        """Publications asked for before the network said what it offers."""
        self._subscriptions: dict[int, SubscribeRequest] = {}
        self._ids: dict[SubscribeRequest, int] = {}
        self._next_id = 1
        self._turned: dict[tuple[str, Receipt], int] = {}
        self._position = 0
        self._untaken: deque[tuple[int, bool]] = deque()
        """Deliveries that the application does not have yet: their sizes, and whether their publishers wait."""
        self._awaited = False
        """Somebody waits to hear that what was taken last is taken."""
        self._untaken_bytes = 0
        self._holding = False
        self._deliveries = 0
        self._told = 0
        self._timer_set = False
        self._on_request: dict[type, Callable[[Any, int, list[Effect]], None]] = {
            PublishRequest: self._publish,
            SubscribeRequest: self._subscribe,
            UnsubscribeRequest: self._unsubscribe,
            AdvertiseRequest: self._advertise,
            TakeRequest: self._take,
            LeaveRequest: self._leave,
        }
        self._on_message: dict[type, Callable[[Any, list[Effect]], None]] = {
            Delivery: self._deliver,
            Turned: self._turn,
            Serving: self._serve,
            Subscribed: self._subscribed,
            SubscribeRefused: self._subscribe_refused,
            Unsubscribed: self._unsubscribed,
            PublishRefused: self._publish_refused,
        }

    def start(self, now_us: int) -> Sequence[Effect]:
        return [Open(self.broker)]

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        out: list[Effect] = []
        if isinstance(event, Received):
            self._received(event, now_us, out)
        elif isinstance(event, Request):
            if type(event.body) is not FlushRequest:
                self.ask(event.body, event.token, out)
            self.flush(out)
            self._tell_taken_soon(now_us, out)
        elif isinstance(event, TimerFired):
            self._timer_set = False
            self._tell_taken(out)
        elif isinstance(event, Writable):
            self._room = event.room
            self.flush(out)
        elif isinstance(event, LinkUp):
            self._up = True
            self._room = event.room
            self._begin_session()
            self.flush(out)
        elif isinstance(event, LinkDown):
            self._up = False
            out.append(Answer(SessionLost(event.reason)))
        return out

    def _begin_session(self) -> None:
        """What an earlier session delivered and the application has not taken is not this broker's business."""
        self._told = self._deliveries = 0
        self._untaken.clear()
        self._untaken_bytes = 0
        self._holding = False

    # -- asking --------------------------------------------------------------------------------------------------------

    def ask(self, request: ClientRequest, token: int, out: list[Effect]) -> None:
        """Take a request without sending yet: several before one `flush` share bundles and frames."""
        try:
            self._on_request[type(request)](request, token, out)
        except UsageError as error:
            out.append(Answer(Refused(request, str(error), definite=True), token))

    def flush(self, out: list[Effect]) -> None:
        """Send what may be sent now."""
        if not self._up or self.serving is None:
            return
        while self._controls:
            out.append(Send(self.broker, self._controls.popleft()))
        while self._room > 0 and (bundle := self._outgoing.next_bundle(self._clock)) is not None:
            self._room -= bundle.cost
            out.append(Send(self.broker, Publish(bundle, self.prompt)))
        if self._crowded and self._outgoing.bytes_waiting <= self.options.queue_bytes_high // 2:
            self._crowded = False
            out.append(Answer(RoomAgain()))

    @property
    def crowded(self) -> bool:
        """So much waits to leave that a publisher who can should pause until `RoomAgain`."""
        if self._outgoing.bytes_waiting > self.options.queue_bytes_high:
            self._crowded = True
        return self._crowded

    def _publish(self, request: PublishRequest, token: int, out: list[Effect]) -> None:
        if self.serving is None:
            if len(self._early) >= self.options.early_max:
                raise UsageError(f"{len(self._early)} publications wait for the broker to be reached")
            self._early.append((request, token))
            return
        self._check_offered(self.serving, request.guarantee)
        if self._outgoing.bytes_waiting > self.options.queue_bytes_max:
            raise UsageError(f"{self._outgoing.bytes_waiting} bytes wait to be published; the broker does not keep up")
        seq = self._outgoing.add(
            check_topic(request.topic),
            check_keys(request.keys),
            request.guarantee,
            check_payload(request.payload),
            check_attributes(request.attributes),
        )
        out.append(Answer(Published(request.guarantee.stream, seq), token))

    @staticmethod
    def _check_offered(serving: Serving, guarantee: Guarantee) -> None:
        if guarantee not in serving.guarantees:
            offered = ", ".join(g.label for g in serving.guarantees)
            raise UnsupportedGuaranteeError(
                f"the stack {serving.stack!r} does not offer {guarantee.label!r}; it offers {offered}"
            )

    def _subscribe(self, request: SubscribeRequest, token: int, out: list[Effect]) -> None:
        parse_predicate(request.filter, request.where)
        if request in self._ids:
            raise UsageError(f"already subscribed to {_describe(request)}")
        id = self._next_id
        self._next_id += 1
        self._subscriptions[id] = request
        self._ids[request] = id
        self._controls.append(Subscribe(id, request.filter, request.where))

    def _unsubscribe(self, request: UnsubscribeRequest, token: int, out: list[Effect]) -> None:
        id = self._ids.pop(SubscribeRequest(request.filter, request.where), None)
        if id is None:
            raise UsageError(f"not subscribed to {_describe(request)}")
        self._controls.append(Unsubscribe(id))

    def _advertise(self, request: AdvertiseRequest, token: int, out: list[Effect]) -> None:
        topic = check_topic(request.topic)
        self._controls.append(Unadvertise(topic) if request.withdraw else Advertise(topic))

    def _leave(self, request: LeaveRequest, token: int, out: list[Effect]) -> None:
        self.flush(out)
        self._tell_taken(out)
        self._close("the client leaves", out)

    def _close(self, reason: str, out: list[Effect]) -> None:
        self._up = False  # whoever closes a session is not told that it is down
        out.append(Close(self.broker, reason))

    # -- hearing -------------------------------------------------------------------------------------------------------

    def _received(self, event: Received, now_us: int, out: list[Effect]) -> None:
        try:
            self._on_message.get(type(event.message), _out_of_place)(event.message, out)
        except WireError as error:
            self._close(str(error), out)
            out.append(Answer(SessionLost(str(error))))
            return
        self._tell_taken_soon(now_us, out)

    def _tell_taken_soon(self, now_us: int, out: list[Effect]) -> None:
        waiting = self._deliveries - self._told
        if waiting >= self.options.take_deliveries or (waiting and self._awaited):
            self._tell_taken(out)
        elif waiting and not self._timer_set:
            self._timer_set = True
            out.append(SetTimer(TellTaken(), now_us + self.options.take_delay_us))

    def _serve(self, message: Serving, out: list[Effect]) -> None:
        self.serving = message
        out.append(Answer(SessionBegan(message.stack, message.guarantees, message.faults_tolerated)))
        while self._early:
            request, token = self._early.popleft()
            self.ask(request, token, out)
        self.flush(out)

    def _deliver(self, message: Delivery, out: list[Effect]) -> None:
        bundle = message.bundle
        payloads = unpack_payloads(bundle)
        rows = unpack_attributes(bundle)
        offsets = message.offsets or range(bundle.count)
        if not offsets or len(offsets) != bundle.count:
            raise WireError(f"{len(offsets)} offsets for {bundle!r}")
        if message.offsets and any(after <= before for before, after in pairwise(offsets)):
            raise WireError(f"the offsets for {bundle!r} do not rise")
        share = -(-message.metadata_bytes // bundle.count)
        self._clock = max(self._clock, bundle.stamp)
        position = self._position
        self._position += bundle.count
        if self.options.takes_at_once:
            self._deliveries += 1
            self._awaited |= message.prompt
        else:
            size = bundle.cost + MESSAGE_BYTES * bundle.count
            self._untaken.append((size, message.prompt))
            self._untaken_bytes += size
            if self._untaken_bytes > self.options.untaken_bytes_max and not self._holding:
                self._holding = True
                out.append(Hold(self.broker))
        first = bundle.first
        seqs = [first + offset for offset in message.offsets] if message.offsets else range(first, bundle.last + 1)
        messages = map(
            Message, repeat(bundle.publisher), repeat(bundle.incarnation), seqs, repeat(bundle.topic),
            repeat(bundle.keys), repeat(bundle.guarantee), rows, payloads, range(position, self._position),
            repeat(message.hops), repeat(share),
        )  # fmt: skip
        out.append(Deliver(list(messages)))

    def _take(self, request: TakeRequest, token: int, out: list[Effect]) -> None:
        if not 0 <= request.deliveries <= len(self._untaken):
            raise UsageError(f"{request.deliveries} deliveries taken, {len(self._untaken)} waiting")
        self._deliveries += request.deliveries
        for _ in range(request.deliveries):
            size, prompt = self._untaken.popleft()
            self._untaken_bytes -= size
            self._awaited |= prompt
        if self._holding and self._untaken_bytes < self.options.untaken_bytes_max // 2:
            self._holding = False
            out.append(Release(self.broker))

    def _tell_taken(self, out: list[Effect]) -> None:
        if self._up and self._told < self._deliveries:
            self._told = self._deliveries
            self._awaited = False
            out.append(Send(self.broker, Taken(self._told)))
            if self._timer_set:
                self._timer_set = False
                out.append(CancelTimer(TellTaken()))

    def _turn(self, message: Turned, out: list[Effect]) -> None:
        """A receipt includes the weaker ones, which may not have been told on their own."""
        self._check_published(message.stream, message.seq)
        for receipt in Receipt:
            if receipt > message.receipt:
                break
            before = self._turned.get((message.stream, receipt), 0)
            if message.seq > before:
                self._turned[message.stream, receipt] = message.seq
                out.append(Answer(ReceiptTurned(message.stream, receipt, before + 1, message.seq)))

    def _subscribed(self, message: Subscribed, out: list[Effect]) -> None:
        request = self._subscriptions.get(message.id)
        if request is not None:
            out.append(Answer(SubscriptionConfirmed(request.filter, request.where)))

    def _subscribe_refused(self, message: SubscribeRefused, out: list[Effect]) -> None:
        request = self._subscriptions.pop(message.id, None)
        if request is not None:
            self._ids.pop(request, None)
            out.append(Answer(Refused(request, message.reason, definite=True)))

    def _unsubscribed(self, message: Unsubscribed, out: list[Effect]) -> None:
        request = self._subscriptions.pop(message.id, None)
        if request is not None:
            out.append(Answer(SubscriptionEnded(request.filter, request.where)))

    def _publish_refused(self, message: PublishRefused, out: list[Effect]) -> None:
        last = message.first + message.count - 1
        self._check_published(message.stream, last)
        if not 1 <= message.first <= last:
            raise WireError(f"{message.count} publications refused from {message.first} on")
        out.append(Answer(Refused(None, message.reason, True, message.stream, message.first, last)))

    def _check_published(self, stream: str, last: int) -> None:
        """A broker can tell of nothing else; whoever hears it may go through all of it, one by one."""
        if last > self._outgoing.last(stream):
            raise WireError(f"{last} of the stream {stream!r} was never published")


def _out_of_place(message: Any, out: list[Effect]) -> None:
    raise WireError(f"a broker does not say {type(message).__name__}")


def _describe(request: SubscribeRequest | UnsubscribeRequest) -> str:
    return request.filter if request.where is None else f"{request.filter} where {request.where}"
