"""Who the neighbours are: links that begin, open, are shut and go. Who is to be one is decided by others: `joining`,
and the two sides of a repair.

A link that is not open is owed everything: its cursor stays where it is and the log keeps what lies beyond.
"""

from typing import TYPE_CHECKING

from resprout.order.link import Link
from resprout.order.link_state import LinkState
from resprout.overlay.places import Life

if TYPE_CHECKING:
    from resprout.stacks.resprout.core import Core


class Neighbours:
    def __init__(self, core: "Core") -> None:
        self._core = core
        self.heard: dict[str, Link] = {}
        """Those whose links are open."""

    def add(self, name: str, incarnation: int) -> Link:
        """A neighbour that has kept up with everything so far. Interest in it is the business of whoever adds it."""
        core = self._core
        link = core.links[name] = Link(name, incarnation, core.faults, None, core.left)
        core.view.neighbours[name] = True
        core.log.held_back.put_wall()  # it may have heard of what is in the log, and nobody counted how far
        core.routes.forget()
        return link

    def open(self, link: Link) -> None:
        """Bundles may cross from now on, behind what was said before."""
        core = self._core
        assert core.peers.is_up(link.name), "a link is made within a session"
        link.move_to(LinkState.OPEN)
        self.heard[link.name] = link
        link.silent = not core.peers.is_clear(link.name)
        if link.cursor is None and core.outbox.room(link.name) <= 0:
            link.cursor = core.log.next_no
        core.forwarding.pump(link)

    def shut(self, link: Link) -> None:
        """The neighbour is declared dead: from now on its link is owed everything, and nothing is heard from it."""
        core = self._core
        if link.open:
            link.move_to(LinkState.IN_REPAIR)
            del self.heard[link.name]
            core.view.neighbours[link.name] = False
            if core.pressure.holding:
                core.pressure.forget(link.name)
            if link.cursor is None:
                link.cursor = core.log.next_no

    def remove(self, link: Link) -> None:
        """Nothing is left of it; what it owed and was owed has been handed to others."""
        core = self._core
        link.move_to(LinkState.REMOVED)
        del core.links[link.name]
        del core.view.neighbours[link.name]
        core.speaking.unsaid.pop(link.name, None)
        core.routes.forget()

    def mark_dead(self, life: Life) -> None:
        """A life is dead: give it a tombstone, and shut the link to it if there is one."""
        core = self._core
        core.view.mark_dead(life.name, life.incarnation)
        link = core.links.get(life.name)
        if link is not None and link.open and link.incarnation <= life.incarnation:
            core.note("repair_begin", life.name)
            self.shut(link)
            core.peers.close(life.name, f"{life.name} was declared dead")
            core.waves.unwait(life.name)
