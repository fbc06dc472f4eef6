"""Who the neighbours are: links that begin, open, are shut and go. Who is to be one is decided by others: `joining`,
and the two sides of a repair.

Every link begins in the same two steps, in one step of the broker: `begin_links`, and `open` once both ends have put on
the link what they begin with. Four places use them: a newcomer and its parent, a coordinator and its members.

A link that is not open is owed everything: its cursor stays where it is and the log keeps what lies beyond.
"""

from collections.abc import Mapping, Sequence

from resprout.edge.broker.backpressure import BackPressure
from resprout.order.left import Left
from resprout.order.link import Link
from resprout.order.link_state import LinkState
from resprout.order.log import Log
from resprout.overlay.places import Life
from resprout.overlay.waves import Waves
from resprout.spread.interest import Interest
from resprout.stacks.resprout.client_book import ClientBook
from resprout.stacks.resprout.forwarding import Forwarding
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.repair.parcels import Parcel
from resprout.stacks.resprout.unread import UnreadSearch
from resprout.stacks.resprout.wishes import Wishes
from resprout.stacks.routes import Routes
from resprout.stacks.shell.outbox import Outbox
from resprout.stacks.shell.peers import Peers


class Neighbours:
    def __init__(
        self,
        life: BrokerLife,
        peers: Peers,
        outbox: Outbox,
        waves: Waves,
        unread: UnreadSearch,
        links: dict[str, Link],
        log: Log,
        left: Left,
        routes: Routes,
        pressure: BackPressure,
        forwarding: Forwarding,
        interest: Interest,
        wishes: Wishes,
        book: ClientBook,
    ) -> None:
        self._life = life
        self._peers = peers
        self._outbox = outbox
        self._waves = waves
        self._unread = unread
        self._links = links
        self._log = log
        self._left = left
        self._routes = routes
        self._pressure = pressure
        self._forwarding = forwarding
        self._interest = interest
        self._wishes = wishes
        self._book = book

    def find(self, name: str) -> Link | None:
        """Return the link to a neighbour if it is open: others are no neighbours, or dead and may not know it."""
        link = self._links.get(name)
        return link if link is not None and link.open else None

    # -- links that begin ----------------------------------------------------------------------------------------------

    def begin_links(
        self,
        lives: Mapping[str, int],
        parcels: Mapping[str, Parcel],
        replaced: Sequence[Link] = (),
        *,
        inherits: bool = False,
    ) -> dict[str, Link]:
        """Add neighbours, by name and incarnation, in place of those that a repair has replaced, and return their
        links. Each has kept up with everything so far. `parcels` are the first words of those that have told who their
        clients are. With `inherits` the one new neighbour takes over what the replaced one wanted and was asked, until
        it says what it wants itself; otherwise what the replaced ones wanted is wanted no more."""
        if inherits:
            assert len(lives) == len(replaced) == 1
            for name in lives:
                self._interest.replace_neighbour(replaced[0].name, name)
        else:
            for name in lives:  # before the others go: a wish that waits only for them would count as confirmed
                self._interest.add_neighbour(name)
            for link in replaced:
                self._wishes.remove_neighbour(link.name)
        for link in replaced:
            self._remove(link)
        links = {name: self._add(name, incarnation) for name, incarnation in lives.items()}
        for name, parcel in parcels.items():
            self._book.meet(name, parcel)
        return links

    def _add(self, name: str, incarnation: int) -> Link:
        life = self._life
        link = self._links[name] = Link(name, incarnation, life.faults, None, self._left)
        life.view.neighbours[name] = True
        self._log.held_back.put_wall()  # it may have heard of what is in the log, and nobody counted how far
        self._routes.forget()
        return link

    def open(self, link: Link) -> None:
        """Let bundles cross from now on, behind what was said before, and keep the session."""
        assert self._peers.is_up(link.name), "a link is made within a session"
        self._peers.open(link.name)
        link.move_to(LinkState.OPEN)
        link.silent = not self._peers.is_clear(link.name)
        if link.cursor is None and self._outbox.room(link.name) <= 0:
            link.cursor = self._log.next_no
        self._forwarding.pump(link)

    # -- links that end ------------------------------------------------------------------------------------------------

    def shut(self, link: Link) -> None:
        """The neighbour is declared dead: from now on its link is owed everything, and nothing is heard from it."""
        life = self._life
        if link.open:
            link.move_to(LinkState.IN_REPAIR)
            life.view.neighbours[link.name] = False
            self._unread.unwait(link.name)
            if self._pressure.holding:
                self._pressure.forget(link.name)
            if link.cursor is None:
                link.cursor = self._log.next_no

    def _remove(self, link: Link) -> None:
        """Nothing is left of it; what it owed and was owed has been handed to others."""
        life = self._life
        link.move_to(LinkState.REMOVED)
        del self._links[link.name]
        del life.view.neighbours[link.name]
        self._routes.forget()

    def mark_dead(self, dead: Life) -> None:
        """Give a dead life a tombstone, and shut the link to it if there is one."""
        life = self._life
        life.view.mark_dead(dead.name, dead.incarnation)
        link = self._links.get(dead.name)
        if link is not None and link.open and link.incarnation <= dead.incarnation:
            life.note("repair_begin", dead.name)
            self.shut(link)
            self._peers.close(dead.name, f"{dead.name} was declared dead")
            self._waves.unwait(dead.name)
