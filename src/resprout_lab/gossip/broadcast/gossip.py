"""Where a publication goes from one broker, and what is told and asked so that nothing stays missing.

A pure part. The owner says what is new here (`put`) and what its neighbours say; links are the neighbours of the
overlay. What it wants is said to the owner (`Lines`).
"""

from collections.abc import Iterable
from random import Random
from typing import Final, Protocol

from resprout.core.bundle import Bundle, Origin
from resprout.core.contract import Outcome, ProtocolMessage, Timer
from resprout.core.seen import Range, SeenRanges
from resprout_lab.gossip.broadcast.announced import Announced
from resprout_lab.gossip.broadcast.apart import Apart, ApartDue, Doubts
from resprout_lab.gossip.broadcast.messages import Gossiped, Graft, IHave, Prune, check_offers, in_parts
from resprout_lab.gossip.broadcast.store import RecentBundles, joined

LAZY_MAX: Final = 10_000
"""Publishers that are remembered for a link. Those of one that is forgotten come in full again, until it is pruned."""

ELSEWHERE_MAX: Final = 8
"""Others than neighbours, drawn, that are told of the latest: one of them, or of those that all others here draw, is in
another part of the overlay if there is one."""


class GossipSettled(Outcome, frozen=True):
    """This broker may serve clients: what it is not owed is known."""


class AnnounceDue(Timer, frozen=True):
    """When to tell lazy neighbours what there is."""


class GraftDue(Timer, frozen=True):
    """When to ask for what was announced and has not come."""


class RecoverDue(Timer, frozen=True):
    """When to compare with somebody what there is."""

    @property
    def background(self) -> bool:
        return True


class Lines(Protocol):
    def say(self, name: str, message: ProtocolMessage) -> None:
        """To a neighbour; it costs nothing."""

    def say_elsewhere(self, message: ProtocolMessage) -> None:
        """To anybody that is known and no neighbour, if there is one."""

    def push(self, name: str, message: Gossiped) -> None:
        """To a neighbour, if there is room. If not, the owner calls `offer` when there is."""

    def wake(self, timer: Timer, after_us: int) -> None: ...
    def tell(self, outcome: Outcome) -> None: ...


class GossipTimes(Protocol):
    """Of the options of a stack, what counts here."""

    @property
    def lazy(self) -> bool: ...
    @property
    def announce_us(self) -> int: ...
    @property
    def graft_us(self) -> int: ...
    @property
    def recover_us(self) -> int: ...


class _Link:
    __slots__ = ("compared", "lazy", "unsaid")

    def __init__(self) -> None:
        self.lazy: dict[str, None] = {}
        """Publishers whose publications are only announced here; the longest first."""
        self.compared = 0
        """The version of the store that was told last."""
        self.unsaid: dict[Origin, list[Range]] = {}
        """To be announced."""

    def prune(self, publisher: str) -> None:
        self.lazy[publisher] = None
        if len(self.lazy) > LAZY_MAX:
            del self.lazy[next(iter(self.lazy))]

    def graft(self, publishers: Iterable[str]) -> None:
        for publisher in publishers:
            self.lazy.pop(publisher, None)


