"""The publish operation (section 4.9 of the report), and what clients here publish: so many at once, and in order.

Each publisher has a window: so many bundles of it are under way unconfirmed, the others wait (D8; a window of one is
what seed 001 has measured). Bundles may be confirmed in any order; here they are shown to readers, and their publisher
told that they are safe, in the order in which they were published.

A client whose broker is gone publishes again, here, whatever it was not told is safe. What has come here by way of the
old broker is not sent again: it is on its way, or everybody has it, since this broker has taken over what the dead one
left undone.

*Orphans*: what a dead broker left undone, and only its neighbours know of.

The report leaves a publication to its source, which sends it again around the dead. Here the source is a client, and it
may be gone as well: then somebody could have been shown what others never get. So each broker keeps the publications
that came from a neighbour, of those whose whole way back to their origin may be dead at once, until that neighbour says
that everybody has them (`settled`). When all on that way are dead, it sends them to those beyond, as the dead would
have.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from resprout.core.bundle import Bundle
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import Publish
from resprout_lab.blocks.retention import KeptItem
from resprout_lab.delta.forwarding import HopLink, Transit
from resprout_lab.delta.messages import BarrierId, HopPath, RoutedCopies, RoutedPublication
from resprout_lab.delta.operations import DeltaOptions, FloodOperation, Parts
from resprout_lab.delta.returning import KeptPublications
from resprout_lab.delta.subscriptions import onward
from resprout_lab.delta.tree import KnownTree


class Orphans:
    def __init__(self, tree: KnownTree, delta: int) -> None:
        self._tree = tree
        self._delta = delta
        self._of_lost: list[Transit] = []
        """That came over links that are over, while some on the way back to their origin live."""

    def retain(self, link: HopLink, transit: Transit, message: RoutedPublication) -> None:
        if message.visited[-1].name == link.name:
            while link.retained and link.retained[0].message.visited[-1].number <= message.settled:
                link.retained.popleft()
            if message.hops <= self._delta:
                link.retained.append(transit)

    def found(self, link: HopLink) -> None:
        """It is there again, and may still say so."""
        link.retained.extend([one for one in self._of_lost if one.came_from == link.name])
        self._of_lost = [one for one in self._of_lost if one.came_from != link.name]

    def lost(self, link: HopLink) -> None:
        self._of_lost.extend(link.retained)

    def adopt(self) -> list[Transit]:
        """Somebody died: what this broker has to see to from now on, in order."""
        is_dead = self._tree.is_dead
        adopted = [one for one in self._of_lost if all(is_dead(node.name) for node in one.message.visited)]
        self._of_lost = [one for one in self._of_lost if one not in adopted]
        return sorted(adopted, key=lambda transit: transit.no)


class _Flight(NamedTuple):
    """A publication under way."""

    bundle: Bundle
    transit: Transit | None
    """None: it has been everywhere before."""
    is_new: bool
    """It has begun here, and readers wait for it."""


class _Line:
    """The publications of one publisher, in order: those of its earlier lives here come before those of its present
    one."""

    __slots__ = ("flying", "is_advancing", "waiting")

    def __init__(self) -> None:
        self.is_advancing = False
        self.waiting: deque[tuple[ClientSession, Publish]] = deque()
        self.flying: deque[_Flight] = deque()


class OwnPublications:
    def __init__(
        self,
        window: int,
        send: Callable[[Publish, str], tuple[Transit | None, bool]],
        arrived: Callable[[Bundle, Transit | None, bool], None],
    ) -> None:
        """`send` it on; returns its transit, None for what has been everywhere, and whether it is new here. `arrived`:
        it is everywhere, and it is its turn."""
        self._window = window
        self._send = send
        self._arrived = arrived
        self._lines: dict[str, _Line] = {}
        """By name."""

    def publish(self, session: ClientSession, message: Publish) -> None:
        self._lines.setdefault(message.bundle.publisher, _Line()).waiting.append((session, message))
        self.advance(message.bundle.publisher)

    def advance(self, publisher: str) -> None:
        """One of its publications is everywhere, or there is another one."""
        line = self._lines.get(publisher)
        if line is None or line.is_advancing:  # what is for nobody else is everywhere as soon as it is sent
            return
        line.is_advancing = True
        while True:
            while line.flying and (line.flying[0].transit is None or line.flying[0].transit.is_done):
                self._arrived(*line.flying.popleft())
            if not line.waiting or len(line.flying) >= self._window:
                break
            session, message = line.waiting.popleft()
            transit, is_new = self._send(message, session.name)
            line.flying.append(_Flight(message.bundle, transit, is_new))
        line.is_advancing = False
        if not line.flying and not line.waiting:
            del self._lines[publisher]


class PublishOperation(FloodOperation):
    """*PUB*: to everybody who stands for a matching subscription."""

    def __init__(self, parts: Parts, options: DeltaOptions, kept: KeptPublications) -> None:
        super().__init__(parts)
        self._kept = kept
        self._delta = options.delta
        self._copies = options.delta if options.return_us else 0
        """Brokers beside this one that have to get a publication of a client here."""
        self.own = OwnPublications(options.window, self._send_out, self._arrived)
        self.orphans = Orphans(parts.tree, options.delta)
        self._rests_on = 1
        """How many brokers have what is shown next."""
        parts.sessions.copies_of = lambda item: self._rests_on

    # -- the procedures of the report ----------------------------------------------------------------------------------

    def rcpt(self, transit: Transit) -> Iterable[str]:
        wanted = list(self._parts.known.wanted_by(transit.message.bundle))
        return [*wanted, *self._spares(transit, wanted)]

    def _spares(self, transit: Transit, wanted: list[str]) -> list[str]:
        """Choose brokers that get it for a copy, the nearest first, where too few are on the way to readers."""
        view, spares = self._parts.tree.view, list[str]()
        if transit.copies:
            covered = {one for name in onward(view, transit.came_from, wanted) for one in self._parts.tree.path(name)}
            for name in onward(view, transit.came_from, view.nodes()):
                if len(covered) >= transit.copies:
                    break
                if name not in covered:
                    covered.update(self._parts.tree.path(name))
                    spares.append(name)
        transit.spares = tuple([self._parts.tree.path(name) for name in spares])
        return spares

    def update_routing_information(self, transit: Transit, link: HopLink) -> None:
        if isinstance(transit.message, RoutedCopies):
            transit.copies = transit.message.copies
            transit.message = _plain(transit.message)
        message = transit.message
        transit.item = KeptItem(message.bundle, message.hops, link.name, False)
        self._parts.kept.keep(transit.item)
        if barriers := self._parts.partitions.of(link.name):
            marks = tuple(dict.fromkeys((*message.barriers, *barriers)))
            transit.message = message = msgspec.structs.replace(message, barriers=marks)
        self._kept.came(transit, link)
        self._show(transit.item, message.barriers)
        self.orphans.retain(link, transit, message)

    def came_again(self, message: RoutedPublication, link: HopLink) -> None:
        self._kept.came_again(message, link)

    def copy(self, transit: Transit, distance: int) -> dict[str, Any]:
        return {"settled": self._parts.forwarding.settled}

    def send(self, transit: Transit, name: str, message: RoutedPublication) -> None:
        assert transit.item is not None, "a publication has one"
        if beyond := {one for path in transit.spares if name in path for one in path[path.index(name) + 1 :]}:
            message = RoutedCopies(**msgspec.structs.asdict(message), copies=min(len(beyond), self._delta))
        self._kept.sent(transit, self._parts.forwarding.links[name])
        self._parts.passing.pass_on(name, transit.item, message)

    def confirmed(self, transit: Transit) -> None:
        assert transit.item is not None, "a publication has one"
        self.own.advance(transit.message.bundle.publisher)
        self._parts.kept.let_go(transit.item)

    def cut(self, transit: Transit, path: HopPath) -> None:
        if path not in transit.spares:
            self._kept.cut(transit, path)

    # -- of clients here -----------------------------------------------------------------------------------------------

    def _send_out(self, publish: Publish, client: str) -> tuple[Transit | None, bool]:
        bundle, newest = publish.bundle, self._parts.forwarding.newest
        message = RoutedPublication(0, 0, (), None, bundle, 0, ())
        if (transit := self._parts.forwarding.find(message.key)) is not None:
            return transit, False
        if newest.has(bundle):
            return None, False
        is_new = not newest.has_passed(bundle)
        newest.note_bundle(bundle)
        transit = self._parts.forwarding.make(message)
        transit.copies = self._copies
        transit.item, transit.is_unshown = KeptItem(bundle, 0, client, publish.prompt), is_new
        self._parts.kept.keep(transit.item)
        self._kept.published(transit)
        self._parts.forwarding.begin(transit, self._parts.forwarding.recipients(transit))
        return transit, is_new

    def _arrived(self, bundle: Bundle, transit: Transit | None, is_new: bool) -> None:
        """Everybody has it, and it is its turn: readers here are shown it, and its publisher told."""
        if is_new and transit is not None and transit.item is not None:
            transit.is_unshown = False
            self._rests_on = min(1 + len(transit.reached), self._delta + 1)
            self._show(transit.item, None)
        elif (session := self._parts.sessions.publisher_of(bundle)) is not None:
            self._parts.sessions.known(session, bundle, everywhere=False)

    def _show(self, item: KeptItem, barriers: tuple[BarrierId, ...] | None) -> None:
        """`barriers`: with which it came; None for what was published here."""
        self._parts.kept.place(item)
        self._parts.sessions.address(item, item.bundle, self._parts.wishes.matches(item.bundle, barriers or ()))
        if barriers is not None:
            item.client = None  # its publisher may be here by now, and is told when everybody has it
        self._parts.sessions.show(item, self._parts.step.out)

    # -- of the dead ---------------------------------------------------------------------------------------------------

    def adopt(self) -> None:
        """Send what the dead left undone to those beyond them who want it."""
        for transit in self.orphans.adopt():
            assert transit.item is not None and transit.came_from is not None, "it is a publication of another broker"
            if transit.is_done:
                transit.targets.clear()
                self._parts.kept.keep(transit.item)
            wanted = self._parts.known.wanted_by(transit.message.bundle)
            names = [one for one in wanted if self._parts.tree.is_same_way(transit.came_from, one)]
            self._parts.forwarding.resume(transit, [self._parts.tree.path(name) for name in names])


def _plain(message: RoutedCopies) -> RoutedPublication:
    return RoutedPublication(*[getattr(message, name) for name in RoutedPublication.__struct_fields__])
