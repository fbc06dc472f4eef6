"""A plain tree in which everybody knows who stands where within some hops (`overlay.neighbourhood`).

Brokers tell their neighbours who their own neighbours are, and where these listen; what is news to one of them it tells
to those whom it concerns. What becomes of the dead is for the stack to say.
"""

from collections.abc import Mapping

from resprout.core.contract import Locate, ProtocolMessage
from resprout.overlay.places import Place
from resprout.stacks.shell.desk import Desk, Handler
from resprout.stacks.shell.outbox import Outbox
from resprout.stacks.shell.peers import Peer
from resprout.stacks.shell.step import Step
from resprout.stacks.stack import BrokerSeat
from resprout.stacks.status import MemberSeen, seen
from resprout_lab.blocks.neighbourhood import Neighbourhood
from resprout_lab.blocks.tree import PlainTree


class PlacesNear(ProtocolMessage, frozen=True, tag=187):
    """Who stands next to whom, as far as the receiver has to know."""

    places: tuple[Place, ...]


class MappedTree(PlainTree):
    def __init__(self, seat: BrokerSeat, step: Step, outbox: Outbox, view: Neighbourhood) -> None:
        super().__init__(seat, step, outbox)
        self._view = view

    def desks(self, handlers: Mapping[type, Handler]) -> tuple[Desk, ...]:
        return super().desks({PlacesNear: self._told, **handlers})

    def is_dead(self, name: str) -> bool:
        """Declared dead, as far as is known here; in a tree that declares nobody dead, nobody is."""
        return False

    def _members(self) -> tuple[MemberSeen, ...]:
        return tuple([seen(one, self.is_dead(one.name)) for one in self._view.places(self._view.nodes())])

    def _told(self, peer: Peer, message: PlacesNear) -> None:
        self._spread(self._view.learn(message.places))

    def _spread(self, news: list[Place]) -> None:
        for place in news:
            if place.address and place.name != self._view.name:
                self._step.out.append(Locate(place.name, place.address))
        for name in self.links:
            self._tell(name, self._view.concerning(name, news))

    def _tell_everything(self, name: str) -> None:
        """What one has to know with whom there is a new link."""
        self._tell(name, self._view.everything_for(name))

    def _tell(self, name: str, places: tuple[Place, ...]) -> None:
        if places:
            self._outbox.send(name, PlacesNear(places))
