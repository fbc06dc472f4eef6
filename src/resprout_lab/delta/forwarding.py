"""Algorithm 1 of the report, generic forwarding: to whom a message goes, who has confirmed it, and what is sent again.

What depends on the type of a message, *T(m)* in the report, is an `Operation`. A message has *targets*, each with the
path to it. Towards each it goes to the nearest broker on the path that there is
a link with, past those that are dead. One that is neither linked nor dead is waited for. When the nearest one changes,
because somebody died or is back, whatever it has not confirmed is sent to the new one, all in order, before anything
new: so whichever way messages take, they come to every broker in the order in which they left any other one.

A message is *done* when the nearest one towards each target has confirmed it; then whoever sent it here is told.
Targets whose whole path is dead are not waited for. Until it is done it is kept, so that no broker is the only one to
have it.

*Duplicates* are known by the last brokers on the way of a message; no broker remembers all publishers. Every broker
gives what passes a number. A message carries the numbers of the last delta + 1 brokers on its way; one that was passed
over has none. It has been here before when any of these numbers is not newer than the newest that was seen of the same
broker (D1). Numbers belong to a life, and those of each are compared with themselves (D2): what a broker had numbered
before it started again may come after what it has numbered since.

*How many* (D9). Seed 002 bounds failures in the whole network by delta, and needs delta + 1 entries: of the last
delta + 1 brokers one is up at any time, so it has given its number to every copy, or is told by `RoutedRejoin` that
there were copies before it was up. Seed 001 bounds them on each path of 2f + 1, and has as many entries. Here the bound
is that of seed 002, and the entries are delta + 1.

A publisher counts as the one before the first broker, while that is within the list: then its own numbers, which travel
anyway, tell its copies apart. So a client that publishes again at another broker, because its own is gone, is known.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Any, Final, Protocol

import msgspec

from resprout.core.bundle import Bundle
from resprout.core.errors import PeerError
from resprout.core.seen import Ranges, Seen, SeenRanges, as_ranges
from resprout.stacks.stack import BrokerSeat
from resprout_lab.blocks.crossing import CrossedLink
from resprout_lab.blocks.retention import KeptItem
from resprout_lab.delta.messages import BarrierId, HopPath, RoutedMessage, RoutesConfirmed, VisitedNode
from resprout_lab.delta.subscriptions import onward
from resprout_lab.delta.tree import KnownTree

NODES_MAX: Final = 65_536
"""Brokers whose numbers are remembered; those heard of longest ago are forgotten first."""


def visited_length(delta: int) -> int:
    return delta + 1


def visited_on(
    visited: Sequence[VisitedNode], own: VisitedNode, passed_over: Sequence[str], delta: int
) -> tuple[VisitedNode, ...]:
    """As it leaves here, past these dead."""
    return (*visited, own, *[VisitedNode(name, 0, 0) for name in passed_over])[-visited_length(delta) :]


class NewestSeen:
    """What this broker has seen last of each broker nearby, and of each publisher nearby."""

    def __init__(self, name: str, life: int, delta: int) -> None:
        self._own = (name, life)
        self._delta = delta
        self._nodes: dict[tuple[str, int], int] = {}
        """By broker and life."""
        self._publishers = Seen()
        self._bundles = SeenRanges()

    def check(self, message: RoutedMessage) -> None:
        """PeerError for what no honest broker says."""
        if not 0 < len(message.visited) <= visited_length(self._delta) or message.hops < len(message.visited):
            raise PeerError(f"a message that has visited {len(message.visited)} brokers in {message.hops} hops")

    def is_duplicate(self, message: RoutedMessage) -> bool:
        bundle = self._bundle_of(message)
        return any(self._has(node) for node in message.visited) or (bundle is not None and self.has_passed(bundle))

    def has_passed(self, bundle: Bundle) -> bool:
        """This one, or a later one of its publisher."""
        return self._publishers.mark(bundle.origin) >= bundle.first

    def note(self, message: RoutedMessage) -> None:
        """It is no duplicate, and is seen now."""
        for node in message.visited:
            if node.number:
                newest = self._nodes.pop((node.name, node.life), 0)
                self._nodes[node.name, node.life] = max(newest, node.number)
        while len(self._nodes) > NODES_MAX:
            del self._nodes[next(iter(self._nodes))]
        if (bundle := self._bundle_of(message)) is not None:
            self.note_bundle(bundle)

    def has(self, bundle: Bundle) -> bool:
        """Exactly this one."""
        return self._bundles.has(bundle)

    def note_bundle(self, bundle: Bundle) -> None:
        self._bundles.is_new(bundle)
        self._publishers.raise_to(bundle.origin, bundle.last)

    def _has(self, node: VisitedNode) -> bool:
        if not node.number:
            return False
        if (node.name, node.life) == self._own:
            return True
        return node.number <= self._nodes.get((node.name, node.life), 0)

    def _bundle_of(self, message: RoutedMessage) -> Bundle | None:
        """Of a publication whose publisher is within the list."""
        return message.published if message.hops <= visited_length(self._delta) else None


TARGETS_MAX: Final = 65_536


class HopLink(msgspec.Struct, eq=False):
    """A link over which messages are routed, for as long as it lasts."""

    name: str
    branch: str
    """The first broker on the path to it, which may be dead."""
    is_operational: bool
    """What it is sent need not be guided."""
    is_over: bool = False
    sent: int = 0
    received: int = 0
    out: "dict[int, Transit]" = {}
    """By place: sent and not confirmed."""
    retained: "deque[Transit]" = msgspec.field(default_factory=deque)
    """Publications that came from here, and of which it has not said that everybody has them: if it dies, this broker
    sees to it."""
    confirmed: Ranges = msgspec.field(default_factory=Ranges)
    """Of what it has sent, the places."""
    fresh: list[int] = []
    """Those that it was not told yet."""
    barriers: list[tuple[int, tuple[BarrierId, ...]]] = []
    """With which some of these are confirmed."""
    crossed: CrossedLink["Transit"] = msgspec.field(default_factory=lambda: CrossedLink(""))
    """The publications that crossed it (`returning`)."""

    def __post_init__(self) -> None:
        self.crossed.name = self.branch

    @property
    def is_behind(self) -> bool:
        """Whether this broker is through with publications that the other end was not told of."""
        lanes = (self.crossed.received, self.crossed.sent)
        return any(lane.mine < lane.last and lane.entries[lane.mine + 1].done_but_for(self.branch) for lane in lanes)

    def confirm(self, place: int, barriers: Sequence[BarrierId] = ()) -> None:
        self.fresh.append(place)
        if barriers:
            self.barriers.append((place, tuple(barriers)))

    def take_confirmed(self) -> RoutesConfirmed | None:
        """What there is to tell, cumulative where that is possible (D8)."""
        if not self.fresh:
            return None
        for place in self.fresh:
            self.confirmed.add(place, place)
        upto = self.confirmed.upto
        beyond = as_ranges(place for place in self.fresh if place > upto)
        told = RoutesConfirmed(upto, tuple(beyond), tuple(self.barriers))
        self.fresh, self.barriers = [], []
        return told


class Transit(msgspec.Struct, eq=False):
    """A message on its way through this broker."""

    no: int
    """Its number here."""
    message: Any
    """A `RoutedMessage`, as it came, or as it was made here."""
    came_from: str | None
    """A neighbour; None: it began here."""
    item: KeptItem | None = None
    """Of a publication."""
    targets: list[HopPath] = []
    out: dict[str, int] = {}
    """By neighbour: its place among what was sent there, while that is not confirmed."""
    reached: dict[str, None] = {}
    """Neighbours that have confirmed it."""
    waiting: set[str] = set()
    """Branches where somebody it is for is neither linked nor dead."""
    senders: list[tuple[HopLink, int]] = []
    """Who is to be told when it is done, and under which number it was sent."""
    barriers: dict[BarrierId, None] = {}
    """Beyond which nobody was told."""
    is_done: bool = False
    unthrough: dict[str, str] = {}
    """Of a publication, neighbours that are not through with it and dead brokers whose clients may lack it; and the
    branch of each."""
    is_given_up: bool = False
    """Too many are kept for those that are not through with it."""
    is_unshown: bool = False
    """It was published here, and it is not its turn to be shown."""
    copies: int = 0
    """At least so many brokers beyond this one have to get it."""
    spares: tuple[HopPath, ...] = ()
    """The targets that get it for a copy only."""
    answers: int = 0
    """Of a claim: those that are not confirmed."""
    answer_to: "Transit | None" = None
    """The claim that this one answers."""

    def done_but_for(self, branch: str) -> bool:
        """Whether this broker and all others are through with it, whatever is true of those behind this branch."""
        if self.is_given_up:
            return True
        is_here = not self.is_done or self.is_unshown or (self.item is not None and self.item.needed > 0)
        return not is_here and all(other == branch for other in self.unthrough.values())


class Operation(Protocol):
    """The procedures of one type of messages."""

    def check(self, message: Any) -> None:
        """Raise PeerError for a message that no honest broker sends."""

    def rcpt(self, transit: Transit) -> Iterable[str]:
        """Return the recipient set, in all directions."""

    def update_routing_information(self, transit: Transit, link: HopLink) -> None:
        """Take in a message that is new here and came over this link."""

    def came_again(self, message: Any, link: HopLink) -> None:
        """It was here before."""

    def copy(self, transit: Transit, distance: int) -> dict[str, Any]:
        """Return the fields that differ in the copy for a broker so far away."""

    def send(self, transit: Transit, name: str, message: Any) -> None: ...
    def confirmed(self, transit: Transit) -> None:
        """Everybody who can be reached has it."""

    def cut(self, transit: Transit, path: HopPath) -> None:
        """Everybody on the path is dead: there is nobody to send it to."""


class ReliableForwarding:
    def __init__(self, seat: BrokerSeat, delta: int, tree: KnownTree) -> None:
        self._seat = seat
        self._delta = delta
        self._tree = tree
        self.newest = NewestSeen(seat.name, seat.incarnation, delta)
        self.operations: dict[type[RoutedMessage], Operation] = {}
        """By type of message."""
        self.links: dict[str, HopLink] = {}
        self._processing: dict[int, Transit] = {}
        """By number, those that are not done."""
        self._by_key: dict[object, Transit] = {}
        self._done = Ranges()
        self._last = 0
        self.is_holding = True
        """While this broker cannot tell by itself for whom messages are: they are passed on, and not confirmed."""

    @property
    def processing(self) -> list[Transit]:
        """In order."""
        return [self._processing[no] for no in sorted(self._processing)]

    @property
    def settled(self) -> int:
        """All up to this number are done."""
        return self._done.upto

    def find(self, key: object) -> Transit | None:
        """On its way, and not done."""
        return self._by_key.get(key)

    # -- Algorithm 1 ---------------------------------------------------------------------------------------------------

    def receive(self, name: str, message: RoutedMessage) -> None:
        """Lines 1 to 18."""
        link = self.links[name]
        self._check(link, message)
        link.received += 1
        transit = self.find(message.key)
        if transit is not None:
            self.operations[type(message)].came_again(message, link)
            transit.senders.append((link, message.place))
            self.check_done(transit)
        elif self.newest.is_duplicate(message):
            self.operations[type(message)].came_again(message, link)
            link.confirm(message.place)
        else:
            self.newest.note(message)
            transit = self.make(message, name)
            transit.senders.append((link, message.place))
            self.operations[type(message)].update_routing_information(transit, link)
            guided = [] if message.to is None else [path for path in message.to if path]
            self.begin(transit, self.recipients(transit) if self._tree.is_synced else guided)

    def originate(self, message: RoutedMessage) -> None:
        """Send a message of this broker itself."""
        transit = self.make(message)
        self.begin(transit, self.recipients(transit))

    def _check(self, link: HopLink, message: RoutedMessage) -> None:
        """Raise PeerError for a message that no honest broker sends, before anything is changed."""
        self.newest.check(message)
        if message.place != link.received + 1:
            raise PeerError(f"{message.place} came after {link.received}")
        if message.to is None and not self._tree.is_synced:
            raise PeerError("this broker needs guidance")
        if any(len(path) > self._delta + 1 for path in message.to or ()) or len(message.to or ()) > TARGETS_MAX:
            raise PeerError("guidance to where nobody can know the way")
        self.operations[type(message)].check(message)

    def recipients(self, transit: Transit) -> list[HopPath]:
        """Return the paths to the recipient set beyond this broker (D4)."""
        names = onward(self._tree.view, transit.came_from, self.operations[type(transit.message)].rcpt(transit))
        return [self._tree.path(name) for name in names]

    def make(self, message: RoutedMessage, came_from: str | None = None) -> Transit:
        self._last += 1
        return Transit(self._last, message, came_from)

    def begin(self, transit: Transit, targets: Iterable[HopPath]) -> None:
        """It goes to these, too."""
        self.resume(transit, targets)
        self._route(transit)

    def resume(self, transit: Transit, targets: Iterable[HopPath] = ()) -> None:
        """The same, in its place among all others: with the next `reroute`."""
        known = dict.fromkeys(transit.targets)
        transit.targets.extend(path for path in targets if path not in known)
        transit.is_done = False
        self._processing[transit.no] = transit
        self._by_key[transit.message.key] = transit

    def nearest(self, path: HopPath) -> str | None:
        """The broker on the path to send to; None: there is none now."""
        for name in path:
            if name in self.links:
                return name
            if not self._tree.is_dead(name):
                return None
        return None

    def _route(self, transit: Transit) -> None:
        ways: dict[str, list[HopPath]] = {}
        transit.waiting.clear()
        for path in transit.targets:
            name = self.nearest(path)
            if name is not None:
                ways.setdefault(name, []).append(path)
            elif all(map(self._tree.is_dead, path)):
                if self._tree.is_synced:
                    self.operations[type(transit.message)].cut(transit, path)
            else:
                transit.waiting.add(path[0])
        for name, paths in ways.items():
            if name not in transit.out and name not in transit.reached:
                link = self.links[name]
                link.sent += 1
                transit.out[name] = link.sent
                link.out[link.sent] = transit
                at = paths[0].index(name)
                beyond = dict.fromkeys(path[path.index(name) + 1 :] for path in paths)
                self._make_copy_send(transit, link, paths[0][: at + 1], tuple(beyond))
        self.check_done(transit)

    def _make_copy_send(self, transit: Transit, link: HopLink, path: HopPath, beyond: tuple[HopPath, ...]) -> None:
        """`path`: to the neighbour, that one included; `beyond`: from there to the recipients."""
        message, operation = transit.message, self.operations[type(transit.message)]
        fields = operation.copy(transit, len(path))
        fields |= {"place": link.sent, "to": None if link.is_operational else beyond}
        if transit.came_from is None or not self._tree.is_same_way(transit.came_from, link.name):
            own = VisitedNode(self._seat.name, self._seat.incarnation, transit.no)
            fields["visited"] = visited_on(message.visited, own, path[:-1], self._delta)
            fields["hops"] = message.hops + len(path)
        operation.send(transit, link.name, msgspec.structs.replace(message, **fields))

    def check_done(self, transit: Transit) -> None:
        """Whoever sent it is told when those behind other branches than its own have it: two that send each other what
        a dead one between them left undone do not wait for each other."""
        if self.is_holding or transit.answers or transit.is_done:
            return
        busy = {self.links[name].branch for name in transit.out} | transit.waiting
        if not busy:
            self._finish(transit)
        elif len(busy) == 1:
            for link, place in [one for one in transit.senders if one[0].branch in busy]:
                transit.senders.remove((link, place))
                self._confirm(transit, link, place)

    def _confirm(self, transit: Transit, link: HopLink, place: int) -> None:
        if not link.is_over:
            link.confirm(place, tuple(transit.barriers))

    def _finish(self, transit: Transit) -> None:
        transit.is_done = True
        self._processing.pop(transit.no, None)
        if self._by_key.get(transit.message.key) is transit:
            del self._by_key[transit.message.key]
        self._done.add(transit.no, transit.no)
        for link, place in transit.senders:
            self._confirm(transit, link, place)
        transit.senders.clear()
        self.operations[type(transit.message)].confirmed(transit)

    # -- links ---------------------------------------------------------------------------------------------------------

    def unlink(self, name: str) -> HopLink | None:
        """What it has not confirmed is sent again, there or elsewhere, with the next `reroute`."""
        link = self.links.pop(name, None)
        if link is not None:
            link.is_over = True
            for transit in link.out.values():
                transit.out.pop(name, None)
        return link

    def reroute(self) -> None:
        """Who is next on the way to whom has changed."""
        for transit in self.processing:
            if not transit.is_done:
                self._route(transit)

    # -- confirmations -------------------------------------------------------------------------------------------------

    def hear(self, link: HopLink, message: RoutesConfirmed) -> None:
        barriers = dict(message.barriers)
        if message.upto > link.sent or any(
            not message.upto < first <= last <= link.sent for first, last in message.beyond
        ):
            raise PeerError(f"{link.name} confirms what it was not sent")
        places = list(takewhile(lambda place: place <= message.upto, link.out))
        places += [place for first, last in message.beyond for place in range(first, last + 1) if place in link.out]
        for place in places:
            transit = link.out.pop(place)
            transit.out.pop(link.name, None)
            transit.reached[link.name] = None
            transit.barriers.update(dict.fromkeys(barriers.get(place, ())))
            self.check_done(transit)

    def news(self) -> list[tuple[str, RoutesConfirmed]]:
        """At the end of a step: what neighbours are to be told."""
        return [(link.name, told) for link in self.links.values() if (told := link.take_confirmed()) is not None]
