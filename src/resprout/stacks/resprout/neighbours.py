"""Who the neighbours are: links that begin, open, are shut and go. Who is to be one is decided by others: `joining`,
and the two sides of a repair.

A link that is not open is owed everything: its cursor stays where it is and the log keeps what lies beyond.
"""

from resprout.edge.broker.backpressure import BackPressure
from resprout.order.left import Left
from resprout.order.link import Link
from resprout.order.link_state import LinkState
from resprout.order.log import Log
from resprout.overlay.places import Life
from resprout.overlay.waves import Waves
from resprout.stacks.resprout.forwarding import Forwarding
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.speaking import Speaking
from resprout.stacks.resprout.unread import UnreadSearch
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
        speaking: Speaking,
        forwarding: Forwarding,
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
        self._speaking = speaking
        self._forwarding = forwarding
        self.heard: dict[str, Link] = {}
        """Those whose links are open."""

    def add(self, name: str, incarnation: int) -> Link:
        """A neighbour that has kept up with everything so far. Interest in it is the business of whoever adds it."""
        life = self._life
        link = self._links[name] = Link(name, incarnation, life.faults, None, self._left)
        life.view.neighbours[name] = True
        self._log.held_back.put_wall()  # it may have heard of what is in the log, and nobody counted how far
        self._routes.forget()
        return link

    def open(self, link: Link) -> None:
        """Bundles may cross from now on, behind what was said before."""
        assert self._peers.is_up(link.name), "a link is made within a session"
        link.move_to(LinkState.OPEN)
        self.heard[link.name] = link
        link.silent = not self._peers.is_clear(link.name)
        if link.cursor is None and self._outbox.room(link.name) <= 0:
            link.cursor = self._log.next_no
        self._forwarding.pump(link)

    def shut(self, link: Link) -> None:
        """The neighbour is declared dead: from now on its link is owed everything, and nothing is heard from it."""
        life = self._life
        if link.open:
            link.move_to(LinkState.IN_REPAIR)
            del self.heard[link.name]
            life.view.neighbours[link.name] = False
            self._unread.unwait(link.name)
            if self._pressure.holding:
                self._pressure.forget(link.name)
            if link.cursor is None:
                link.cursor = self._log.next_no

    def remove(self, link: Link) -> None:
        """Nothing is left of it; what it owed and was owed has been handed to others."""
        life = self._life
        link.move_to(LinkState.REMOVED)
        del self._links[link.name]
        del life.view.neighbours[link.name]
        self._speaking.unsaid.pop(link.name, None)
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
