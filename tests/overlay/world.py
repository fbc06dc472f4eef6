"""Brokers in a tree, joined by FIFO sessions in virtual time, with crashes, freezes and partitions.

A session outlives a broken connection: what is sent across a partition, or to a process that stands still, arrives
when that is over. A crash cuts every outgoing stream at a random point. The driver's words about connections (`silent`,
`heard`) come late and repeatedly, as they do from sockets.
"""

import random
from collections.abc import Callable, Mapping

from resprout.core.contract import ProtocolMessage
from resprout.overlay.places import Life
from resprout.overlay.status import CouncilOptions
from tests.network import Network
from tests.overlay.repair import Broker, Join

HEARTBEAT_US = 1_500
LEASE_US = 9_000
OPTIONS = CouncilOptions(heartbeat_us=HEARTBEAT_US, lease_us=LEASE_US)


class World(Network):
    def __init__(self, seed: int, parents: Mapping[str, str | None], faults: int) -> None:
        super().__init__(LEASE_US)
        self.random = random.Random(seed)
        self.faults = faults
        self.brokers: dict[str, Broker] = {}
        self.crashed: dict[str, bool] = {}
        """Dead now -> whether its host still refuses connections."""
        self.frozen: dict[str, list[Callable[[], None]]] = {}
        self.cut: frozenset[str] = frozenset()
        """Cut off from all others."""
        self.severed: set[frozenset[str]] = set()
        """Pairs that cannot reach each other."""
        self.history: list[tuple[int, str, str, tuple[Life, ...]]] = []
        """(when, who, what, about whom)."""
        self.returns = True
        self._latency: dict[frozenset[str], int] = {}
        self._sessions: dict[frozenset[str], dict[str, int]] = {}
        self._cuts: dict[tuple[str, int, str], int] = {}
        self._held: list[Callable[[], None]] = []
        self._hushed: set[tuple[str, str]] = set()
        self.watch: Callable[[], None] = lambda: None
        """Called after every event."""
        self._plant(parents)

    def _plant(self, parents: Mapping[str, str | None]) -> None:
        for name, parent in parents.items():
            broker = self._begin(name, 1)
            if parent is None:
                broker.view.found()
            else:
                broker.view.parent = parent
                broker.view.neighbours[parent] = True
                self.brokers[parent].view.neighbours[name] = True
        for name, broker in self.brokers.items():
            for other in broker.view.neighbours:
                self._meet(name, other)
        for broker in self.brokers.values():
            broker.view.publish_place()
        whole = [broker.view.places[name] for name, broker in self.brokers.items()]
        root = next(iter(self.brokers.values()))
        for broker in self.brokers.values():
            broker.view.learn(*whole)
            broker.view.sweep()
            broker.view.configuration = root.view.configuration
        root.council.tick(self.now_us)

    # -- time ----------------------------------------------------------------------------------------------------------

    def run(self, leases: float) -> None:
        until_us = self.now_us + int(leases * LEASE_US)
        while self.pass_on(until_us):
            self.watch()
        self.now_us = until_us

    # -- brokers -------------------------------------------------------------------------------------------------------

    def _begin(self, name: str, incarnation: int) -> Broker:
        def post(peer: str, message: ProtocolMessage) -> None:
            self._carry(broker, peer, message)

        def note(kind: str, lives: tuple[Life, ...]) -> None:
            self.history.append((self.now_us, name, kind, lives))
            if kind == "fenced":
                self.after(0, lambda: self._end(broker, refuses=True))

        broker = Broker(name, incarnation, self.faults, OPTIONS, post, note)
        self.brokers[name] = broker
        self.crashed.pop(name, None)
        self.after(self.random.randrange(1, HEARTBEAT_US), lambda: self._tick(broker))
        return broker

    def _tick(self, broker: Broker) -> None:
        if self.brokers[broker.name] is not broker or broker.name in self.crashed:
            return
        self.after(HEARTBEAT_US, lambda: self._tick(broker))
        if broker.name not in self.frozen:
            broker.tick(self.now_us)

    def lives(self, name: str) -> bool:
        return name not in self.crashed and not self.brokers[name].is_ended

    def was_fenced(self, name: str) -> bool:
        return self.brokers[name].incarnation > 1 or any(
            who == name and what == "fenced" for _, who, what, _ in self.history
        )

    def count(self, what: str) -> int:
        return sum(len(lives) for _, _, kind, lives in self.history if kind == what)

    def living(self) -> list[Broker]:
        return [broker for name, broker in self.brokers.items() if self.lives(name)]

    def crash(self, name: str, refuses: bool | None = None) -> None:
        if name not in self.crashed:
            self._end(self.brokers[name], self.random.random() < 0.5 if refuses is None else refuses)

    def _end(self, broker: Broker, refuses: bool) -> None:
        name = broker.name
        if name in self.crashed or self.brokers[name] is not broker:
            return
        self.crashed[name] = refuses
        self.frozen.pop(name, None)
        for other in self.brokers:
            lost_us = 0 if broker.is_ended else self.random.randrange(0, self._delay(name, other) + 1)
            self._cuts[name, broker.incarnation, other] = self.now_us - lost_us
            if frozenset((name, other)) in self._sessions:
                self.after(self.random.randrange(200, 3000), lambda other=other: self._hush(other, name))  # type: ignore[misc]
        if broker.is_ended and self.returns:
            self.after(self.random.randrange(500, 2 * LEASE_US), lambda: self.revive(name))

    def revive(self, name: str) -> None:
        """The next life begins, and asks around for a place until it has one."""
        if name not in self.crashed:
            return
        broker = self._begin(name, self.brokers[name].incarnation + 1)
        for pair in self._sessions:  # whoever wants a session with the name finds the new life
            if name in pair:
                other = next(iter(pair - {name}))
                self.after(self.random.randrange(200, 3000), lambda other=other: self._meet(name, other))  # type: ignore[misc]

        def ask() -> None:
            if self.brokers[name] is not broker or broker.is_joined or name in self.crashed:
                return
            hosts = [other.name for other in self.living() if other.is_joined and other.name != name]
            if hosts:
                self._carry(broker, self.random.choice(hosts), Join(broker.incarnation))
            self.after(LEASE_US, ask)

        ask()

    # -- faults of the network -----------------------------------------------------------------------------------------

    def freeze(self, name: str) -> None:
        if self.lives(name) and name not in self.frozen:
            self.frozen[name] = []
            for other in self.brokers:
                if frozenset((name, other)) in self._sessions:
                    self.after(LEASE_US // 2, lambda other=other: self._hush(other, name))  # type: ignore[misc]

    def thaw(self, name: str) -> None:
        for action in self.frozen.pop(name, []):
            action()

    def partition(self, names: frozenset[str]) -> None:
        self.cut = names
        for pair in list(self._sessions):
            one, other = sorted(pair)
            if (one in names) != (other in names):
                self.after(LEASE_US // 2, lambda one=one, other=other: self._hush(one, other))  # type: ignore[misc]
                self.after(LEASE_US // 2, lambda one=one, other=other: self._hush(other, one))  # type: ignore[misc]

    def sever(self, one: str, other: str) -> None:
        self.severed.add(frozenset((one, other)))
        self.after(LEASE_US // 2, lambda: self._hush(one, other))
        self.after(LEASE_US // 2, lambda: self._hush(other, one))

    def heal(self) -> None:
        self.cut = frozenset()
        self.severed.clear()
        held, self._held = self._held, []
        for action in held:
            action()
        for here, peer in sorted(self._hushed):
            if self.lives(here) and peer not in self.crashed and here not in self.frozen and peer not in self.frozen:
                self._hushed.discard((here, peer))
                self.brokers[here].connected(peer, self.now_us)

    def _is_cut(self, one: str, other: str) -> bool:
        return (one in self.cut) != (other in self.cut) or frozenset((one, other)) in self.severed

    def _hush(self, here: str, peer: str) -> None:
        """Tell a broker that a peer is not heard, as long as that is so; now and then again."""
        broker = self.brokers[here]
        gone = peer in self.crashed or peer in self.frozen or self._is_cut(here, peer)
        if not gone or not self.lives(here):
            return
        if here not in self.frozen:
            self._hushed.add((here, peer))
            refused = self.crashed.get(peer, False) and not self._is_cut(here, peer)
            broker.silent(peer, refused, self.now_us)
        if peer in broker.view.neighbours:
            self.after(LEASE_US // 3, lambda: self._hush(here, peer))

    # -- messages ------------------------------------------------------------------------------------------------------

    def _delay(self, one: str, other: str) -> int:
        pair = frozenset((one, other))
        if pair not in self._latency:
            self._latency[pair] = self.random.choice((self.random.randrange(20, 120), self.random.randrange(50, 800)))
        return self._latency[pair]

    def _carry(self, sender: Broker, peer: str, message: ProtocolMessage) -> None:
        if peer not in self.brokers or peer == sender.name:
            return
        here = sender.name
        self._sessions.setdefault(frozenset((here, peer)), {})
        if peer in self.crashed:
            self.after(2 * self._delay(here, peer), lambda: self._hush(here, peer))
            return
        receiver = self.brokers[peer]
        sent_us = self.now_us
        delay_us = self._delay(here, peer)
        self.carry(here, peer, delay_us, lambda: self._arrive(sender, receiver, sent_us, message), gap_us=1)

    def _arrive(self, sender: Broker, receiver: Broker, sent_us: int, message: ProtocolMessage) -> None:
        here, peer = sender.name, receiver.name
        cut_us = self._cuts.get((here, sender.incarnation, peer))
        if cut_us is not None and sent_us >= cut_us and not sender.is_ended:
            return
        if not self.lives(peer) or self.brokers[peer] is not receiver:
            return
        if self._is_cut(here, peer):
            self._held.append(lambda: self._arrive(sender, receiver, sent_us, message))
        elif peer in self.frozen:
            self.frozen[peer].append(lambda: self._arrive(sender, receiver, sent_us, message))
        else:
            self._meet(here, peer, sender.incarnation)
            self._hushed.discard((peer, here))
            receiver.receive(here, message, self.now_us)

    def _meet(self, one: str, other: str, incarnation: int | None = None) -> None:
        """A session begins on both sides when these lives have none yet."""
        known = self._sessions.setdefault(frozenset((one, other)), {})
        lives = {name: self.brokers[name].incarnation for name in (one, other)}
        if incarnation is not None and incarnation != lives[one]:
            return  # the last words of an earlier life
        if incarnation is None and not (self.lives(one) and self.lives(other) and not self._is_cut(one, other)):
            return
        if one in self.frozen or other in self.frozen:
            return
        if known != lives:
            known.update(lives)
            for here, peer in ((one, other), (other, one)):
                broker = self.brokers[here]
                if self.lives(here):
                    broker.connected(peer, self.now_us, lives[peer])


def draw_tree(chance: random.Random, size: int) -> dict[str, str | None]:
    """The root is b00; from long chains to wide stars."""
    names = [f"b{number:02}" for number in range(size)]
    parents: dict[str, str | None] = {names[0]: None}
    for number in range(1, size):
        least = max(0, number - chance.choice((1, 2, 4, 20)))
        parents[names[number]] = names[chance.randrange(least, number)]
    return parents
