"""A network of puppets in which brokers die, freeze and return at any moment, around one real client machine.

The brokers share one memory of what is safe and one list of what is to be delivered, so they are as good as a network
can be. What a broker has accepted and not yet made safe dies with it. They check everything that the client says.
"""

from typing import Any

from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.contract import (
    Answer,
    CancelTimer,
    Close,
    Deliver,
    Effect,
    EndCause,
    Event,
    Heard,
    Hold,
    LinkDown,
    LinkUp,
    Open,
    Received,
    Release,
    Request,
    Send,
    SetTimer,
    Silent,
    TimerFired,
    Writable,
)
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.edge.client.machine import ClientMachine, ClientOptions
from resprout.edge.messages import (
    Attend,
    Delivery,
    Extra,
    GoTo,
    Publish,
    Serving,
    Subscribe,
    Subscribed,
    Successor,
    Taken,
    Turned,
    Unsubscribe,
    Unsubscribed,
)
from resprout.edge.requests import Published, ReceiptTurned, SessionLost
from tests.network import Alarms, Streams

CLIENT = "c"
BROKERS = ("b0", "b1", "b2", "b3")
WINDOW = 400
SERVING = Serving("resprout", tuple(Guarantee), 1, extras=tuple(Extra))
STREAMS = ("eventual", "ordered")


class Session:
    """The client and one broker."""

    def __init__(self) -> None:
        self.attend: Attend | None = None
        self.served = False
        self.gave = self.taken = 0
        self.next_given = 0
        self.subscriptions: dict[int, tuple[str, str | None]] = {}
        self.silent = False
        """The client was told so."""
        self.over = False
        """The broker has another life by now; the client has not been told yet."""


class Broker:
    def __init__(self, name: str) -> None:
        self.name = name
        self.life = 1
        self.alive = True
        self.frozen = False
        self.session: Session | None = None
        self.unsafe: dict[str, list[Bundle]] = {stream: [] for stream in STREAMS}


