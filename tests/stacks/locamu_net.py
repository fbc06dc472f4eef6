"""Brokers of LoCaMu in hands that carry what they say, kill them, and start them again with what was on their disks."""

import random
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from resprout.core.bundle import Bundle
from resprout.core.contract import (
    Close,
    Effect,
    EndCause,
    Event,
    Forget,
    Heard,
    Hold,
    LinkDown,
    LinkUp,
    Open,
    Persist,
    Received,
    Recovered,
    Release,
    Send,
    SetTimer,
    Silent,
    Timer,
    TimerFired,
)  # fmt: skip
from resprout.edge.messages import Attend, Delivery, Publish, Serving, Subscribe, Taken
from resprout.stacks.stack import BrokerSeat
from resprout_lab.blocks.detector import SuspectDue
from resprout_lab.locamu.broker import LocamuBroker, LocamuOptions
from resprout_lab.locamu.messages import Carried
from tests.edge.desk import Desk
from tests.network import Streams

ROOM = 1 << 24

Key = tuple[str, int]
"""(publisher, number)."""


def chain(count: int) -> dict[str, str | None]:
    return {f"b{no}": f"b{no - 1}" if no else None for no in range(count)}


def binary(count: int) -> dict[str, str | None]:
    return {f"b{no}": f"b{(no - 1) // 2}" if no else None for no in range(count)}


