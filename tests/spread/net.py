"""Brokers of which nothing but interest is there, joined in a tree by FIFO queues.

After every single step the claims of `spread.interest` can be checked from the outside: against a small universe of
messages, each predicate is the set of those it matches, written as the bits of a number.
"""

import itertools
from collections.abc import Mapping
from functools import cache

from resprout.core.contract import ProtocolMessage
from resprout.core.limits import AttributeValue
from resprout.filters.predicate import Predicate, parse_predicate
from resprout.spread import asked as asks
from resprout.spread.asked import Asked
from resprout.spread.covers import Wish
from resprout.spread.interest import Interest
from resprout.spread.messages import InterestConfirmed, Interested, Outbound, Uninterested
from tests.network import Streams

TOPICS = ("a", "a/b", "a/c", "a/b/c", "d", "d/b", "$s", "$s/b")
ATTRIBUTES: tuple[Mapping[str, AttributeValue], ...] = (
    {}, {"x": 0}, {"x": 3}, {"x": 7}, {"x": 9}, {"y": 1}, {"x": 3, "y": 1}, {"x": "7"},
)  # fmt: skip
UNIVERSE = tuple(itertools.product(TOPICS, ATTRIBUTES))

Claim = tuple[str, Predicate]
"""(client, what it wants)."""


@cache
def matched(predicate: Predicate) -> int:
    """The messages of the universe that it matches, one bit each."""
    return sum(1 << n for n, (topic, row) in enumerate(UNIVERSE) if predicate.matches(topic, row))


class Broker:
    def __init__(self) -> None:
        self.interest = Interest()


