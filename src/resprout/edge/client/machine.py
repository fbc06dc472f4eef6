"""The client's half of the edge protocol, as a pure machine.

Bundles fill while there is no room to send, or while several requests come before one `flush`; nothing waits to fill
one. Once the network has said what it offers, a publication has its number as soon as it is asked for, and keeps its
place however long there is no broker; requests before that wait, unnumbered, so that a guarantee that turns out not to
be offered leaves no gap in a stream.

Every session begins with `Attend`; nothing else is said before the broker answers `Serving`. When a broker is gone
another one serves (`search`), with the same subscriptions (`wanted`) and everything again that is not known to be safe
(`Unconfirmed`). The application is told the new broker's name, and notices nothing else.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from resprout.core.contract import (
    Answer,
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
    Writable,
)  # fmt: skip
from resprout.core.errors import UsageError, WireError
from resprout.core.guarantee import ALL_LEVELS
from resprout.core.message_fields import Marks
from resprout.edge.client.incoming import Incoming
from resprout.edge.client.options import ClientOptions as ClientOptions
from resprout.edge.client.options import DelayOver, TellTaken
from resprout.edge.client.publishing import Publishing
from resprout.edge.client.questions import Questions
from resprout.edge.client.search import BrokerSearch
from resprout.edge.client.wanted import WantedSubscriptions, WishMessage, bytes_of
from resprout.edge.durable_messages import WhenFull
from resprout.edge.messages import (
    Attend,
    DeliveriesDropped,
    Delivery,
    Extra,
    GoTo,
    HoldTold,
    PlacedDelivery,
    PublicationWaits,
    PublishRefused,
    RetainedDelivery,
    SafeCopies,
    Serving,
    Subscribed,
    SubscribeRefused,
    Successors,
    Taken,
    TopicPlace,
    TopicsReached,
    Turned,
    Unsubscribed,
)  # fmt: skip
from resprout.edge.requests import (
    BrokerChanged,
    ClientRequest,
    ConnectionTurned,
    FlushRequest,
    LeaveRequest,
    PublishingHeld,
    PublishRequest,
    Refused,
    SessionBegan,
    SessionLost,
    SubscribeRequest,
    SubscriptionConfirmed,
    SubscriptionEnded,
    SubscriptionRestarted,
    TakeRequest,
    UnsubscribeRequest,
)  # fmt: skip

RECEIVED_BYTES_MAX: Final = 1 << 20
"""Bound on the received marks in `Attend`; only the latest ones are told."""


class ClientMachine:
    """One client: requests from the program in, deliveries and answers out."""

    def __init__(
        self,
        name: str,
        incarnation: int,
        broker: str,
        options: ClientOptions | None = None,
        others: Sequence[str] = (),
    ) -> None:
        """`others`: further brokers to try while `broker` has not yet named its successors."""
        self.name = name
        self.incarnation = incarnation
        self.options = options or ClientOptions()
        self.awaits = ALL_LEVELS
        """Receipt levels that somebody waits for, as bits: the broker sends these at once."""
        self.serving: Serving | None = None
        """What the network offers; None until a broker has answered `Serving`."""
        self.publishing = Publishing(name, incarnation, self.options)
        self.outgoing = self.publishing.outgoing
        """The queue of bundles. A caller that checks its publications itself adds here and then requests
        `FlushRequest`."""
        self.incoming = Incoming(self.options)
        self._over = False
        self._is_up = False
        """Whether the application was told that the broker is connected."""
        self._search = BrokerSearch(broker, self.options.patience_us, others)
        self._wanted = WantedSubscriptions()
        self._room = 0
        """Bytes of bundles that the broker which serves may be sent now; `_candidate_room`: for the one that is
        asked."""
        self._candidate_room = 0
        self._candidate_life = self._home_life = 0
        """Incarnations of the broker that is asked to serve, and of the one that serves or served last."""
        self._controls: list[WishMessage] = []
        """Subscribe and Unsubscribe messages to send."""
        self._questions = Questions()
        self._early: list[tuple[PublishRequest, int]] = []
        """Publications asked for before the network said what it offers."""
        self._on_event: dict[type, Callable[[Any, int, list[Effect]], None]] = {
            Received: self._received,
            Request: self._requested,
            Writable: self._writable,
            TimerFired: self._timer_fired,
            LinkUp: self._link_up,
            LinkDown: self._link_down,
            Silent: self._silent,
            Heard: self._heard,
        }
        self._on_request: dict[type, Callable[[Any, int, list[Effect]], None]] = {
            PublishRequest: self._publish,
            SubscribeRequest: self._subscribe,
            UnsubscribeRequest: self._unsubscribe,
            TakeRequest: self._take,
            LeaveRequest: self._leave,
            **self._questions.on_request,
        }
        self._on_message: dict[type, Callable[[Any, int, list[Effect]], None]] = {
            Delivery: self._deliver,
            PlacedDelivery: self._deliver_placed,
            RetainedDelivery: self._deliver_retained,
            TopicsReached: lambda message, now_us, out: self.incoming.reach(message.places),
            DeliveriesDropped: self._dropped,
            Turned: lambda message, now_us, out: self.publishing.turn(message, out),
            SafeCopies: lambda message, now_us, out: self.publishing.count(message, out),
            Subscribed: self._subscribed,
            SubscribeRefused: self._subscribe_refused,
            Unsubscribed: self._unsubscribed,
            PublishRefused: lambda message, now_us, out: self.publishing.refuse(message, out),
            PublicationWaits: lambda message, now_us, out: self.publishing.waits(message, out),
            **self._questions.on_message,
            Successors: lambda message, now_us, out: self._search.learn(message.successors, out),
            GoTo: self._sent_on,
        }

    @property
    def when_full(self) -> WhenFull:
        """What brokers do when this client does not read fast enough; holds for subscriptions from now on."""
        return self._wanted.when_full

    @when_full.setter
    def when_full(self, policy: WhenFull) -> None:
        self._wanted.when_full = policy

    @property
    def broker(self) -> str:
        """The broker that serves, or served last; before that, the first one to ask."""
        return self._search.home

    @property
    def brokers(self) -> tuple[str, ...]:
        """That broker and its successors."""
        return self._search.names

    def start(self, now_us: int) -> Sequence[Effect]:
        out: list[Effect] = []
        self._search.start(now_us, out)
        return out

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        out: list[Effect] = []
        handler = self._on_event.get(type(event))
        if handler is not None and (not self._over or type(event) is Request):
            handler(event, now_us, out)
        return out

    def release(self) -> None:
        """Break the reference cycles of this object, which is not used any more, so that it is freed at once."""
        for handlers in (self._on_event, self._on_request, self._on_message):
            handlers.clear()
        self._questions.release()

    # -- asking --------------------------------------------------------------------------------------------------------

    def _requested(self, event: Request, now_us: int, out: list[Effect]) -> None:
        if type(event.body) is FlushRequest:  # as often as anything is published
            self.flush(out)
            return
        self.ask(event.body, event.token, out)
        self.flush(out)
        if self._search.stands and self.incoming.taken != self.incoming.told:
            self.incoming.tell_soon(self.broker, now_us, out)

    def ask(self, request: ClientRequest, token: int, out: list[Effect]) -> None:
        """Take a request without sending yet: several before one `flush` share bundles and frames."""
        try:
            self._on_request[type(request)](request, token, out)
        except UsageError as error:
            out.append(Answer(Refused(request, str(error), definite=True), token))

    def flush(self, out: list[Effect]) -> None:
        """Send control messages, questions and, while there is room, bundles."""
        if not self._search.stands:
            return
        broker = self._search.home
        while self._controls:
            out.append(Send(broker, self._controls.pop(0)))
        if self._questions.unsent:
            self._questions.send(broker, self._offers, out)
        publishing = self.publishing
        while self._room > 0 and (self.outgoing.queue or publishing.unconfirmed.again):
            publish = publishing.next(self.incoming.clock, self.awaits)
            if publish is None:  # what was to be sent again is safe by now
                break
            self._room -= publish.bundle.cost
            out.append(Send(broker, publish))
        if publishing.pausing:
            publishing.relieve(out)

    @property
    def crowded(self) -> bool:
        """So much waits that a publisher who can should pause until `RoomAgain`."""
        return self.publishing.crowded

    def _publish(self, request: PublishRequest, token: int, out: list[Effect]) -> None:
        if self.serving is not None:
            out.append(Answer(self.publishing.publish(request), token))
        elif len(self._early) < self.options.early_max:
            self._early.append((request, token))
        else:
            raise UsageError(f"{len(self._early)} publications wait for the broker to be reached")

    def _subscribe(self, request: SubscribeRequest, token: int, out: list[Effect]) -> None:
        if request.retained and self.serving is not None and not self._offers(Extra.VALUES):
            raise UsageError(f"{self.serving.stack} holds no last values: the default stack does")
        self._control(self._wanted.subscribe(request))

    def _unsubscribe(self, request: UnsubscribeRequest, token: int, out: list[Effect]) -> None:
        self._control(self._wanted.unsubscribe(request))

    def _offers(self, extra: Extra) -> bool:
        return self.serving is not None and extra in self.serving.extras

    def _control(self, asked: WishMessage) -> None:
        """Queue a subscription message. Without a session it is dropped: `Attend` tells the next broker all
        subscriptions."""
        if self._search.stands:
            self._controls.append(asked)

    def _take(self, request: TakeRequest, token: int, out: list[Effect]) -> None:
        self.incoming.take(request.deliveries, self.broker, out)

    def _leave(self, request: LeaveRequest, token: int, out: list[Effect]) -> None:
        if not self._over:
            self.flush(out)
            if self._search.stands:
                self.incoming.tell(self.broker, out)
            self._end("the client leaves", out)

    def _end(self, reason: str, out: list[Effect]) -> None:
        self._over = True
        self._search.stop(reason, out)

    # -- sessions ------------------------------------------------------------------------------------------------------

    def _link_up(self, event: LinkUp, now_us: int, out: list[Effect]) -> None:
        """Ask a broker to serve: send `Attend` with what this client has received and holds."""
        if self._search.up(event.peer, now_us, out):
            self._candidate_room = event.room
            self._candidate_life = event.incarnation
            received = self._latest_received()
            held = self._wanted.hold(received)
            search = self._search
            clock, tried = self.incoming.clock, tuple(search.tried)
            home = self._home_life if tried else 0
            if not tried and self.options.returns:  # perhaps it was here before, or elsewhere, in another process
                tried, home = (event.peer,), event.incarnation
            safe = self.publishing.safe_undelivered() if tried else ()
            places = self.incoming.known_places() if held else ()
            when_full, is_unsettled = self._wanted.when_full, self.publishing.is_unsettled()
            attend = Attend(clock, tried, received, held, search.anyhow, home, safe, when_full, places, is_unsettled)
            out.append(Send(event.peer, attend))

    def _latest_received(self) -> Marks:
        marks = tuple(self.incoming.received.marks())
        while bytes_of(marks) > RECEIVED_BYTES_MAX:
            marks = marks[-(-len(marks) // 8) :]
        return marks

    def _link_down(self, event: LinkDown, now_us: int, out: list[Effect]) -> None:
        if event.code is not EndCode.NONE:
            # Another client has the name now, and to go on would be to fight over it; or it may not be here.
            self._end(event.reason, out)
            out.append(Answer(SessionLost(event.reason, over=True, code=event.code)))
            return
        is_home = event.peer == self.broker
        self._search.down(event.peer, now_us, out, event.cause is EndCause.CLOSED)
        if is_home and not self._search.stands:
            self._tell_connection(event.peer, False, event.reason, out)
        if not self._search.was_served:
            out.append(Answer(SessionLost(event.reason, over=False)))

    def _silent(self, event: Silent, now_us: int, out: list[Effect]) -> None:
        self._search.silent(event.peer, event.refused, now_us, out)
        if event.peer == self.broker and self._search.stands:
            why = "does not listen any more" if event.refused else "does not answer"
            self._tell_connection(event.peer, False, f"{event.peer} {why}", out)

    def _heard(self, event: Heard, now_us: int, out: list[Effect]) -> None:
        self._search.heard(event.peer, out)
        if event.peer == self.broker and self._search.stands:
            self._tell_connection(event.peer, True, "", out)

    def _tell_connection(self, broker: str, is_up: bool, reason: str, out: list[Effect]) -> None:
        """Tell the application, once for each turn."""
        if is_up is not self._is_up:
            self._is_up = is_up
            if self.options.tells_connection:
                out.append(Answer(ConnectionTurned(broker, is_up, reason)))

    def _writable(self, event: Writable, now_us: int, out: list[Effect]) -> None:
        if event.peer == self._search.candidate:
            self._candidate_room = event.room
        elif event.peer == self.broker:
            self._room = event.room
            self.flush(out)

    def _timer_fired(self, event: TimerFired, now_us: int, out: list[Effect]) -> None:
        if isinstance(event.timer, TellTaken):
            self.incoming.timer_fired()
            if self._search.stands:
                self.incoming.tell(self.broker, out)
        elif isinstance(event.timer, DelayOver):
            self.incoming.deliver_delayed(now_us, self._wanted.wants, self.broker, out)
        else:
            self._search.fired(event.timer, now_us, out)

    def _received(self, event: Received, now_us: int, out: list[Effect]) -> None:
        search = self._search
        if type(event.message) is HoldTold:  # before anything else: it overtakes `Serving`
            if event.peer in (search.candidate, search.home):
                out.append(Answer(PublishingHeld(event.message.reason)))
            return
        try:
            if event.peer == search.candidate:
                self._answered(event.peer, event.message, now_us, out)
            elif event.peer == search.home and search.stands:
                if search.searching:  # stay: what `Attend` told the candidate is out of date once the home speaks
                    search.heard(event.peer, out)
                self._on_message.get(type(event.message), _out_of_place)(event.message, now_us, out)
                if self._questions.unsent and search.stands:  # an answer has made room for more
                    self._questions.send(search.home, self._offers, out)
                if self.incoming.taken != self.incoming.told:
                    self.incoming.tell_soon(search.home, now_us, out)
        except WireError as error:
            if search.was_served and event.peer == search.candidate:
                search.refuse(str(error), now_us, out)
            else:
                self._end(str(error), out)
                out.append(Answer(SessionLost(str(error), over=True)))

    def _answered(self, broker: str, message: Any, now_us: int, out: list[Effect]) -> None:
        """Handle the candidate's answer to `Attend`."""
        if isinstance(message, GoTo):
            self._search.go_to(broker, message.successor, now_us, out)
        elif isinstance(message, Serving):
            self._serve(broker, message, now_us, out)
        else:
            raise WireError(f"{type(message).__name__} before Serving")

    def _serve(self, broker: str, message: Serving, now_us: int, out: list[Effect]) -> None:
        """Begin to work with the broker that said `Serving`: resume subscriptions, and send again what is not known
        to be safe."""
        before = self.broker if self._search.was_served else None
        self._search.serves(broker, message.successors, now_us, out)
        self._room = self._candidate_room
        self._home_life = self._candidate_life
        self.serving = message
        self.publishing.offered(message)
        if before is None:
            self._is_up = True
            began = SessionBegan(message.stack, message.guarantees, message.faults_tolerated, message.receipts)
            out.append(Answer(began))
        elif before != broker:
            out.append(Answer(BrokerChanged(broker)))
        self._tell_connection(broker, True, "", out)
        self.incoming.begin_session(broker, out)
        if before is not None:
            out.append(Send(broker, Taken(0)))  # tells the broker that this client has heard `Serving` and stays
            self.publishing.begin_session(message.faults_tolerated, out)
        self._questions.begin_session(out)
        wanted = self._wanted.resume(message.resumed)
        self._controls = list(wanted.asks)
        out.extend(Answer(SubscriptionEnded(request.filter, request.where)) for request in wanted.ended)
        if before is not None:
            out.extend(Answer(SubscriptionRestarted(request.filter, request.where)) for request in wanted.restarted)
        if wanted.lost:
            reason = f"{broker} could not carry on {wanted.lost} subscriptions: deliveries may be missing"
            out.append(Answer(SessionLost(reason, over=False)))
        self.publishing.unconfirmed.send_again()
        while self._early:
            self.ask(*self._early.pop(0), out)
        self.flush(out)

    def _sent_on(self, message: GoTo, now_us: int, out: list[Effect]) -> None:
        """The serving broker sends this client to another one."""
        broker = self.broker
        self._search.go_to(broker, message.successor, now_us, out)
        self._tell_connection(broker, False, f"{broker} sends its clients to {message.successor.name}", out)

    # -- hearing -------------------------------------------------------------------------------------------------------

    def _deliver(self, message: Delivery, now_us: int, out: list[Effect]) -> None:
        self.incoming.deliver(message, self._search.home, now_us, out)

    def _deliver_placed(self, message: PlacedDelivery, now_us: int, out: list[Effect]) -> None:
        self.incoming.deliver(message, self._search.home, now_us, out)
        self.incoming.reach((TopicPlace(message.bundle.topic, message.position),))

    def _deliver_retained(self, message: RetainedDelivery, now_us: int, out: list[Effect]) -> None:
        self.incoming.deliver_retained(message, self._wanted.find_retained(message.id), self._search.home, out)

    def _dropped(self, message: DeliveriesDropped, now_us: int, out: list[Effect]) -> None:
        self.incoming.skip(message, self._search.home, out)

    def _subscribed(self, message: Subscribed, now_us: int, out: list[Effect]) -> None:
        if (request := self._wanted.confirm(message)) is not None:
            out.append(Answer(SubscriptionConfirmed(request.filter, request.where)))

    def _subscribe_refused(self, message: SubscribeRefused, now_us: int, out: list[Effect]) -> None:
        if (request := self._wanted.remove(message.id)) is not None:
            out.append(Answer(Refused(request, message.reason, definite=True)))

    def _unsubscribed(self, message: Unsubscribed, now_us: int, out: list[Effect]) -> None:
        if (request := self._wanted.remove(message.id)) is not None:
            out.append(Answer(SubscriptionEnded(request.filter, request.where)))


def _out_of_place(message: Any, now_us: int, out: list[Effect]) -> None:
    raise WireError(f"a broker does not say {type(message).__name__}")
