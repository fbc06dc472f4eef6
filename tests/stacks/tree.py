"""A tree of brokers and clients with nothing between them but FIFO queues, handled in an order drawn from a seed.

No sessions, no latencies, no world: what remains is the stack alone, under every interleaving that FIFO links allow.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from resprout.core.contract import (
    Answer,
    CancelTimer,
    Close,
    Deliver,
    Effect,
    Hold,
    LinkDown,
    LinkUp,
    Machine,
    Note,
    Open,
    Received,
    Release,
    Request,
    Send,
    SetTimer,
    Timer,
    TimerFired,
    Writable,
)
from resprout.core.message import Message
from resprout.edge.client import ClientMachine
from resprout.edge.requests import ClientRequest
from resprout.stacks.resprout import ResproutBroker, ResproutOptions
from resprout.stacks.stack import BrokerSeat


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
    ) -> None:
        self.rng = random.Random(seed)
        self.window = window
        self.machines: dict[str, Machine] = {}
        self.roles: dict[str, str] = {}
        for name, parent in parents.items():
            self.machines[name] = ResproutBroker(BrokerSeat(name, 1, parent), options or ResproutOptions(), self.rng)
            self.roles[name] = "broker"
        for name, home in homes.items():
            self.machines[name] = ClientMachine(name, 1, home)
            self.roles[name] = "client"
        self.queues: dict[tuple[str, str], deque[Any]] = {}
        self.room: dict[tuple[str, str], int] = {}
        self.told: dict[tuple[str, str], int] = {}
        """The room that the sender knows of."""
        self.held: dict[tuple[str, str], int] = {}
        """(receiver, sender) -> bytes that came while the receiver grants no more."""
        self.timers: dict[tuple[str, Timer], None] = {}
        self.delivered: dict[str, list[Message]] = {name: [] for name in homes}
        self.news: dict[str, list[Any]] = {name: [] for name in homes}
        self.closed: list[tuple[str, str, str]] = []
        self.react: Callable[[str, Message], list[ClientRequest]] = lambda name, message: []
        self.history: list[tuple[str, str, Any]] = []
        """(client, "asked" | "delivered" | "told", what), in the order it happened."""

    def start(self) -> None:
        names = list(self.machines)
        self.rng.shuffle(names)
        for name in names:
            self._do(name, self.machines[name].start(0))

    def ask(self, client: str, request: ClientRequest) -> None:
        self.history.append((client, "asked", request))
        self._do(client, self.machines[client].step(Request(request), 0))

    def ask_together(self, client: str, requests: Sequence[ClientRequest]) -> None:
        """Several before one flush, so that publications may share a bundle."""
        machine = self.machines[client]
        assert isinstance(machine, ClientMachine)
        for request in requests:
            self.history.append((client, "asked", request))
            answers: list[Effect] = []
            machine.ask(request, 0, answers)
            self._do(client, answers)
        out: list[Effect] = []
        machine.flush(out)
        self._do(client, out)

    def forge(self, sender: str, receiver: str, message: Any) -> None:
        """Put a message on its way that the sender's machine knows nothing of."""
        self._do(sender, [Send(receiver, message)])

    def run(self, steps_max: int = 1_000_000) -> None:
        """Until nothing is left to happen."""
        for _ in range(steps_max):
            if not self.one():
                return
        raise AssertionError("the tree does not come to rest")

    def one(self) -> bool:
        """Let one thing happen: a message arrives, or a timer fires."""
        choices: list[Any] = [pair for pair, queue in self.queues.items() if queue]
        choices.extend(self.timers)
        if not choices:
            return False
        choice = self.rng.choice(choices)
        if isinstance(choice[1], Timer):
            del self.timers[choice]
            self._do(choice[0], self.machines[choice[0]].step(TimerFired(choice[1]), 0))
            return True
        sender, receiver = choice
        item = self.queues[choice].popleft()
        if isinstance(item, Writable):
            item = Writable(sender, self.room[receiver, sender])
            self.told[receiver, sender] = item.room
        if isinstance(item, LinkUp | LinkDown | Writable):
            self._do(receiver, self.machines[receiver].step(item, 0))
            return True
        cost = item.cost
        self._do(receiver, self.machines[receiver].step(Received(sender, item), 0))
        if (receiver, sender) in self.held:
            self.held[receiver, sender] += cost
        elif cost:
            self._grant(sender, receiver, cost)
        return True

    def lose(self, client: str) -> None:
        """The client is gone; its broker hears of it."""
        home = next(b for a, b in self.queues if a == client)
        self.queues[client, home].clear()
        self.queues[home, client].clear()
        self.queues[client, home].append(LinkDown(client, "gone"))
        self.timers = {key: None for key in self.timers if key[0] != client}
        del self.machines[client]

    def _grant(self, sender: str, receiver: str, cost: int) -> None:
        self.room[sender, receiver] += cost
        half = self.window / 2
        if self.told[sender, receiver] < half <= self.room[sender, receiver] and sender in self.machines:
            self.queues[receiver, sender].append(Writable(receiver, 0))

    def _do(self, name: str, effects: Any) -> None:
        effect: Effect
        for effect in effects:
            if isinstance(effect, Send):
                if effect.peer in self.machines:
                    self.queues[name, effect.peer].append(effect.message)
                    self.room[name, effect.peer] -= effect.message.cost
                    self.told[name, effect.peer] -= effect.message.cost
            elif isinstance(effect, SetTimer):
                self.timers[name, effect.timer] = None
            elif isinstance(effect, CancelTimer):
                self.timers.pop((name, effect.timer), None)
            elif isinstance(effect, Open):
                for here, there in ((name, effect.peer), (effect.peer, name)):
                    self.queues[here, there] = deque([LinkUp(here, self.roles[here], 1, self.window)])
                    self.room[here, there] = self.told[here, there] = self.window
            elif isinstance(effect, Deliver):
                for message in effect.messages:
                    self.delivered[name].append(message)
                    self.history.append((name, "delivered", message))
                    for request in self.react(name, message):
                        self.ask(name, request)
            elif isinstance(effect, Answer):
                self.news[name].append(effect.body)
                self.history.append((name, "told", effect.body))
            elif isinstance(effect, Hold):
                self.held[name, effect.peer] = 0
            elif isinstance(effect, Release):
                self._grant(effect.peer, name, self.held.pop((name, effect.peer)))
            elif isinstance(effect, Close):
                self.closed.append((name, effect.peer, effect.reason))
            else:
                assert isinstance(effect, Note), effect
