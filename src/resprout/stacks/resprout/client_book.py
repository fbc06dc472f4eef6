"""What brokers tell each other about clients: who listens where, the latest life of each name, durable subscriptions.
All are said as they change, and as a whole at the beginning of a new link."""

from resprout.core.contract import ProtocolMessage
from resprout.edge.broker.ghosts import Ghosts
from resprout.stacks.resprout.core import Core
from resprout.stacks.resprout.durable_book import DurableBook
from resprout.stacks.resprout.listeners import ListenerBook
from resprout.stacks.resprout.repair.parcels import Parcel, pack_client_lives
from resprout.stacks.resprout.roll import Roll


class ClientBook:
    def __init__(self, core: Core, ghosts: Ghosts) -> None:
        self.listeners = ListenerBook(core, ghosts)
        self.roll = Roll(core, ghosts)
        self.durables = DurableBook(core)

    def pack(self, dead: str | None = None) -> list[ProtocolMessage]:
        """For a parcel; for an `Attach` also what was known of the dead neighbour."""
        lives = pack_client_lives(self.roll.lives())
        return [*self.listeners.handed_over(dead), *lives, *(self.durables.pack() if self.durables.states else ())]

    def meet(self, neighbour: str, parcel: Parcel) -> None:
        """The first word of a new neighbour."""
        self.listeners.meet(neighbour, parcel)
        self.roll.learn(parcel.client_lives, neighbour)
        if parcel.durables or self.durables.states:
            self.durables.meet(neighbour, parcel.durables)

    def lost(self, neighbour: str) -> set[str]:
        """It is replaced by others. Tells whom it stood for."""
        if self.durables.waves:
            self.durables.lost(neighbour)
        return self.listeners.lost(neighbour)
