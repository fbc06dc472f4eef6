"""Sessions with other brokers, neighbours in the tree or not, and who of them counts as dead."""

from resprout.core.contract import Close, Open, Send
from resprout.stacks.ginger.core import Core
from resprout.stacks.ginger.messages import Gone


class Peers:
    def __init__(self, core: Core) -> None:
        self._core = core
        self.up: dict[str, int] = {}
        """Those with a session, and the room that was left in it when it was last heard of."""
        self.silent: dict[str, None] = {}
        """Those that cannot be reached at the moment."""
        self.incarnations: dict[str, int] = {}
        self.dead: dict[str, int] = {}
        """Declared, with the incarnation that it concerns."""
        self.reserved: dict[str, None] = {}
        """Orphans that this broker has accepted and that are not attached yet."""
        self._opened: dict[str, None] = {}

    def declare(self, name: str) -> None:
        self.dead[name] = self.incarnations.get(name, 0)
        self.reserved.pop(name, None)
        if name in self.up:
            self._core.out.append(Send(name, Gone(self.dead[name])))
        self.close(name, "declared dead")

    def open(self, name: str) -> None:
        if name not in self._opened:
            self._opened[name] = None
            self._core.out.append(Open(name))

    def close(self, name: str, reason: str) -> None:
        if self._opened.pop(name, 0) is None or name in self.up:
            self._core.out.append(Close(name, reason))
        self.up.pop(name, None)

    def close_if_strange(self, name: str) -> None:
        if name not in self._core.links:
            self.close(name, "no neighbour in the tree")