class MortalNetwork:
    def __init__(self, options: ClientOptions | None = None) -> None:
        self.machine = ClientMachine(CLIENT, 5, "b0", options)
        self.brokers = {name: Broker(name) for name in BROKERS}
        self.opened: dict[str, None] = {}
        self._alarms: Alarms[str] = Alarms()
        self._streams: Streams[Any] = Streams()
        self.sent: dict[tuple[str, int], Bundle] = {}
        """Every bundle that the client ever sent, by stream and first number."""
        self.safe: dict[str, int] = dict.fromkeys(STREAMS, 0)
        self.published: dict[str, int] = dict.fromkeys(STREAMS, 0)
        self.turned: dict[tuple[str, ReceiptLevel], int] = {}
        self.produced = 0
        self.delivered: list[tuple[int, int]] = []
        """(position, number)."""
        self._do(self.machine.start(0))

    # -- the client ----------------------------------------------------------------------------------------------------

    def ask(self, request: Any) -> None:
        self._do(self.machine.step(Request(request), self._alarms.now_us))

    @property
    def candidate(self) -> str | None:
        """Whom the client tries besides its broker."""
        return next((name for name in reversed(self.opened) if name != self.machine.broker), None)

    def tell(self, event: Event) -> None:
        self._do(self.machine.step(event, self._alarms.now_us))

    def fire(self) -> bool:
        """The next timer."""
        due = self._alarms.first()
        if due is None:
            return False
        self._alarms.fire(*due)
        self.tell(TimerFired(due[1]))
        return True

    def _do(self, effects: Any) -> None:
        for effect in effects:
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Open(peer=peer):
                self.opened[peer] = None
            case Close(peer=peer):
                self.opened.pop(peer, None)
                self._end(self.brokers[peer])
            case Send(peer=peer, message=message):
                assert self.brokers[peer].session is not None, "nothing is sent where there is no session"
                self._streams.put(CLIENT, peer, message)
            case SetTimer(timer=timer, at_us=at_us):
                self._alarms.set(CLIENT, timer, at_us)
            case CancelTimer(timer=timer):
                self._alarms.cancel(CLIENT, timer)
            case Deliver(messages=messages):
                self.delivered.extend((message.position, message.seq) for message in messages)
            case Answer(body=Published(stream=stream, seq=seq)):
                assert seq == self.published[stream] + 1, "numbers have no gaps"
                self.published[stream] = seq
            case Answer(body=ReceiptTurned() as news):
                before = self.turned.get((news.stream, news.receipt), 0)
                assert news.first == before + 1 and news.last >= news.first, "receipts only rise"
                self.turned[news.stream, news.receipt] = news.last
            case Answer(body=SessionLost() as news):
                raise AssertionError(f"these brokers lose nothing, but {news.reason}")
            case Answer() | Hold() | Release():
                pass
            case _:
                raise AssertionError(effect)

    # -- what may happen -----------------------------------------------------------------------------------------------

    def connect(self, name: str) -> None:
        """An attempt of the links to reach a broker that the client wants a session with."""
        broker = self.brokers[name]
        if name not in self.opened:
            return
        if not broker.alive:
            self._silence(broker, refused=True)
        elif broker.frozen:
            self._silence(broker, refused=False)
        elif broker.session is not None and broker.session.over:
            self._end(broker)
            self.tell(LinkDown(name, "restarted", EndCause.RESTARTED))
        elif broker.session is None:
            broker.session = Session()
            self.tell(LinkUp(name, "broker", broker.life, WINDOW))
        elif broker.session.silent:
            broker.session.silent = False
            self.tell(Heard(name))

    def suspect(self, name: str) -> None:
        """The connection breaks, though nobody has died."""
        broker = self.brokers[name]
        if broker.session is not None:
            self._silence(broker, refused=False)

    def _silence(self, broker: Broker, refused: bool) -> None:
        if broker.session is not None:
            broker.session.silent = True
            if not broker.alive:
                self._streams.cut(broker.name, CLIENT)
        self.tell(Silent(broker.name, refused))

    def kill(self, name: str, arriving: int = 0) -> None:
        """So many messages are under way and still arrive."""
        broker = self.brokers[name]
        broker.alive = False
        broker.unsafe = {stream: [] for stream in STREAMS}
        self._streams.cut(name, CLIENT, arriving)

    def _end(self, broker: Broker) -> None:
        """Of a session, with all that is under way in it."""
        broker.session = None
        self._streams.cut(broker.name, CLIENT)
        self._streams.cut(CLIENT, broker.name)

    def restart(self, name: str) -> None:
        broker = self.brokers[name]
        if not broker.alive:
            broker.alive, broker.frozen = True, False
            broker.life += 1
            if broker.session is not None:
                broker.session.over = True

    def arrive(self, name: str) -> bool:
        """A message at the client."""
        session = self.brokers[name].session
        under_way = self._streams.between(name, CLIENT)
        if session is None or session.silent or session.over or not under_way:
            return False
        self.tell(Received(name, self._streams.take(name, CLIENT)))
        return True

    def hear(self, name: str) -> bool:
        """A message at a broker."""
        broker, session = self._active(name)
        if session is None or session.silent or not self._streams.between(CLIENT, name):
            return False
        self._heard(broker, session, self._streams.take(CLIENT, name))
        return True

    def answer(self, name: str, send_on: str | None = None) -> bool:
        """A broker that was asked to serve does so, or sends the client on."""
        _, session = self._active(name)
        if session is None or session.attend is None or session.served:
            return False
        attend = session.attend
        if send_on is not None:
            self._streams.put(name, CLIENT, GoTo(Successor(send_on, "")))
            session.attend = None
            return True
        for lost in attend.tried:
            if lost != name:
                self._fence(lost)
        session.served = True
        session.next_given = max((mark.seq for mark in attend.received), default=0) + 1
        session.subscriptions = {held.id: (held.filter, held.where) for held in attend.subscriptions}
        others = tuple(Successor(other, "") for other in BROKERS if other != name)
        self._streams.put(name, CLIENT, Serving("resprout", tuple(Guarantee), 1, others, extras=tuple(Extra)))
        return True

    def _fence(self, name: str) -> None:
        """Whoever serves a client of another broker has made sure that this one is out of the way."""
        if self.brokers[name].alive:
            self.kill(name)

    def give(self, name: str) -> None:
        """The next thing that the client has not been given."""
        _, session = self._active(name)
        if session is None or not session.served or session.next_given > self.produced:
            return
        bundle = Bundle("p", 1, session.next_given, 1, 1, "t", (), Guarantee.CAUSAL, b"", pack_payloads([b""]))
        session.next_given += 1
        session.gave += 1
        self._streams.put(name, CLIENT, Delivery(bundle, 1, 1, None))

    def receipt(self, name: str, stream: str, receipt: ReceiptLevel) -> None:
        broker, session = self._active(name)
        if session is None or not session.served:
            return
        accepted = broker.unsafe[stream]
        if receipt >= ReceiptLevel.SAFE and accepted:
            self.safe[stream] = max(self.safe[stream], accepted.pop(0).last)
        last = accepted[-1].last if receipt is ReceiptLevel.ACCEPTED and accepted else self.safe[stream]
        if last:
            self._streams.put(name, CLIENT, Turned(stream, receipt, last))

    def _active(self, name: str) -> tuple[Broker, Session | None]:
        """A broker with its session, if both are in working order."""
        broker = self.brokers[name]
        works = broker.alive and not broker.frozen and broker.session is not None and not broker.session.over
        return broker, broker.session if works else None

    # -- what brokers check --------------------------------------------------------------------------------------------

    def _heard(self, broker: Broker, session: Session, message: Any) -> None:
        if session.attend is None or not session.served:
            assert isinstance(message, Attend) and session.attend is None, f"{message} before Serving"
            session.attend = message
            numbers = [mark.seq for mark in message.received]
            assert numbers == ([self.delivered[-1][1]] if self.delivered else []), "it tells exactly what it has"
            return
        match message:
            case Publish(bundle=bundle):
                self._accept(broker, bundle)
                self.tell(Writable(broker.name, WINDOW))
            case Taken(deliveries=deliveries):
                assert session.taken < deliveries <= session.gave or deliveries == session.taken == 0, "it has come"
                session.taken = deliveries
            case Subscribe(id=id, filter=filter, where=where):
                assert id not in session.subscriptions, "it is asked for once in a session"
                session.subscriptions[id] = (filter, where)
                self._streams.put(broker.name, CLIENT, Subscribed(id))
            case Unsubscribe(id=id):
                del session.subscriptions[id]
                self._streams.put(broker.name, CLIENT, Unsubscribed(id))
            case _:
                raise AssertionError(message)

    def _accept(self, broker: Broker, bundle: Bundle) -> None:
        stream = bundle.stream
        assert (bundle.publisher, bundle.incarnation) == (CLIENT, 5)
        assert self.sent.setdefault((stream, bundle.first), bundle) == bundle, "sent again, it is exactly the same"
        accepted = broker.unsafe[stream]
        last = max(self.safe[stream], accepted[-1].last if accepted else 0)
        if bundle.last <= self.safe[stream]:
            self._streams.put(broker.name, CLIENT, Turned(stream, ReceiptLevel.DELIVERED, bundle.last))
        elif bundle.last > last:
            assert bundle.first == last + 1, "nothing is left out"
            accepted.append(bundle)

    def work(self) -> bool:
        """One round of what happens when nothing goes wrong; False when there was nothing to do."""
        busy = False
        for name in BROKERS:
            if name in self.opened and not self._connected(name):
                self.connect(name)
                busy = True
            busy |= self.arrive(name) or self.hear(name) or self.answer(name)
        return busy

    # -- the end -------------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """Everybody lives, nobody is cut off; whatever can happen happens, until nothing is left to."""
        for broker in self.brokers.values():
            broker.frozen = False
            self.restart(broker.name)
        for _ in range(400):
            if not self.work() and not self.fire():
                break
        home = self.brokers[self.machine.broker]
        assert home.session is not None and home.session.served
        for stream in STREAMS:
            while home.unsafe[stream]:
                self.receipt(home.name, stream, ReceiptLevel.SAFE)
        while home.session.next_given <= self.produced:
            self.give(home.name)
        while self.arrive(home.name) or self.hear(home.name):
            pass

    def _connected(self, name: str) -> bool:
        session = self.brokers[name].session
        return session is not None and not session.silent and not session.over
