"""Sessions with other brokers, neighbours in the tree or not, and who of them counts as dead."""

from resprout.overlay.liveness import Liveness
from resprout.stacks.shell.outbox import Outbox
from resprout.stacks.shell.peers import Peer, Peers
from resprout.stacks.shell.step import Step
from resprout_lab.ginger.messages import NodeGone


class GingerPeers(Peers):
    def __init__(self, step: Step, outbox: Outbox) -> None:
        super().__init__(step, outbox)
        self.lives: dict[str, int] = {}
        """The latest incarnation that was met under each name, its session may be over."""
        self.dead: dict[str, int] = {}
        """Declared, with the incarnation that it concerns."""
        self.reserved: dict[str, None] = {}
        """Orphans that this broker has accepted and that are not attached yet."""

    def came_up(self, name: str, incarnation: int, room: int) -> Peer | None:
        """None for whoever was declared dead: it is told so."""
        peer = super().came_up(name, incarnation, room)
        if self.dead.get(name) == incarnation:
            self.turn_away(name)
            return None
        self.lives[name] = incarnation
        return peer

    def is_silent(self, name: str) -> bool:
        """Not heard at the moment, or ended; whoever has no session is not."""
        peer = self.get(name)
        return peer is not None and peer.liveness >= Liveness.SILENT

    def declare(self, name: str) -> None:
        self.dead[name] = self.lives.get(name, 0)
        self.reserved.pop(name, None)
        self.turn_away(name)

    def turn_away(self, name: str) -> None:
        self._outbox.pass_by(name, NodeGone(self.dead[name]))
        self.close(name, "declared dead")