class Gossip:
    def __init__(self, seen: SeenRanges, store: RecentBundles, options: GossipTimes, rng: Random, lines: Lines) -> None:
        self._seen = seen
        self._store = store
        self._options = options
        self._rng = rng
        self._lines = lines
        self._links: dict[str, _Link] = {}
        self._announced = Announced(seen)
        self._is_announcing = self._is_grafting = False
        self._told_elsewhere = (0, 0)
        """The version of the store that was last told to others than neighbours, and how many of them."""
        self._doubts = Doubts(seen, lambda timer: lines.wake(timer, options.recover_us))
        self.is_settled = False
        """Until then nothing is owed to anybody here."""

    def begin(self) -> None:
        self._lines.wake(RecoverDue(), self._options.recover_us)

    def settle(self) -> None:
        if not self.is_settled:
            self.is_settled = True
            self._lines.tell(GossipSettled())
            for name in self._links:  # some may wait for somebody who is
                self.offer(name)

    # -- links ---------------------------------------------------------------------------------------------------------

    def begin_link(self, name: str) -> None:
        self._links[name] = _Link()
        self.offer(name)

    def end_link(self, name: str) -> None:
        self._links.pop(name, None)
        self._announced.forget(name)

    def is_eager(self, name: str, publisher: str) -> bool:
        return name in self._links and publisher not in self._links[name].lazy

    def offer(self, name: str, routine: bool = False) -> None:
        """Tell a neighbour all that it can ask for."""
        link = self._links[name]
        link.compared = self._store.version
        link.unsaid.clear()
        parts = in_parts(self._store.offers()) or [()]
        for number, part in enumerate(parts, 1):
            self._lines.say(name, IHave(part, self.is_settled, number < len(parts), routine))

    # -- publications --------------------------------------------------------------------------------------------------

    def put(self, bundle: Bundle, hops: int, source: str | None) -> None:
        """It is new here, and came over so many hops, from this neighbour if it was one."""
        self._store.put(bundle, hops)
        message, publisher = Gossiped(bundle, hops + 1), bundle.publisher
        for name, link in self._links.items():
            if name == source:
                link.graft((publisher,))
            elif publisher not in link.lazy:
                self._lines.push(name, message)
            else:
                link.unsaid.setdefault(bundle.origin, []).append((bundle.first, bundle.last))
                self._announce_soon()

    def repeated(self, name: str, message: Gossiped) -> None:
        """It was here before: with lazy push, this link is not needed for its publisher."""
        link, publisher = self._links[name], message.bundle.publisher
        if self._options.lazy and publisher not in link.lazy and not message.asked:
            link.prune(publisher)
            self._lines.say(name, Prune(publisher))

    # -- what neighbours say -------------------------------------------------------------------------------------------

    def hear_have(self, name: str, message: IHave) -> None:
        check_offers(message.offers)
        if message.settled and not self.is_settled:
            for offer in message.offers:
                for first, last in offer.ranges:
                    self._seen.pass_over(offer.origin, first, last)
            if not message.more:
                self.settle()
            return
        for offer in message.offers:
            self._announced.note(name, offer.origin, offer.ranges)
        self._graft_soon()

    def hear_elsewhere(self, name: str, message: IHave) -> None:
        """From one that is no neighbour."""
        check_offers(message.offers)
        if self.is_settled:
            self._doubts.note(name, message.offers)

    def hear_graft(self, name: str, message: Graft) -> None:
        check_offers(message.offers)
        self._links[name].graft(offer.publisher for offer in message.offers)
        for offer in message.offers:
            for found in self._store.find(offer.origin, offer.ranges):
                self._lines.push(name, Gossiped(found.bundle, found.hops + 1, asked=True))

    def hear_prune(self, name: str, message: Prune) -> None:
        if self._options.lazy:
            self._links[name].prune(message.publisher)

    # -- time ----------------------------------------------------------------------------------------------------------

    def announce_due(self, timer: AnnounceDue) -> None:
        self._is_announcing = False
        for name, link in self._links.items():
            unsaid, link.unsaid = link.unsaid, {}
            for part in in_parts({origin: joined(ranges) for origin, ranges in unsaid.items()}):
                self._lines.say(name, IHave(part, self.is_settled))

    def graft_due(self, timer: GraftDue) -> None:
        self._is_grafting = False
        for name, wanted in self._announced.take().items():
            self._links[name].graft(publisher for publisher, _, _ in wanted)
            for part in in_parts({origin: joined(ranges) for origin, ranges in wanted.items()}):
                self._lines.say(name, Graft(part))
        self._graft_soon()

    def recover_due(self, timer: RecoverDue) -> None:
        """The classical anti-entropy: with one neighbour, drawn, if there is anything that it was not told; or with one
        that is none, since all that are connected may lack the same."""
        self._lines.wake(timer, self._options.recover_us)
        version = self._store.version
        names: list[str | None] = [name for name, link in self._links.items() if link.compared != version]
        told, others = self._told_elsewhere
        if self.is_settled and version and (told != version or others < ELSEWHERE_MAX):
            names.append(None)
        if not names:
            return
        name = self._rng.choice(names)
        if name is not None:
            self.offer(name, routine=True)
        else:
            self._told_elsewhere = (version, others + 1 if told == version else 1)
            for part in in_parts(self._store.offers()):
                self._lines.say_elsewhere(IHave(part, self.is_settled, routine=True))

    def apart_due(self, timer: ApartDue) -> None:
        if self._doubts.is_apart(timer.name) and timer.name not in self._links:
            self._lines.tell(Apart(timer.name))

    def _announce_soon(self) -> None:
        if not self._is_announcing:
            self._is_announcing = True
            self._lines.wake(AnnounceDue(), self._options.announce_us)

    def _graft_soon(self) -> None:
        if self._announced and not self._is_grafting:
            self._is_grafting = True
            self._lines.wake(GraftDue(), self._options.graft_us)
