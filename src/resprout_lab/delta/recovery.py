"""How a broker begins, for the first time or again: it learns the tree and the subscriptions from those around it.

It asks its parent, and whoever calls it (`SyncRequest`). The first answer tells where it stands; from then on it asks
the nearest living broker in each direction, past the dead, and has all it needs when all of them have answered
(`SyncSnapshot`). Meanwhile it takes part: what it is sent is guided, it says where it goes. Whoever is asked and is
recovering itself answers when it has its own answers from all *other* directions, so a chain of them recovers from its
living ends.

Then it says that it needs no more guidance, and from that moment takes plain messages (D6); and it tells everybody
within delta + 1 hops that it is back (`RoutedRejoin`). When that is confirmed, whatever was sent around it has come,
and it is *operational*: clients are served.

A newcomer is a broker that nobody knows: its parent takes it in as a leaf. If it is gone before it has said that it is
back, its parent forgets it (D7).
"""

from collections.abc import Mapping
from typing import Final

from resprout.core.contract import Locate, Outcome, Silent
from resprout.core.errors import PeerError
from resprout.stacks.desk import Desk, Handler
from resprout.stacks.peers import Outbox, Peer
from resprout.stacks.shell import Step
from resprout.stacks.stack import BrokerSeat
from resprout_lab.blocks import parts_of
from resprout_lab.blocks.neighbourhood import Neighbourhood
from resprout_lab.delta.messages import (
    MeetRequest,
    NodeStatus,
    NotKnown,
    SyncRequest,
    SyncSnapshot,
)  # fmt: skip
from resprout_lab.delta.subscriptions import KnownSubscriptions
from resprout_lab.delta.tree import KnownTree

SNAPSHOT_PART: Final = 1 << 18
"""Bytes of subscriptions in one message, more or less."""


class Synced(Outcome, frozen=True):
    """All have answered."""

    is_back: bool
    """It was here before."""


