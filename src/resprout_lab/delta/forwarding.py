"""Reliable forwarding, for every kind of routed message: to whom it goes, who has confirmed it, and what is sent again.

A message has *targets*, each with the path to it. Towards each it goes to the nearest broker on the path that there is
a link with, past those that are dead. One that is neither linked nor dead is waited for. When the nearest one changes,
because somebody died or is back, whatever it has not confirmed is sent to the new one, all in order, before anything
new: so whichever way messages take, they come to every broker in the order in which they left any other one.

A message is *done* when the nearest one towards each target has confirmed it; then whoever sent it here is told.
Targets whose whole path is dead are not waited for. Until it is done it is kept, so that no broker is the only one to
have it.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Final, Protocol

import msgspec

from resprout.core.errors import PeerError
from resprout.core.seen import Ranges, as_ranges
from resprout_lab.blocks.item import KeptItem
from resprout_lab.delta.messages import BarrierId, HopPath, RoutedMessage, RoutesConfirmed

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
    message: RoutedMessage
    """As it came, or as it was made here."""
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


class ForwardingPort(Protocol):
    """What forwarding asks of the broker."""

    def is_dead(self, name: str) -> bool: ...
    def transmit(self, transit: Transit, link: HopLink, place: int, path: HopPath, onward: tuple[HopPath, ...]) -> None:
        """Send it. `path`: to the neighbour, that one included; `onward`: from there to those it is for."""

    def done(self, transit: Transit) -> None: ...
    def cut(self, transit: Transit, path: HopPath) -> None:
        """Everybody on the path is dead: there is nobody to send it to."""


class ReliableForwarding:
    def __init__(self, port: ForwardingPort) -> None:
        self._port = port
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
            if not self._port.is_dead(name):
                return None
        return None

    def _route(self, transit: Transit) -> None:
        ways: dict[str, list[HopPath]] = {}
        transit.waiting.clear()
        for path in transit.targets:
            name = self.nearest(path)
            if name is not None:
                ways.setdefault(name, []).append(path)
            elif all(map(self._port.is_dead, path)):
                self._port.cut(transit, path)
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
                self._port.transmit(transit, link, link.sent, paths[0][: at + 1], tuple(beyond))
        self._check(transit)

    def _check(self, transit: Transit) -> None:
        """Whoever sent it is told when those behind other branches than its own have it: two that send each other what
        a dead one between them left undone do not wait for each other."""
        if self.is_holding:
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
        self._port.done(transit)

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
            self._check(transit)

    def again(self, transit: Transit, link: HopLink, place: int) -> None:
        """Another copy of it has come."""
        transit.senders.append((link, place))
        self._check(transit)

    def news(self) -> list[tuple[str, RoutesConfirmed]]:
        """At the end of a step: what neighbours are to be told."""
        return [(link.name, told) for link in self.links.values() if (told := link.take_confirmed()) is not None]