class Net:
    """`parents` maps each broker to its parent (None: the root); `homes` each client to its broker.

    Links in `later` do not carry anything until `join`; both ends count with them from the beginning.
    """

    def __init__(
        self, parents: Mapping[str, str | None], homes: Mapping[str, str], later: frozenset[str] = frozenset()
    ) -> None:
        self.homes = dict(homes)
        self.brokers = {name: Broker() for name in parents}
        self.links = [(name, parent) for name, parent in parents.items() if parent is not None]
        self._streams: Streams[ProtocolMessage] = Streams()
        self.asleep: set[tuple[str, str]] = set()
        self.wanted: dict[Claim, None] = {}
        self.confirmed: dict[Claim, None] = {}
        self._toward = {name: self._hops_toward(name) for name in parents}
        for child, parent in self.links:
            for here, there in ((child, parent), (parent, child)):
                self.asleep.add((here, there))
                self.brokers[here].interest.add_neighbour(there)
            if child not in later:
                self.join(child, parent)

    def join(self, one: str, other: str) -> None:
        """The session begins: each side tells the other all that it must know."""
        for here, there in ((one, other), (other, one)):
            if (here, there) in self.asleep:
                self.asleep.remove((here, there))
                self._say(here, self.brokers[here].interest.asks(there))

    def want(self, client: str, predicate: Predicate) -> None:
        assert (client, predicate) not in self.wanted
        self.wanted[client, predicate] = None
        outbound: Outbound = []
        self._note(self._interest_of(client).want(client, predicate, outbound))
        self._say(self.homes[client], outbound)

    def drop(self, client: str, predicate: Predicate) -> None:
        del self.wanted[client, predicate]
        self.confirmed.pop((client, predicate), None)
        outbound: Outbound = []
        self._note(self._interest_of(client).drop(client, predicate, outbound))
        self._say(self.homes[client], outbound)

    def leave(self, client: str) -> None:
        """As a broker does it when a session ends: everything goes in one step."""
        outbound: Outbound = []
        for claim in [claim for claim in self.wanted if claim[0] == client]:
            del self.wanted[claim]
            self.confirmed.pop(claim, None)
        self._note(self._interest_of(client).drop_all(client, outbound))
        self._say(self.homes[client], outbound)

    def step(self, choice: int) -> bool:
        """Let one message arrive; False when none is under way."""
        busy = self._streams.busy()
        if not busy:
            return False
        sender, receiver = busy[choice % len(busy)]
        self._arrive(sender, receiver, self._streams.take(sender, receiver))
        return True

    def settle(self, choice: int = 0) -> None:
        for _ in range(100_000):
            if not self.step(choice):
                return
        raise AssertionError("interest does not come to rest")

    def _arrive(self, sender: str, receiver: str, message: ProtocolMessage) -> None:
        interest, outbound = self.brokers[receiver].interest, Outbound()
        match message:
            case Interested():
                predicate = parse_predicate(message.filter, message.where)
                self._note(interest.asked_by(sender, message, predicate, outbound))
            case InterestConfirmed():
                self._note(interest.confirmed_by(sender, message, outbound))
            case Uninterested():
                self._note(interest.withdrawn_by(sender, message, outbound))
            case _:
                raise AssertionError(message)
        self._say(receiver, outbound)

    def _note(self, wishes: list[Wish]) -> None:
        for wish in wishes:
            claim = (wish.direction, wish.predicate)
            assert claim in self.wanted, f"{claim} is confirmed though nobody wants it"
            assert claim not in self.confirmed, f"{claim} is confirmed twice"
            self.confirmed[claim] = None

    def _say(self, name: str, outbound: Outbound) -> None:
        for neighbour, message in outbound:
            if (name, neighbour) not in self.asleep:
                self._streams.put(name, neighbour, message)

    def _interest_of(self, client: str) -> Interest:
        return self.brokers[self.homes[client]].interest

    def _hops_toward(self, home: str) -> dict[str, str]:
        """For every other broker, the neighbour on its way to `home`."""
        way: dict[str, str] = {}
        edge = [home]
        while edge:
            here = edge.pop()
            for one, other in (*self.links, *((b, a) for a, b in self.links)):
                if other == here and one != home and one not in way:
                    way[one] = here
                    edge.append(one)
        return way

    # -- what must hold ------------------------------------------------------------------------------------------------

    def check_no_gap(self) -> None:
        """Every broker sends what a confirmed claim matches one hop nearer to it."""
        for client, predicate in self.confirmed:
            bits = matched(predicate)
            for broker, hop in self._toward[self.homes[client]].items():
                recorded = 0
                for sent in self.brokers[broker].interest.index.predicates_of(hop):
                    recorded |= matched(sent)
                missing = bits & ~recorded
                assert not missing, (client, predicate, broker, hop, UNIVERSE[missing.bit_length() - 1])

    def check_at_rest(self, compact: bool = True) -> None:
        """`compact`: searches have patience enough to find whatever covers."""
        assert self.confirmed.keys() == self.wanted.keys(), "at rest every wish is confirmed"
        assert self._streams.busy() == []
        for here, there in (*self.links, *((parent, child) for child, parent in self.links)):
            self._check_asked(here, there, compact)
        self.check_forests()

    def check_forests(self) -> None:
        for broker in self.brokers.values():
            for name, asked in broker.interest._asked.items():
                wanted = [p for p in broker.interest._wanted if broker.interest._needed(name, p)]
                waiting = [wish for wish in broker.interest._wishes.values() if wish.direction != name]
                check_forest(asked, wanted, waiting)

    def _check_asked(self, here: str, there: str, compact: bool) -> None:
        asked = [predicate for _, predicate, _ in self.brokers[here].interest.standing(there)[0]]
        assert sorted(asked) == sorted(self.brokers[there].interest.index.predicates_of(here)), "both ends agree"
        behind = [predicate for client, predicate in self.wanted if self._is_behind(client, here, there)]
        assert set(asked) <= set(behind), "nothing is asked that nobody wants"
        assert _union(asked) == _union(behind), "all that is wanted is asked"
        for one, other in itertools.permutations(asked, 2) if compact else ():
            assert not one.covers(other), f"{here} asks {there} for {one} and for {other}, which that covers"

    def _is_behind(self, client: str, here: str, there: str) -> bool:
        """Whether the client is on `here`'s side of the link."""
        home = self.homes[client]
        return home == here or (home != there and self._toward[home][there] == here)


def check_forest(asked: Asked, wanted: list[Predicate], wishes: list[Wish]) -> None:
    """Every need stands under exactly one ask that covers it, and an unconfirmed ask reaches all who wait for it."""
    needs = asked._needs
    assert {p for p, need in needs.items() if need.wanted} == set(wanted)
    assert {need for need in needs.values() if need.id} == set(asked._by_id.values())
    for predicate, need in needs.items():
        assert need.predicate == predicate and bool(need.id) == (need.above is None)
        assert need.wanted or (need.above is not None and len(need.under) > 1), "what nobody has holds others together"
        assert need.children_with_waiters.keys() <= need.under.keys()
        assert not (need.waiting or need.children_with_waiters) or not need.root.confirmed
        for under in need.under:
            assert under.above is need and needs[under.predicate] is under
            assert under.height < need.height <= asks.HEIGHT_MAX
            assert matched(under.predicate) & ~matched(need.predicate) == 0
            assert under in need.children_with_waiters or not (under.waiting or under.children_with_waiters)
    for need in needs.values():
        for wish in need.waiting:
            assert wish in wishes and wish.predicate == need.predicate and wish.missing > 0


def _union(predicates: list[Predicate]) -> int:
    bits = 0
    for predicate in predicates:
        bits |= matched(predicate)
    return bits
