"""One broker: its parts, and what it does with a publication."""

import random
from typing import Final

from resprout.core.contract import Outcome, ProtocolMessage, Request, Retire, SetTimer, Timer
from resprout.core.errors import PeerError
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.core.seen import SeenRanges
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.messages import Publish, Serving
from resprout.edge.requests import LeaveRequest
from resprout.stacks.desk import Desk, Handler
from resprout.stacks.peers import Outbox, Peer
from resprout.stacks.shell import Shell, Step
from resprout.stacks.stack import BrokerSeat
from resprout.stacks.status import StackStatus, TopicReaders, readers_here
from resprout_lab.blocks.recorded import RecordedSubscriptions
from resprout_lab.blocks.retention import KeptItem, Retention
from resprout_lab.blocks.serving import ClientDesk, ReceiptsDue, SessionEvents
from resprout_lab.gossip.broadcast import (
    AnnounceDue,
    Apart,
    ApartDue,
    Gossip,
    Gossiped,
    GossipSettled,
    Graft,
    GraftDue,
    IHave,
    Prune,
    RecoverDue,
)
from resprout_lab.gossip.hyparview import NeighbourDown, NeighbourUp
from resprout_lab.gossip.neighbours import OverlaySessions, Pushing
from resprout_lab.gossip.options import GossipOptions
from resprout_lab.gossip.store import RecentBundles

GUARANTEES: Final = (Guarantee.EVENTUAL,)
RECEIPTS: Final = (ReceiptLevel.ACCEPTED, ReceiptLevel.SAFE)


class AloneDue(Timer, frozen=True):
    """When to serve clients, though nobody has told what this broker is not owed."""


class GossipBroker(Shell):
    """Is what gossip speaks through (`Lines`)."""

    def __init__(self, seat: BrokerSeat, options: GossipOptions, rng: random.Random) -> None:
        step, self._wishes = Step(), RecordedSubscriptions()
        self._options = options
        self._outbox = outbox = Outbox(step)
        self._seen = SeenRanges()
        self._kept = Retention(options.buffer)
        self._pushing = Pushing(outbox, self._kept, options.link_bytes, self._caught_up)
        self._brokers = brokers = OverlaySessions(seat, options, step, outbox, rng, self._pushing.end)
        self._gossip = gossip = Gossip(self._seen, RecentBundles(options.store_bytes), options, rng, self)
        self._published: KeptItem | None = None
        """What a client here has just published, while it is pushed."""
        self._sessions = ClientSessions(Serving("gossip", GUARANTEES, 0, receipts=RECEIPTS), self._kept, self._wishes)
        clients = ClientDesk(
            step,
            self._sessions,
            publish=self._publish,
            is_ready=lambda: gossip.is_settled,
            successors=lambda: brokers.successors,
            left=self._kept.forget,
        )
        events = SessionEvents(step, clients, brokers, self._pushing.writable)
        spoken: dict[type, Handler] = {
            Gossiped: self._hear,
            IHave: lambda peer, message: gossip.hear_have(peer.name, message),
            Graft: lambda peer, message: gossip.hear_graft(peer.name, message),
            Prune: lambda peer, message: gossip.hear_prune(peer.name, message),
        }
        super().__init__(
            step,
            events={**events.table, Request: self._request},
            desks=(clients.desk(), brokers.desk(), Desk(brokers.find, spoken, unknown_peer=self._hear_elsewhere)),
            cut_off=events.cut_off,
            timers={
                ReceiptsDue: clients.receipts_due,
                AnnounceDue: gossip.announce_due,
                GraftDue: gossip.graft_due,
                RecoverDue: gossip.recover_due,
                ApartDue: gossip.apart_due,
                AloneDue: lambda timer: gossip.settle(),
                **brokers.timers,
            },
            outcomes={
                NeighbourUp: lambda outcome: gossip.begin_link(outcome.name),
                NeighbourDown: lambda outcome: gossip.end_link(outcome.name),
                Apart: lambda outcome: brokers.overlay.reach(outcome.name),
                GossipSettled: lambda outcome: step.note("joined", ""),
            },
            at_end=(clients.serve, clients.tell, lambda: self._kept.push_back(step.out)),
        )

    def begin(self) -> None:
        self._gossip.begin()
        self._brokers.overlay.begin()
        if self._brokers.knows_somebody:
            self.wake(AloneDue(), self._options.answer_us)
        else:
            self._gossip.settle()

    def status(self) -> StackStatus:
        return self._brokers.status(self._gossip.is_settled)

    def readers(self, topic: str) -> TopicReaders:
        return readers_here(self._sessions, topic)

    def _request(self, event: Request) -> None:
        if isinstance(event.body, LeaveRequest):
            self._brokers.leave()
            self._step.end_life(Retire("it leaves", again=False))

    # -- publications --------------------------------------------------------------------------------------------------

    def _publish(self, session: ClientSession, message: Publish) -> None:
        if self._seen.is_new(message.bundle):
            self._published = item = KeptItem(message.bundle, 0, session.name, message.prompt)
            self._spread(item, None)
            self._published = None
        else:  # it came by another way before, when its publisher was elsewhere
            self._sessions.known(session, message.bundle, everywhere=False)

    def _hear(self, peer: Peer, message: Gossiped) -> None:
        bundle = message.bundle
        if bundle.guarantee is not Guarantee.EVENTUAL:
            raise PeerError(f"{bundle!r} asks for more than this network offers")
        if self._seen.is_new(bundle):
            self._spread(KeptItem(bundle, message.hops, peer.name, False), peer.name)
        else:
            self._gossip.repeated(peer.name, message)

    def _hear_elsewhere(self, name: str, message: ProtocolMessage) -> None:
        """Of a broker that is no neighbour, or that does not know yet that it is none any more."""
        if isinstance(message, IHave):
            self._gossip.hear_elsewhere(name, message)

    def _spread(self, item: KeptItem, source: str | None) -> None:
        readers = self._wishes.table.matches(item.bundle)
        self._gossip.put(item.bundle, item.hops, source)
        self._kept.place(item)
        self._sessions.address(item, item.bundle, readers)
        self._sessions.show(item, self._step.out)

    # -- what gossip wants (`Lines`) -----------------------------------------------------------------------------------

    def say(self, name: str, message: ProtocolMessage) -> None:
        self._outbox.pass_by(name, message)

    def say_elsewhere(self, message: ProtocolMessage) -> None:
        member = self._brokers.overlay.stranger()
        if member is not None:
            self._brokers.say(member, message)

    def push(self, name: str, message: Gossiped) -> None:
        self._pushing.push(name, message, self._published)

    def wake(self, timer: Timer, after_us: int) -> None:
        self._step.out.append(SetTimer(timer, self._step.now_us + after_us))

    def tell(self, outcome: Outcome) -> None:
        self._step.outcomes.append(outcome)

    def _caught_up(self, name: str) -> None:
        if self._brokers.find(name) is not None:
            self._gossip.offer(name)