class RecoveringTree(KnownTree):
    def __init__(
        self,
        seat: BrokerSeat,
        step: Step,
        outbox: Outbox,
        view: Neighbourhood,
        known: KnownSubscriptions,
        suspect_us: int,
    ) -> None:
        super().__init__(seat, step, outbox, view, suspect_us)
        self._known = known
        self._parent = seat.parent
        self._asked: dict[str, SyncRequest] = {}
        """Who wants to begin, and is not answered yet."""
        self._answered: dict[str, None] = {}
        """Who has given this broker its snapshot, in this session."""
        self._unsure: dict[str, None] = {}
        """Newcomers that have not said yet that they are in the tree: their links are marked."""
        self._strangers: dict[str, bool] = {}
        """Contacts that were asked: they do not know this broker; False: they are gone."""
        self._is_known = False
        """Somebody has said where this broker stands."""
        self._is_back = False
        """It stood there in an earlier life."""

    def begin(self) -> None:
        if self._parent is not None:
            self.peers.open(self._parent)
        elif self._seat.contacts:
            self._ask_contacts()
        else:
            self._is_known = True
            self._go_on()

    def desks(self, routed: Mapping[type, Handler]) -> tuple[Desk, ...]:
        """What brokers may say: any of them, and besides (`routed`) those that are linked."""
        beginning: dict[type, Handler] = {
            SyncRequest: self._sync_asked,
            SyncSnapshot: self._snapshot,
            NotKnown: self._not_known,
            MeetRequest: self.met,
        }
        return Desk(self.peers.find, beginning), Desk(self.linked_peer, routed)

    # -- to ask --------------------------------------------------------------------------------------------------------

    def greet(self, name: str) -> None:
        self._answered.pop(name, None)
        self._asked.pop(name, None)
        if self.is_synced:
            self.meet(name)
        else:
            self._strangers.pop(name, None)
            self._outbox.send(name, SyncRequest(self._seat.address, name == self._parent))

    def silent(self, event: Silent) -> None:
        super().silent(event)
        if not self._is_known and event.refused:
            self._is_gone(event.peer)
        elif not self._is_known:
            self.peers.open(event.peer)
            self.detector.silent(event.peer)

    def _suspect(self, name: str) -> None:
        if self._is_known:
            super()._suspect(name)
        else:
            self._is_gone(name)

    def _is_gone(self, name: str) -> None:
        """A broker that was asked for a place is dead, or suspected."""
        if name == self._parent:
            self._ask_contacts()
        elif name in self._seat.contacts:
            self._strangers[name] = False
            self._settle_for()

    def _ask_contacts(self) -> None:
        """One of them may know where this broker stands."""
        for name in self._seat.contacts:
            if name != self._parent:
                self.peers.open(name)

    def _not_known(self, peer: Peer, message: NotKnown) -> None:
        self._strangers[peer.name] = True
        self._settle_for()

    def _settle_for(self) -> None:
        """Nobody knows it: it is new, and joins whoever has answered first."""
        waits = [name for name in self._seat.contacts if name not in self._strangers and name != self._parent]
        there = [name for name, is_there in self._strangers.items() if is_there]
        if not self._is_known and not waits and there:
            self._parent = there[0]
            self._outbox.send(self._parent, SyncRequest(self._seat.address, True))

    def _snapshot(self, peer: Peer, message: SyncSnapshot) -> None:
        if peer.name in self.linked and self.is_synced:
            return  # others were enough
        self._is_known = True
        own = next((place for place in message.places if place.name == self._seat.name), None)
        if own is not None and own.incarnation < self._seat.incarnation:
            self._is_back = True
        known = own.neighbours if own is not None else (peer.name,)
        self.move(tuple(dict.fromkeys((*self.view.own.neighbours, *known))))
        self.learn(message.places)
        if not self.path(peer.name):
            raise PeerError(f"{peer.name} is nowhere near")
        self._known.learn(message.subscriptions)
        if message.is_operational:
            self._asked.pop(peer.name, None)  # it has its answers from others
        if not message.more:
            self._answered[peer.name] = None
            self.link(peer.name, message.is_operational)
            if self.is_synced:
                self._outbox.send(peer.name, NodeStatus())
            self._go_on()

    def look_beyond(self) -> None:
        super().look_beyond()
        if not self.is_synced:
            self._go_on()
        self._answer()

    def _go_on(self) -> None:
        """Everybody around has answered, or is asked. Who was suspected before it was known where it stands is dead."""
        if self._is_known and not self.is_synced:
            suspected = next(filter(self.detector.is_suspected, self.frontier()), None)
            if suspected is not None:
                self.pass_over(suspected)  # and looks beyond it
                return
            waits = [name for name in self.frontier() if name not in self._answered]
            for name in waits:
                self.peers.open(name)
            if not waits:
                self.is_synced = True
                self._step.outcomes.append(Synced(self._is_back))
            self._answer()
            if not waits:
                for name in self._seat.contacts:
                    if name not in self.view:
                        self.peers.close(name, "not needed any more")

    # -- to answer -----------------------------------------------------------------------------------------------------

    def _sync_asked(self, peer: Peer, message: SyncRequest) -> None:
        self._asked[peer.name] = message
        self._answer()

    def _answer(self) -> None:
        for name, message in list(self._asked.items()):
            if not self.peers.is_up(name):
                del self._asked[name]
            elif self.path(name):
                if all(map(self.is_dead, self.path(name)[:-1])) and self._has_others(name):
                    self._tell(name, message)
            elif self.is_synced and message.as_child:
                self._unsure[name] = None
                self.move((*self.view.own.neighbours, name))
                self._tell(name, message)
            elif self.is_synced:
                del self._asked[name]
                self._outbox.send(name, NotKnown())

    def _has_others(self, name: str) -> bool:
        """The answers from all directions but its own."""
        branch = self.path(name)[0]
        return self.is_synced or all(
            one in self._answered for one, path in self.frontier().items() if path[0] != branch
        )

    def _tell(self, name: str, message: SyncRequest) -> None:
        del self._asked[name]
        if message.address:
            self._step.out.append(Locate(name, message.address))
        places = self.view.places((self.view.name, *self.view.nodes()))
        parts = parts_of(self._known.for_broker(name), SNAPSHOT_PART, lambda wish: wish.bulk) or [[]]
        for number, part in enumerate(parts, 1):
            self._outbox.send(name, SyncSnapshot(self.is_synced, places, tuple(part), more=number < len(parts)))
        self.link(name, is_operational=False)

    # -- newcomers -----------------------------------------------------------------------------------------------------

    def joined(self, name: str) -> None:
        """It has said that it is in the tree."""
        self._unsure.pop(name, None)

    def pass_over(self, name: str, close: bool = True) -> None:
        super().pass_over(name, close)
        if name in self._unsure:
            del self._unsure[name]
            self.move(tuple([other for other in self.view.own.neighbours if other != name]))
