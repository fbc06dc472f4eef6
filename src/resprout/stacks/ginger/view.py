"""What a broker knows of the tree around it: its ancestors, its siblings, its children's children.

Neighbours tell each other their place whenever it changes. From its parent a broker knows its ancestors up to
`max_hops` and its siblings, and whom the root's children follow when it dies; from a child, whom to expect when that
child dies. A newcomer is let in only when every neighbour has seen the view that shows it.
"""

from resprout.core.contract import Locate
from resprout.edge.messages import Successor
from resprout.stacks.ginger.core import GingerCore
from resprout.stacks.ginger.messages import Contact, TreeViewSeen, TreeViewUpdate

NOBODY = TreeViewUpdate(0, (), (), (), ())


class View:
    def __init__(self, core: GingerCore) -> None:
        self._core = core
        self.addresses: dict[str, str] = {}
        self.of: dict[str, TreeViewUpdate] = {}
        """What each neighbour said last; of a dead one until it is replaced."""
        self.parents: dict[str, str] = {}
        """By broker, the neighbour that was its parent when it was last heard of."""
        self.clients: tuple[str, ...] = ()
        self.newcomers: dict[str, int] = {}
        """To be let in, with the version of the view that shows them."""
        self.line: tuple[Contact, ...] = ()
        self.succession: tuple[Contact, ...] = ()
        self.successors: tuple[Successor, ...] = ()
        """Where this broker's clients turn when it dies: to whoever will lead its repair."""
        self._told = NOBODY
        self._seen: dict[str, int] = {}

    @property
    def degree_left(self) -> int:
        """Derived, never stored."""
        core = self._core
        return core.options.total_degree - len(core.links) + len(core.broken) - len(self.newcomers)

    def children_of(self, name: str) -> tuple[str, ...]:
        return tuple(contact.name for contact in self.of.get(name, NOBODY).children)

    def hear(self, name: str, message: TreeViewUpdate) -> None:
        core = self._core
        self.of[name] = message
        self.parents.update({contact.name: name for contact in message.children})
        for contact in (Contact(name, message.address), *message.children, *message.line, *message.succession):
            self.locate(contact)
        core.outbox.pass_by(name, TreeViewSeen(message.version))

    def locate(self, contact: Contact) -> None:
        known = self.addresses.get(contact.name)
        if contact.address and contact.name != self._core.name and known != contact.address:
            self.addresses[contact.name] = contact.address
            self._core.out.append(Locate(contact.name, contact.address))

    def hear_seen(self, name: str, message: TreeViewSeen) -> None:
        self._seen[name] = message.version

    def admitted(self) -> list[str]:
        """Newcomers that every neighbour knows of."""
        core = self._core
        neighbours = [link.name for link in core.open_links()]
        return [
            name
            for name, version in self.newcomers.items()
            if all(self._seen.get(neighbour, 0) >= version for neighbour in neighbours)
        ]

    def refresh(self) -> None:
        """Tell the neighbours when something changed."""
        core = self._core
        parent = core.parent
        children = tuple(self._contact(name) for name in (*core.children, *self.newcomers) if name not in core.broken)
        line, succession = self.line, self.succession
        if core.is_root:
            line, succession = (), children
        elif parent is not None and parent.name in self.of:
            above = self.of[parent.name]
            line = (self._contact(parent.name), *above.line)[: core.options.max_hops]
            succession = above.succession
        if (line, succession) != (self.line, self.succession):
            self.line, self.succession = line, succession
            contacts = dict.fromkeys((*line, *succession))
            self.successors = tuple(Successor(c.name, c.address) for c in contacts if c.name != core.name)
        address = self.addresses.get(core.name, "")
        version = self._told.version
        if TreeViewUpdate(version, children, self.clients, line, succession, address) != self._told:
            self._told = TreeViewUpdate(version + 1, children, self.clients, line, succession, address)
            for name in self.newcomers:
                self.newcomers[name] = min(self.newcomers[name], self._told.version)
            for link in core.open_links():
                core.outbox.pass_by(link.name, self._told)

    def introduce(self, name: str) -> None:
        """To a neighbour that is new."""
        self._core.outbox.pass_by(name, self._told)

    def forget(self, name: str) -> None:
        self.of.pop(name, None)
        self._seen.pop(name, None)

    def _contact(self, name: str) -> Contact:
        return Contact(name, self.addresses.get(name, ""))
