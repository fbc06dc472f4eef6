"""What brokers tell each other about clients: who listens where, and the latest life of each name. Both are said as it
changes, and all of it at the beginning of a new link."""

from resprout.core.contract import ProtocolMessage
from resprout.edge.broker.ghosts import Ghosts
from resprout.stacks.resprout.core import Core
from resprout.stacks.resprout.listeners import ListenerBook
from resprout.stacks.resprout.repair.parcels import Parcel, pack_client_lives
from resprout.stacks.resprout.roll import Roll


class ClientBook:
    def __init__(self, core: Core, ghosts: Ghosts) -> None:
        self.listeners = ListenerBook(core, ghosts)
        self.roll = Roll(core, ghosts)

    def pack(self, dead: str | None = None) -> list[ProtocolMessage]:
        """For a parcel; for an `Attach` also what was known of the dead neighbour."""
        return [*self.listeners.handed_over(dead), *pack_client_lives(self.roll.lives())]

    def meet(self, neighbour: str, parcel: Parcel) -> None:
        """The first word of a new neighbour."""
        self.listeners.meet(neighbour, parcel)
        self.roll.learn(parcel.client_lives, neighbour)
