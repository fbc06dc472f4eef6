"""Gossip: a broker sends a publication to all its neighbours, these to theirs, and so on; what is missing is requested.

*Eager push.* A broker passes everything new on to all its neighbours but the sender. On a connected overlay with
reliable links that reaches every broker, in several copies.

*Recovery.* Every broker keeps its recent publications (`store`). Two new neighbours tell each other what they have
(`IHave`), and each broker tells one of its neighbours now and then; what is missing is requested (`Graft`). So a
publication that was in flight while the overlay changed, or found no room, arrives as long as somebody keeps it.

*Partitions.* Neighbours alone cannot tell that the overlay is partitioned: a few members that have each other, and are
full, look for no others, and miss nothing among themselves. So each broker also compares now and then with a broker
that is not its neighbour. If something that that one has stays missing here for some time, there is no path, or a very
slow one, and the two become neighbours (`Doubts`, `Apart`).

*Lazy push*, an option: the Plumtree of Leitao, Pereira and Rodrigues, "Epidemic broadcast trees" (2007). A neighbour
that brings a duplicate is told not to (`Prune`), and from then on only announces what it has (`IHave`, several at a
time). A tree remains. What was announced and does not come is requested, and that link belongs to the tree again.
There is one tree for each publisher. With one tree for all, the paper's first choice, publications from several sides
cut a circle in several places at a time, and the parts request what they miss for ever: 40 copies instead of 23, in a
run of 24 brokers.

`Gossip` is pure. Its owner tells it what is new here (`put`) and what neighbours say, and executes what it wants
(`Lines`). Tags 280 to 283 of the wire belong to this file.
"""

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Final, Protocol

import msgspec

from resprout.core.bundle import Bundle, Origin
from resprout.core.contract import Outcome, ProtocolMessage, Timer
from resprout.core.errors import PeerError
from resprout.core.message_fields import BundleMessage
from resprout.core.seen import Range, SeenRanges
from resprout_lab.gossip.store import Announced, RecentBundles, joined

RANGES_MAX: Final = 4_096
"""In one message, of all origins together: that fits a frame whatever their names are."""
_OFFER_BYTES: Final = 96
_RANGE_BYTES: Final = 19

DOUBTS_MAX: Final = 8
"""That is waited for at the same time, each of another one. Who comes beyond that will compare again."""

LAZY_MAX: Final = 10_000
"""Publishers that are remembered for a link. Those of one that is forgotten come in full again, until it is pruned."""

ELSEWHERE_MAX: Final = 8
"""Others than neighbours, drawn, that are told of the latest: one of them, or of those that all others here draw, is in
another part of the overlay if there is one."""


class OfferedRanges(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Publications of one origin, by number."""

    publisher: str
    stream: str
    incarnation: int
    ranges: tuple[tuple[int, int], ...]
    """(first, last), rising, with gaps between them."""

    @property
    def origin(self) -> Origin:
        return (self.publisher, self.stream, self.incarnation)


OfferList = tuple[OfferedRanges, ...]


class Gossiped(BundleMessage, frozen=True, tag=280):
    """A publication."""

    bundle: Bundle
    hops: int
    asked: bool = False
    """In answer to `Graft`."""


class IHave(ProtocolMessage, frozen=True, tag=281):
    """These can be asked for here."""

    offers: OfferList
    settled: bool
    """The sender serves clients: a newcomer is not owed what it is offered by such a one before it does."""
    more: bool = False
    """The next message goes on with it."""
    routine: bool = False
    """Told now and then, whatever happens: nobody waits for it."""

    @property
    def bulk(self) -> int:
        return bytes_of(self.offers)

    @property
    def background(self) -> bool:
        return self.routine


class Graft(ProtocolMessage, frozen=True, tag=282):
    """Send these; and with lazy push, whatever comes of their publishers from now on."""

    offers: OfferList

    @property
    def bulk(self) -> int:
        return bytes_of(self.offers)


class Prune(ProtocolMessage, frozen=True, tag=283):
    """What you push of this publisher comes another way: tell me of it, and do not send it."""

    publisher: str


GOSSIP_MESSAGES: Final = (Gossiped, IHave, Graft, Prune)


def bytes_of(offers: OfferList) -> int:
    return sum(_OFFER_BYTES + _RANGE_BYTES * len(offer.ranges) for offer in offers)


def check_offers(offers: OfferList) -> None:
    """PeerError for what no honest peer offers or asks for."""
    if sum(len(offer.ranges) for offer in offers) > RANGES_MAX or len(offers) > RANGES_MAX:
        raise PeerError(f"more than {RANGES_MAX} ranges in one message")
    for offer in offers:
        end = -1
        for first, last in offer.ranges:
            if not max(end + 2, 1) <= first <= last:
                raise PeerError(f"{first} to {last} after {end} is no range of publications")
            end = last


def in_parts(offered: Mapping[Origin, Iterable[Range]]) -> list[OfferList]:
    """Each part fits into a message; none where nothing is offered."""
    parts: list[OfferList] = []
    part: list[OfferedRanges] = []
    left = RANGES_MAX
    for origin, given in offered.items():
        ranges = list(given)
        while ranges:
            part.append(OfferedRanges(*origin, tuple(ranges[:left])))
            taken = len(part[-1].ranges)
            left -= taken
            ranges = ranges[taken:]
            if not left:
                parts.append(tuple(part))
                part, left = [], RANGES_MAX
    return [*parts, tuple(part)] if part else parts


class Apart(Outcome, frozen=True):
    """This one, who is no neighbour, has what does not come here."""

    name: str


class ApartDue(Timer, frozen=True):
    """When what one has that is no neighbour should have come."""

    name: str


class Doubts:
    def __init__(self, seen: SeenRanges, wake: Callable[[Timer], None]) -> None:
        """`wake`: when there was time enough for what neighbours have to come."""
        self._seen = seen
        self._wake = wake
        self._doubts: dict[str, OfferList] = {}
        """What others have, and was missing here."""

    def note(self, name: str, offers: OfferList) -> None:
        """It is no neighbour, and has these."""
        if name not in self._doubts and len(self._doubts) < DOUBTS_MAX and self._lacks(offers):
            self._doubts[name] = offers
            self._wake(ApartDue(name))

    def is_apart(self, name: str) -> bool:
        """Whether what it had is missing still. If so, the others are not waited for: what they have may come by this
        one."""
        found = self._lacks(self._doubts.pop(name, ()))
        if found:
            self._doubts.clear()
        return found

    def _lacks(self, offers: OfferList) -> bool:
        return any(self._seen.missing(one.origin, first, last) for one in offers for first, last in one.ranges)


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
