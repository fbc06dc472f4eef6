"""The local tree view (section 4.2.2): Algorithms 1 and 2, and *sendTreeViewUpdate* of Algorithm 3.

A broker knows its *ancestors* (brokers with a lower depth, uncles among them) and its *siblings*, up to a distance of
*maxHops*. It learns them from the paths of `Subscribe` and `TreeViewUpdate` messages that come from its parent. The
entries of a path, and their order, are those of the logs in annexes II and III.
"""

from resprout.edge.messages import Successor
from resprout_lab.ginger.messages import Path, PathEntry, Subscribe, TreeViewUpdate
from resprout_lab.ginger.state import Neighbor, State


class Known:
    """A broker in the view."""

    __slots__ = ("address", "hops", "is_above")

    def __init__(self, hops: int, address: str, is_above: bool = False) -> None:
        self.hops = hops
        self.is_above = is_above
        """It is on the way to the root, and no uncle."""
        self.address = address


class TreeView:
    def __init__(self, state: State, address: str) -> None:
        self._state = state
        self._address = address
        self.ancestors: dict[str, Known] = {}
        self.siblings: dict[str, Known] = {}
        self.paths: dict[tuple[str, str | None], tuple[str, Path]] = {}
        """By filter and condition: who sent the last `Subscribe` for it, and its path."""
        self.former: dict[str, str] = {}
        """Every broker that was ever in the view and is not known to be dead, with its address."""

    def nearest_ancestors(self) -> list[str]:
        return sorted(self.ancestors, key=lambda name: self.ancestors[name].hops)

    def successors(self) -> tuple[Successor, ...]:
        """The view of a client (section 4.2.2.1): the brokers around its own one, the nearest first."""
        state = self._state
        first = [state.neighbors[state.parent]] if state.parent is not None else []
        near = [*first, *(one for one in state.neighbors.values() if one.name != state.parent)]
        far = {**self.siblings, **{name: self.ancestors[name] for name in self.nearest_ancestors()}}
        return (
            *[Successor(one.name, one.address) for one in near],
            *[Successor(name, known.address) for name, known in far.items() if name not in state.neighbors],
        )

    # -- Algorithm 1 ---------------------------------------------------------------------------------------------------

    def handle_path(self, sender: str, path: Path) -> Path:
        """Increment the hops of each entry, and store those that came from the parent."""
        state = self._state
        entries = ", ".join(f"({one.name}, hops={one.hops}, down={str(one.down).lower()})" for one in path)
        state.log(f"received path=[{entries}] from {sender}")
        path = tuple([PathEntry(entry.name, entry.hops + 1, entry.down, entry.address) for entry in path])
        if sender == state.parent:
            previous: PathEntry | None = None
            for entry in path:
                if entry.hops <= state.options.max_hops and self._is_unknown(entry.name):
                    if entry.hops == 2 and not entry.down:
                        self._store(self.siblings, "sibling", entry)
                    elif entry.down or (previous is not None and previous.down):
                        self._store(self.ancestors, "ancestor", entry)
                previous = entry
        return tuple([entry for entry in path if entry.hops <= state.options.max_hops])

    def _is_unknown(self, name: str) -> bool:
        state = self._state
        known = name in self.siblings or name in self.ancestors or name in state.neighbors
        return not known and name != state.name and name not in state.dead

    def _store(self, kind: dict[str, Known], word: str, entry: PathEntry) -> None:
        self._state.log(f"adding {word} {entry.name}")
        kind[entry.name] = Known(entry.hops, entry.address, entry.down)
        self.former[entry.name] = entry.address
        self._state.locate(entry.name, entry.address)

    def extended(self, path: Path, receiver: str) -> Path:
        """The path of a message that goes on to a neighbour."""
        return (PathEntry(self._state.name, 0, receiver != self._state.parent, self._address), *path)

    # -- Algorithms 2 and 3 --------------------------------------------------------------------------------------------

    def on_tree_view_update(self, neighbor: Neighbor, update: TreeViewUpdate) -> None:
        state = self._state
        if update.failed:
            self.remove(update.other)
            self.former.pop(update.other, None)
        if neighbor.name != state.parent:
            neighbor.children = update.children
        path = self.handle_path(neighbor.name, update.path)
        for name in state.children:
            if name != neighbor.name:
                onward = self.extended(path, name)
                state.outbox.send(name, TreeViewUpdate(update.other, tuple(state.children), update.failed, onward))

    def send_tree_view_update(self, other: str, failed: bool) -> None:
        """Tell all neighbours of one that was added or that failed. The parent needs no path."""
        state = self._state
        for name in state.neighbors:
            path = () if name == state.parent else self._own_path()
            state.outbox.send(name, TreeViewUpdate(other, tuple(state.children), failed, path))
        if not failed and other in state.children:
            for (filter, where), (source, path) in self.paths.items():
                if source in state.neighbors and source != other:
                    state.outbox.send(other, Subscribe(0, filter, where, self.extended(path, other)))

    def _own_path(self) -> Path:
        """This broker, its children, its parent, its siblings and ancestors, as a child of it sees them."""
        state = self._state
        entries = [PathEntry(state.name, 0, True, self._address)]
        entries += [PathEntry(name, 1, False, state.neighbors[name].address) for name in reversed(state.children)]
        if state.parent is not None:
            entries.append(PathEntry(state.parent, 1, True, state.neighbors[state.parent].address))
        for name, known in reversed(self.siblings.items()):
            entries.append(PathEntry(name, known.hops, False, known.address))
        for name in self.nearest_ancestors():
            entries.append(PathEntry(name, self.ancestors[name].hops, True, self.ancestors[name].address))
        return tuple([entry for entry in entries if entry.hops < state.options.max_hops])

    def remove(self, name: str) -> None:
        """*removeFromTreeView*."""
        if self.ancestors.pop(name, None) is not None:
            self._state.log(f"removing ancestor {name}")
        elif self.siblings.pop(name, None) is not None:
            self._state.log(f"removing sibling {name}")
