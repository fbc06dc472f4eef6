"""What a broker knows of the tree around it: its ancestors, its siblings, its children's children.

Neighbours tell each other their place whenever it changes. From its parent a broker knows its ancestors up to
`max_hops` and its siblings, and whom the root's children follow when it dies; from a child, whom to expect when that
child dies. A newcomer is let in only when every neighbour has seen the view that shows it.
"""

from typing import TYPE_CHECKING

from resprout.core.contract import Locate
from resprout_lab.ginger.messages import Contact, TreeViewSeen, TreeViewUpdate

if TYPE_CHECKING:
    from resprout_lab.ginger.core import GingerCore

NOBODY = TreeViewUpdate(0, (), (), (), ())


class View:
    def __init__(self, core: "GingerCore") -> None:
        self._core = core
        self.addresses: dict[str, str] = {}
        self.of: dict[str, TreeViewUpdate] = {}
        """What each neighbour said last; of a dead one until it is replaced."""
        self.parents: dict[str, str] = {}
        """By broker, the neighbour that was its parent when it was last heard of."""
        self.newcomers: dict[str, int] = {}
        """To be let in, with the version of the view that shows them."""
        self.line: tuple[Contact, ...] = ()
        self.succession: tuple[Contact, ...] = ()
        self.successors: tuple[Contact, ...] = ()
        """Where this broker's clients turn when it dies: to whoever will lead its repair."""
        self.is_stale = False
        """Clients have come or gone since it was told."""
        self._led: dict[str, str] = {}
        """By dead broker, who led its repair here."""
        self._told = NOBODY
        self._told_to: dict[str, int] = {}
        """By neighbour, the version that it was told."""
        self._seen: dict[str, int] = {}

    @property
    def degree_left(self) -> int:
        """Derived, never stored."""
        core = self._core
        taken = len(core.links) - len(core.broken) + len(self.newcomers) + len(core.peers.reserved)
        return core.options.total_degree - taken

    def children_of(self, name: str) -> tuple[str, ...]:
        return tuple(contact.name for contact in self.of.get(name, NOBODY).children)

    def hear(self, name: str, message: TreeViewUpdate) -> None:
        core = self._core
        self.of[name] = message
        self.parents.update({contact.name: name for contact in message.children})
        for contact in (Contact(name, message.address), *message.children, *message.line, *message.succession):
            self.locate(contact)
        core.outbox.pass_by(name, TreeViewSeen(message.version))
        if core.links[name].is_parent:
            self.refresh()

    def locate(self, contact: Contact) -> None:
        known = self.addresses.get(contact.name)
        if contact.address and contact.name != self._core.name and known != contact.address:
            self.addresses[contact.name] = contact.address
            self._core.out.append(Locate(contact.name, contact.address))

    def hear_seen(self, name: str, message: TreeViewSeen) -> None:
        self._seen[name] = message.version

    def announce(self, newcomer: str) -> None:
        self.newcomers.setdefault(newcomer, self._told.version + 1)
        self.refresh()

    def admitted(self) -> list[str]:
        """Newcomers that every neighbour knows of."""
        core = self._core
        neighbours = [link.name for link in core.open_links()]
        return [
            name
            for name, version in self.newcomers.items()
            if all(self._seen.get(neighbour, 0) >= version for neighbour in neighbours)
        ]

    def led_by(self, leader: str, dead: tuple[str, ...]) -> None:
        """Their clients are expected there."""
        self._led.update(dict.fromkeys(dead, leader))

    def leader_of(self, tried: tuple[str, ...]) -> str | None:
        """Another broker that keeps what a client may have missed that was with these, the latest last."""
        for name in reversed(tried):
            leader = self._led.get(name) or self.parents.get(name)
            if leader is not None and leader not in tried and leader not in self._core.peers.dead:
                return leader
        return None

    def catch_up(self) -> None:
        if self.is_stale:
            self.refresh()

    def refresh(self) -> None:
        """Tell the neighbours when something changed, and those that are new."""
        core = self._core
        self.is_stale = False
        parent = core.parent
        children = tuple(self.contact(name) for name in (*core.children, *self.newcomers) if name not in core.broken)
        line, succession = self.line, self.succession
        if core.is_root:
            line, succession = (), children
        elif parent is not None and parent.name in self.of:
            above = self.of[parent.name]
            line = (self.contact(parent.name), *above.line)[: core.options.max_hops]
            succession = above.succession
        if (line, succession) != (self.line, self.succession):
            self.line, self.succession = line, succession
            self.successors = tuple(one for one in dict.fromkeys((*line, *succession)) if one.name != core.name)
        clients = tuple(
            session.name for session in core.sessions.all.values() if session.attending and not session.is_internal
        )
        address = self.addresses.get(core.name, "")
        version = self._told.version
        if TreeViewUpdate(version, children, clients, line, succession, address) != self._told:
            version += 1
            self._told = TreeViewUpdate(version, children, clients, line, succession, address)
        for link in core.open_links():
            if self._told_to.get(link.name) != version:
                self._told_to[link.name] = version
                core.outbox.pass_by(link.name, self._told)

    def forget(self, name: str) -> None:
        for table in (self.of, self._seen, self._told_to):
            table.pop(name, None)

    def contact(self, name: str) -> Contact:
        return Contact(name, self.addresses.get(name, ""))
