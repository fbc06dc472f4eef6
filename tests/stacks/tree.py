"""A tree of brokers and clients with nothing between them but FIFO queues, handled in an order drawn from a seed.

No connections, no latencies, no world: what remains is the stack alone, under every interleaving that FIFO sessions
allow. Brokers may die at any moment: of what they had said a part still arrives, then everybody learns that they are
gone. Time passes only with timers. While anything else can happen no signs of life are given, and nobody is suspected
for silence; `detector` gives some.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from resprout.core.bundle import SpillStore
from resprout.core.contract import (
    Answer,
    CancelTimer,
    Close,
    Deliver,
    Effect,
    EndCause,
    EndCode,
    Event,
    Hold,
    LinkDown,
    LinkUp,
    Locate,
    Machine,
    Note,
    Open,
    Received,
    Release,
    Remember,
    Request,
    Retire,
    Send,
    SetTimer,
    Silent,
    Timer,
    TimerFired,
    Writable,
)
from resprout.core.message import Message
from resprout.edge.client.consumer import ConsumerMachine
from resprout.edge.client.machine import ClientMachine
from resprout.edge.durable_messages import Terms
from resprout.edge.requests import ClientRequest
from resprout.journal.spill import SpillSegments
from resprout.sim.disk import VirtualFiles
from resprout.stacks.resprout import ResproutBroker, ResproutOptions
from resprout.stacks.stack import BrokerSeat
from tests.network import Alarms, Pair, Streams

SOON_US: Final = 200_000
"""Timers that are due by then may fire before or after anything else; later ones only when nothing else is left."""
PATIENCE_US: Final = 100_000_000
"""What waits for longer is not waited for."""


class Tree:
    """`parents` maps each broker to its parent (None: the root); `homes` each client to its broker."""

    def __init__(
        self,
        parents: dict[str, str | None],
        homes: dict[str, str],
        *,
        seed: int = 0,
        options: ResproutOptions | None = None,
        window: int = 1 << 20,
        make: Callable[[BrokerSeat, ResproutOptions, random.Random], ResproutBroker] = ResproutBroker,
    ) -> None:
        self.rng = random.Random(seed)
        self.window = window
        self.parents = parents
        self._options = options or ResproutOptions()
        self._make = make
        self.machines: dict[str, Machine] = {}
        self.incarnations: dict[str, int] = {}
        for name in parents:
            self.machines[name] = self._new_broker(name)
        for name, home in homes.items():
            self.machines[name] = ClientMachine(name, 1, home)
        self.streams: Streams[tuple[int, Any]] = Streams()
        """What is under way, each with the number of its session."""
        self.sessions: dict[Pair, int] = {}
        """Those that stand, in both directions."""
        self.wishes: dict[Pair, None] = {}
        """(who, whom) a session is kept with."""
        self._numbers = 0
        self.room: dict[Pair, int] = {}
        self.told: dict[Pair, int] = {}
        """The room that the sender knows of."""
        self.held: dict[Pair, int] = {}
        """(receiver, sender) -> bytes that came while the receiver grants no more."""
        self._alarms: Alarms[str] = Alarms()
        self.delivered: dict[str, list[Message]] = {name: [] for name in homes}
        self.news: dict[str, list[Any]] = {name: [] for name in homes}
        self.closed: list[tuple[str, str, str]] = []
        self.notes: list[tuple[str, str, str]] = []
        """(broker, kind, detail)."""
        self.react: Callable[[str, Message], list[ClientRequest]] = lambda name, message: []
        self.identity_of: Callable[[str], str] = lambda name: ""
        """Whom a client has proven to be."""
        self.history: list[tuple[str, str, Any]] = []
        """(client, "asked" | "delivered" | "told", what), in the order it happened."""

    def make_store(self, most: int) -> SpillStore:
        """For what a broker spills."""
        return SpillSegments(VirtualFiles(), most)

    def _new_broker(self, name: str) -> ResproutBroker:
        number = self.incarnations[name] = self.incarnations.get(name, 0) + 1
        contacts = tuple([other for other in self.parents if other != name]) if number > 1 else ()
        seat = BrokerSeat(name, number, self.parents[name], contacts, spill=self.make_store)
        return self._make(seat, self._options, self.rng)

    @property
    def now_us(self) -> int:
        return self._alarms.now_us

    @property
    def brokers(self) -> dict[str, ResproutBroker]:
        return {name: machine for name, machine in self.machines.items() if isinstance(machine, ResproutBroker)}

    def start(self) -> None:
        names = list(self.machines)
        self.rng.shuffle(names)
        for name in names:
            self.perform(name, self.machines[name].start(self.now_us))

    def consume(self, name: str, broker: str, subscription: str, terms: Terms, window: int | None = None) -> None:
        """Another process begins, which consumes a durable subscription."""
        number = self.incarnations[name] = self.incarnations.get(name, 0) + 1
        others = [other for other in self.parents if other != broker]
        machine = ConsumerMachine(name, number, broker, subscription, terms, window=window, others=others)
        self.machines[name] = machine
        self.delivered.setdefault(name, [])
        self.news.setdefault(name, [])
        self.perform(name, machine.start(self.now_us))

    # -- what clients want -------------------------------------------------------------------------------------------

    def ask(self, client: str, request: ClientRequest) -> None:
        self.history.append((client, "asked", request))
        self.step(client, Request(request))

    def ask_together(self, client: str, requests: Sequence[ClientRequest]) -> None:
        """Several before one flush, so that publications may share a bundle."""
        machine = self.machines[client]
        assert isinstance(machine, ClientMachine)
        for request in requests:
            self.history.append((client, "asked", request))
            answers: list[Effect] = []
            machine.ask(request, self.now_us, answers)
            self.perform(client, answers)
        out: list[Effect] = []
        machine.flush(out)
        self.perform(client, out)

    def forge(self, sender: str, receiver: str, message: Any) -> None:
        """Put a message on its way that the sender's machine knows nothing of."""
        self.perform(sender, [Send(receiver, message)])

    # -- what happens ------------------------------------------------------------------------------------------------

    def run(self, steps_max: int = 100_000) -> None:
        """Until nothing is left to happen."""
        for _ in range(steps_max):
            if not self.one() and not self._wait():
                return
        raise AssertionError("the tree does not come to rest")

    def one(self) -> bool:
        """Let one thing happen: a message arrives, or a timer fires."""
        choices: list[Any] = list(self.streams.busy())
        soon_us = self.now_us + SOON_US
        choices += [(name, timer) for name, timer, at_us in self._alarms if at_us <= soon_us and not timer.background]
        if not choices:
            return False
        choice = self.rng.choice(choices)
        if isinstance(choice[1], Timer):
            self._fire(*choice)
        else:
            self.arrive(*choice)
        return True

    def detector(self) -> None:
        """Let every broker give its signs of life once, and look for those of others."""
        for name, timer, _ in self._alarms:
            if timer.background and self._alarms.is_set(name, timer):
                self._fire(name, timer)

    def _wait(self) -> bool:
        """Nothing else is left: let time pass to the next timer, if anybody waits for something."""
        late = [at_us - self.now_us for _, timer, at_us in self._alarms if not timer.background]
        due = self._alarms.first()
        if due is None or not late or min(late) > PATIENCE_US:
            return False
        self._fire(*due)
        return True

    def _fire(self, name: str, timer: Timer) -> None:
        self._alarms.fire(name, timer)
        self.step(name, TimerFired(timer))

    def arrive(self, sender: str, receiver: str) -> None:
        number, item = self.streams.take(sender, receiver)
        if isinstance(item, Writable):
            if self.sessions.get((receiver, sender)) != number:
                return
            item = Writable(sender, self.room[receiver, sender])
            self.told[receiver, sender] = item.room
        if isinstance(item, Event):
            self.step(receiver, item)
            if isinstance(item, LinkDown) and (receiver, sender) in self.wishes:
                self._connect(receiver, sender)
            return
        self.step(receiver, Received(sender, item))
        cost = item.cost
        if self.sessions.get((sender, receiver)) == number:
            if (receiver, sender) in self.held:
                self.held[receiver, sender] += cost
            elif cost:
                self._grant(sender, receiver, cost)

    def lose(self, client: str) -> None:
        """The client is gone; whoever has a session with it hears of it."""
        for one, other in [pair for pair in self.sessions if pair[0] == client]:
            number = self._end(one, other)
            self.streams.cut(other, one)
            self.streams.cut(one, other)
            self.streams.put(one, other, (number, LinkDown(client, "gone")))
        self._bury(client)

    def crash(self, name: str) -> None:
        """A broker is gone. Of what it had said to each of its peers a part arrives, then they learn of it."""
        for one, other in [pair for pair in self.sessions if pair[0] == name]:
            number = self._end(one, other)
            self.streams.cut(other, one)
            self.streams.cut(one, other, self.rng.randint(0, len(self.streams.between(one, other))))
            self.streams.put(one, other, (number, Silent(name, True)))
        self._bury(name)

    def recover(self, name: str) -> None:
        """The next life of a broker that is gone. Those who still keep a session with it learn that it is another."""
        self.machines[name] = self._new_broker(name)
        for who, whom in list(self.wishes):
            if whom == name:
                self.streams.put(name, who, (0, LinkDown(name, "it returned", EndCause.RESTARTED)))
        self.perform(name, self.machines[name].start(self.now_us))

    def _bury(self, name: str) -> None:
        self._alarms.cancel_all(name)
        self.wishes = {pair: None for pair in self.wishes if pair[0] != name}
        self.held = {pair: count for pair, count in self.held.items() if name not in pair}
        del self.machines[name]

    # -- sessions ----------------------------------------------------------------------------------------------------

    def _connect(self, name: str, peer: str) -> None:
        if peer not in self.machines:
            self.streams.put(peer, name, (0, Silent(peer, True)))
        elif (name, peer) not in self.sessions:
            self._numbers += 1
            for here, there in ((name, peer), (peer, name)):
                self.sessions[here, there] = self._numbers
                self.room[here, there] = self.told[here, there] = self.window
                self.held.pop((here, there), None)
                role = "broker" if isinstance(self.machines[here], ResproutBroker) else "client"
                identity = self.identity_of(here) if role == "client" else ""
                up = LinkUp(here, role, self.incarnations.get(here, 1), self.window, identity=identity)
                self.streams.put(here, there, (self._numbers, up))

    def _end(self, one: str, other: str) -> int:
        del self.sessions[other, one]
        return self.sessions.pop((one, other))

    def _close(
        self,
        name: str,
        peer: str,
        reason: str,
        cause: EndCause = EndCause.CLOSED,
        code: EndCode = EndCode.NONE,
    ) -> None:
        self.wishes.pop((name, peer), None)
        if (name, peer) in self.sessions:
            number = self._end(name, peer)
            self.streams.cut(peer, name)
            self.streams.put(name, peer, (number, LinkDown(name, reason, cause, code)))

    def _retire(self, name: str, effect: Retire) -> None:
        """A life ends by itself, after all that it has said; the next one begins."""
        for other in [other for one, other in self.sessions if one == name]:
            if effect.again:
                self._close(name, other, effect.reason, EndCause.RESTARTED)
            else:
                number = self._end(name, other)
                self.streams.cut(other, name)
                self.streams.put(name, other, (number, Silent(name, True)))
        self._bury(name)
        if effect.again:
            self.machines[name] = self._new_broker(name)
            self.perform(name, self.machines[name].start(self.now_us))

    def _grant(self, sender: str, receiver: str, cost: int) -> None:
        self.room[sender, receiver] += cost
        half = self.window / 2
        if self.told[sender, receiver] < half <= self.room[sender, receiver] and sender in self.machines:
            self.streams.put(receiver, sender, (self.sessions[sender, receiver], Writable(receiver, 0)))

    # -- effects -----------------------------------------------------------------------------------------------------

    def step(self, name: str, event: Event) -> None:
        if name in self.machines:
            self.perform(name, self.machines[name].step(event, self.now_us))

    def perform(self, name: str, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(peer, message):
                    if (name, peer) in self.sessions:
                        self.streams.put(name, peer, (self.sessions[name, peer], message))
                        self.room[name, peer] -= message.cost
                        self.told[name, peer] -= message.cost
                case SetTimer(timer, at_us):
                    self._alarms.set(name, timer, at_us)
                case CancelTimer(timer):
                    self._alarms.cancel(name, timer)
                case Open(peer):
                    self.wishes[name, peer] = None
                    self._connect(name, peer)
                case Close(peer, reason, code):
                    self.closed.append((name, peer, reason))
                    self._close(name, peer, reason, code=code)
                case Deliver(messages):
                    self._deliver(name, messages)
                case Answer(body):
                    self.news[name].append(body)
                    self.history.append((name, "told", body))
                case Hold(peer):
                    self.held[name, peer] = 0
                case Release(peer):
                    if (name, peer) in self.held and (peer, name) in self.sessions:
                        self._grant(peer, name, self.held.pop((name, peer)))
                case Retire():
                    self._retire(name, effect)
                    return
                case Note(kind, columns):
                    self.notes.append((name, kind, str(columns.get("detail"))))
                case _:
                    assert isinstance(effect, Locate | Remember), effect

    def _deliver(self, name: str, messages: Sequence[Message]) -> None:
        for message in messages:
            self.delivered[name].append(message)
            self.history.append((name, "delivered", message))
            for request in self.react(name, message):
                self.ask(name, request)
