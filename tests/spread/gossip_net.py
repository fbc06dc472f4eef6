"""Gossip alone: brokers on links that somebody chooses, without sessions, clients or an overlay."""

import random
from collections import Counter, deque
from typing import Any

import msgspec

from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.contract import Outcome, ProtocolMessage, Timer
from resprout.core.guarantee import Guarantee
from resprout.core.seen import SeenRanges
from resprout_lab.gossip.broadcast import AnnounceDue, Gossip, Gossiped, Graft, GraftDue, IHave, Prune, RecoverDue
from resprout_lab.gossip.store import RecentBundles


class Times(msgspec.Struct, frozen=True):
    lazy: bool = False
    announce_us: int = 1
    graft_us: int = 1
    recover_us: int = 1


def bundle(publisher: str, first: int, count: int = 1, size: int = 1) -> Bundle:
    payloads = pack_payloads([b"x" * size] * count)
    return Bundle(publisher, 1, first, count, 0, "t", (), Guarantee.EVENTUAL, b"", payloads)


class Gossiper:
    """One broker, and what it says and wants (`Lines`)."""

    def __init__(self, net: "Gossipers", name: str, lazy: bool, store_bytes: int) -> None:
        self.net = net
        self.name = name
        self.seen = SeenRanges()
        self.store = RecentBundles(store_bytes)
        self.gossip = Gossip(self.seen, self.store, Times(lazy), random.Random(name), self)
        self.got: list[tuple[str, int]] = []
        self.timers: dict[Timer, None] = {}
        self.told: list[Outcome] = []
        self.elsewhere: list[ProtocolMessage] = []
        """What it said to one that is no neighbour."""
        self.gossip.begin()

    def say(self, name: str, message: ProtocolMessage) -> None:
        self.net.said[type(message).__name__] += 1
        self.net.on_the_way.append((self.name, name, message))

    push = say

    def say_elsewhere(self, message: ProtocolMessage) -> None:
        self.elsewhere.append(message)

    def wake(self, timer: Timer, after_us: int) -> None:
        self.timers[timer] = None

    def tell(self, outcome: Outcome) -> None:
        self.told.append(outcome)

    def publish(self, bundle: Bundle) -> None:
        assert self.seen.is_new(bundle)
        self.got.append((bundle.publisher, bundle.first))
        self.gossip.put(bundle, 0, None)

    def hear(self, source: str, message: Any) -> None:
        match message:
            case Gossiped(heard) if self.seen.is_new(heard):
                self.got.append((heard.publisher, heard.first))
                self.gossip.put(heard, message.hops, source)
            case Gossiped():
                self.gossip.repeated(source, message)
            case IHave():
                self.gossip.hear_have(source, message)
            case Graft():
                self.gossip.hear_graft(source, message)
            case Prune():
                self.gossip.hear_prune(source, message)


class Gossipers:
    def __init__(self, names: str, lazy: bool = False, settled: bool = True, store_bytes: int = 1 << 20) -> None:
        self.on_the_way: deque[tuple[str, str, Any]] = deque()
        self.said: Counter[str] = Counter()
        self.lost: set[frozenset[str]] = set()
        """Links that lose what is sent over them, and do not say so."""
        self.brokers = {name: Gossiper(self, name, lazy, store_bytes) for name in names}
        self.linked: set[frozenset[str]] = set()
        if settled:
            for broker in self.brokers.values():
                broker.gossip.settle()

    def link(self, *pairs: str) -> None:
        for one, other in map(tuple, pairs):
            self.linked.add(frozenset((one, other)))
            self.brokers[one].gossip.begin_link(other)
            self.brokers[other].gossip.begin_link(one)

    def carry(self) -> None:
        while self.on_the_way:
            source, name, message = self.on_the_way.popleft()
            pair = frozenset((source, name))
            if pair in self.linked and pair not in self.lost:
                self.brokers[name].hear(source, message)

    def fire(self, kind: type[Timer]) -> bool:
        fired = False
        for broker in self.brokers.values():
            for timer in [timer for timer in broker.timers if isinstance(timer, kind)]:
                fired = True
                del broker.timers[timer]
                if isinstance(timer, AnnounceDue):
                    broker.gossip.announce_due(timer)
                elif isinstance(timer, GraftDue):
                    broker.gossip.graft_due(timer)
                elif isinstance(timer, RecoverDue):
                    broker.gossip.recover_due(timer)
        return fired

    def settle(self) -> None:
        """Until nobody waits for anything; what everybody does now and then aside."""
        self.carry()
        while self.fire(AnnounceDue) or self.fire(GraftDue):
            self.carry()

    def lacking(self) -> list[tuple[str, tuple[str, int]]]:
        """(broker, what it has not got)."""
        everything = dict.fromkeys(key for broker in self.brokers.values() for key in broker.got)
        return [
            (name, key) for name, broker in self.brokers.items() for key in everything if key not in set(broker.got)
        ]