class Hands:
    """Each broker has a client that publishes, and reads everything or the topics of its groups. What a broker says to
    another one lies in a stream of its own until it is carried over."""

    def __init__(
        self,
        parents: Mapping[str, str | None],
        f: int = 1,
        groups: Mapping[str, Sequence[str]] | None = None,
        **options: int,
    ) -> None:
        """`groups`: by topic, the brokers whose clients read it."""
        self.parents = dict(parents)
        self.groups = groups
        self.topics: dict[Key, str] = {}
        self.options = LocamuOptions(f=f, **options)
        self.machines: dict[str, LocamuBroker] = {}
        self.disks: dict[str, list[bytes]] = {name: [] for name in parents}
        self.lives = dict.fromkeys(parents, 0)
        self.streams: Streams[Any] = Streams()
        self.headers: list[tuple[str, str, Carried]] = []
        """(from, to, message): all that was ever sent."""
        self.read: dict[str, list[Key]] = {name: [] for name in parents}
        """By broker: in this life of it."""
        self.past: dict[Key, tuple[Key, ...]] = {}
        """By publication: what its publisher had read or published before."""
        self.were_down: set[str] = set()
        self.served: set[str] = set()
        """Brokers that serve their client."""
        self.closed: list[tuple[str, str, str]] = []
        self.held: set[tuple[str, str]] = set()
        """(broker, who is held back by it)."""
        self._taken: dict[str, int] = {}
        self._asleep: dict[str, dict[Timer, None]] = {}
        self._wanted: dict[tuple[str, str], None] = {}
        self._up: set[frozenset[str]] = set()
        self._standing: dict[str, list[str]] = {}
        """By dead broker: those whose session with it is not over, as far as they know."""
        self._bundles = Desk("locamu")
        for name in parents:
            self.start(name)
        self.settle()  # until all know who reads

    # -- lives ---------------------------------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        self.lives[name] += 1
        seat = BrokerSeat(name, self.lives[name], self.parents[name])
        machine = self.machines[name] = LocamuBroker(seat, self.options, random.Random(1))
        self._asleep[name], self.read[name], self._taken[name] = {}, [], 0
        for other in self._standing.pop(name, ()):
            if other in self.machines:
                self.step(other, LinkDown(name, "it has started again", EndCause.RESTARTED))
        effects = list(machine.start(0))
        if self.disks[name]:
            effects += machine.step(Recovered(tuple(self.disks[name])), 0)
        self._do(name, effects)
        for one, other in list(self._wanted):
            if other == name and one in self.machines:
                self._connect(one, name)
        if self.lives[name] == 1:
            self.settle()  # until it has its place
        self.step(name, LinkUp(f"c{name}", "client", 1, ROOM))
        self.step(name, Received(f"c{name}", Attend(0)))

    def kill(self, name: str, *, is_noticed: bool = True) -> None:
        """What is on its way from it, or to it, is lost."""
        del self.machines[name]
        self.were_down.add(name)
        self.served.discard(name)
        for pair in [pair for pair in self.streams.busy() if name in pair]:
            self.streams.cut(*pair)
        for pair in [pair for pair in self._wanted if pair[0] == name]:
            del self._wanted[pair]
        gone = [pair for pair in self._up if name in pair]
        self._up.difference_update(gone)
        others = self._standing[name] = sorted(other for pair in gone for other in pair - {name})
        for other in others:
            self._wanted[other, name] = None
            if is_noticed:
                self.step(other, Silent(name, refused=True))

    def reconnect(self, one: str, other: str) -> None:
        """Their session is over, and another one begins."""
        self._up.discard(frozenset((one, other)))
        for name, peer in ((one, other), (other, one)):
            self.streams.cut(name, peer)
            self.step(name, LinkDown(peer, "lost"))
        self._connect(one, other)

    def suspect(self, one: str, *others: str) -> None:
        """It does not hear these, for longer than its timeout."""
        for other in others:
            self.step(one, Silent(other, refused=False))
            self._asleep[one].pop(SuspectDue(other), None)
            self.step(one, TimerFired(SuspectDue(other)))

    def break_link(self, one: str, *others: str) -> None:
        """Nothing comes from one to these, or from these to it, and both sides notice."""
        for other in others:
            self.suspect(one, other)
            self.suspect(other, one)

    def mend_link(self, one: str, *others: str) -> None:
        for other in others:
            self.step(one, Heard(other))
            self.step(other, Heard(one))

    def _connect(self, one: str, other: str) -> None:
        pair = frozenset((one, other))
        if pair not in self._up:
            self._up.add(pair)
            self.step(one, LinkUp(other, "broker", self.lives[other], ROOM))
            self.step(other, LinkUp(one, "broker", self.lives[one], ROOM))

    def step(self, name: str, event: Event) -> None:
        self._do(name, self.machines[name].step(event, 0))

    def _do(self, name: str, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Persist(record):
                    self.disks[name].append(record)
                case Forget(count):
                    del self.disks[name][: len(self.disks[name]) - count]
                case SetTimer(timer, _):
                    self._asleep[name][timer] = None
                case Hold(peer):
                    self.held.add((name, peer))
                case Release(peer):
                    self.held.discard((name, peer))
                case Close(peer, reason):
                    self.closed.append((name, peer, reason))
                case Open(peer):
                    self._wanted[name, peer] = None
                    if peer in self.machines:
                        self._connect(name, peer)
                    elif self.lives[peer]:
                        self.step(name, Silent(peer, refused=True))
                case Send(peer, message):
                    self._sent(name, peer, message)
                case _:
                    pass

    def _sent(self, name: str, peer: str, message: Any) -> None:
        if isinstance(message, Serving):
            self.served.add(name)
            wanted = ["#"] if self.groups is None else [one for one, members in self.groups.items() if name in members]
            for id, topic in enumerate(wanted, start=1):
                self.step(name, Received(peer, Subscribe(id, topic, None)))
        elif isinstance(message, Delivery):
            self.read[name].append(key_of(message.bundle))
        elif frozenset((name, peer)) in self._up:
            if isinstance(message, Carried):
                self.headers.append((name, peer, message))
            self.streams.put(name, peer, message)

    # -- what happens --------------------------------------------------------------------------------------------------

    def publish(self, name: str, topic: str = "t") -> Key:
        bundle = self._bundles.bundle(f"c{name}", topic)
        key = key_of(bundle)
        self.topics[key] = topic
        self.past[key] = (*self.read[name], *[one for one in self.past if one[0] == key[0]])
        self.step(name, Received(f"c{name}", Publish(bundle)))
        return key

    def carry(self, one: str, other: str) -> bool:
        """The next thing that one of them has said to the other."""
        if not self.streams.between(one, other):
            return False
        self.step(other, Received(one, self.streams.take(one, other)))
        return True

    def carry_all(self, one: str, other: str) -> None:
        while self.carry(one, other):
            pass

    def settle(self, *without: tuple[str, str]) -> None:
        """Everything is carried, but over these links, readers have taken what they read, and all timers ring."""
        while True:
            while ways := [pair for pair in self.streams.busy() if pair not in without]:
                self.carry(*ways[0])
            for name in [name for name in self.machines if len(self.read[name]) > self._taken[name]]:
                self._taken[name] = len(self.read[name])
                self.step(name, Received(f"c{name}", Taken(self._taken[name])))
            rung = [(name, timer) for name, timers in self._asleep.items() if name in self.machines for timer in timers]
            if not rung:
                return
            for name, timer in rung:
                del self._asleep[name][timer]
                self.step(name, TimerFired(timer))

    # -- what must be --------------------------------------------------------------------------------------------------

    def wrong(self) -> list[str]:
        """Read too early, twice, or never by those that were always there: all that was published by the living, and
        whatever any of them has read."""
        found = []
        steady = [name for name in self.read if name not in self.were_down]
        owed = [key for key in self.past if key[0][1:] in self.machines or any(key in self.read[one] for one in steady)]
        for name, order in self.read.items():
            places: dict[Key, int] = {}
            for place, key in enumerate(order):
                if places.setdefault(key, place) != place:
                    found.append(f"c{name} has read {key} twice")
            for key, place in places.items():
                late = [one for one in self.past[key] if places.get(one, -1) > place]
                found += [f"c{name} has read {key} before {one}" for one in late]
            if name not in self.were_down:
                found += [
                    f"c{name} has never read {key}" for key in owed if key not in places and self.reads(name, key)
                ]
        return found + [f"{one} has cut off {other}: {why}" for one, other, why in self.closed]

    def reads(self, name: str, key: Key) -> bool:
        return self.groups is None or name in self.groups[self.topics[key]]


class Chance(Hands):
    """Everything at random, within the faults that the stack bears."""

    def __init__(self, seed: int, brokers: int, f: int, groups: int = 0) -> None:
        """`groups`: so many, of two to four members each; 0: everybody reads everything."""
        self.rng = random.Random(seed)
        names = [f"b{no}" for no in range(brokers)]
        parents = {name: names[self.rng.randrange(max(0, no - 3), no)] if no else None for no, name in enumerate(names)}
        drawn = {f"g{no}": self.rng.sample(names, self.rng.randint(2, 4)) for no in range(groups)}
        super().__init__(parents, f, drawn or None)
        self.down: list[str] = []

    def run(self, operations: int, *, returns: bool = True) -> None:
        """`returns`: in the end all live."""
        rng = self.rng
        for _ in range(operations):
            match rng.choice(("publish", "publish", "kill", "start", "carry")):
                case "publish":
                    topic = rng.choice([*self.groups] if self.groups is not None else ["t"])
                    self.publish(rng.choice([name for name in self.machines if name in self.served]), topic)
                case "kill":
                    name = rng.choice(list(self.machines))
                    if rng.random() < 0.3 and self._bears([*self.down, name]):
                        self.down.append(name)
                        self.kill(name)
                case "start":
                    if self.down and rng.random() < 0.5:
                        name = self.down.pop(rng.randrange(len(self.down)))
                        self.start(name)
                case _:
                    pass
            for _ in range(rng.randrange(12)):
                if ways := self.streams.busy():
                    self.carry(*rng.choice(ways))
        self.settle()
        if returns:
            for name in self.down:
                self.start(name)
            self.settle()

    def _bears(self, names: list[str]) -> bool:
        """At most f of them on any path of 2f + 1."""
        f = self.options.f
        paths = [self.path(one, other) for one, other in combinations(names, 2)]
        return all(sum(name in names for name in path) <= f for path in paths if len(path) <= 2 * f + 1)

    def path(self, one: str, other: str) -> list[str]:
        up, down = self._way_up(one), self._way_up(other)
        meeting = next(name for name in up if name in down)
        return up[: up.index(meeting) + 1] + down[: down.index(meeting)][::-1]

    def _way_up(self, name: str) -> list[str]:
        way = [name]
        while (parent := self.parents[way[-1]]) is not None:
            way.append(parent)
        return way


def key_of(bundle: Bundle) -> Key:
    return bundle.publisher, bundle.first
