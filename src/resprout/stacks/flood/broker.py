"""One broker: its parts, and what it does with a publication. All else is shared."""

import random

from resprout.core.bundle import Bundle
from resprout.core.bundle_message import BundleMessage
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.edge.broker.item import KeptItem
from resprout.edge.broker.retention import Retention
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.messages import Publish, Serving
from resprout.order.seen import SeenRanges
from resprout.spread.flooding import Flooding
from resprout.spread.recorded import RecordedSubscriptions
from resprout.stacks.flood.options import FloodOptions
from resprout.stacks.shell.asking import Asking
from resprout.stacks.shell.clients import ClientDesk, ReceiptsDue
from resprout.stacks.shell.outbox import Outbox
from resprout.stacks.shell.passing import Passing
from resprout.stacks.shell.peers import Peer
from resprout.stacks.shell.readers import readers_here
from resprout.stacks.shell.sessions import SessionEvents
from resprout.stacks.shell.shell import Shell
from resprout.stacks.shell.step import Step
from resprout.stacks.shell.tree import LinkBegan, LinkEnded, PlainTree
from resprout.stacks.stack import BrokerSeat
from resprout.stacks.status import StackStatus, TopicReaders

GUARANTEES = (Guarantee.EVENTUAL,)
RECEIPTS = (ReceiptLevel.ACCEPTED, ReceiptLevel.SAFE)


class Flooded(BundleMessage, frozen=True, tag=180):
    """A publication, on to everybody but the one that says it."""

    bundle: Bundle
    hops: int


class FloodBroker(Shell):
    def __init__(self, seat: BrokerSeat, options: FloodOptions, rng: random.Random) -> None:
        step, wishes = Step(), RecordedSubscriptions()
        outbox = Outbox(step)
        self._tree = tree = PlainTree(seat, step, outbox)
        self._flooding = Flooding(wishes.table, options.filtered, tree.links)
        self._seen = SeenRanges()
        self._kept = Retention(options.buffer)
        self._passing = Passing(outbox, self._kept)
        self._sessions = ClientSessions(Serving("flood", GUARANTEES, 0, receipts=RECEIPTS), self._kept, wishes)
        self._asking = Asking(step, self._sessions, wishes, outbox.send, asks=options.filtered)
        clients = ClientDesk(
            step,
            self._sessions,
            publish=self._publish,
            is_ready=lambda: tree.is_in,
            successors=lambda: tree.successors,
            left=self._kept.forget,
        )
        events = SessionEvents(step, clients, tree, self._passing.writable)
        super().__init__(
            step,
            events=events.table,
            desks=(clients.desk(), *tree.desks({Flooded: self._hear, **self._asking.handlers})),
            cut_off=events.cut_off,
            timers={ReceiptsDue: clients.receipts_due},
            outcomes={LinkBegan: self._began, LinkEnded: self._ended},
            at_end=(
                clients.serve,
                (wishes.outbound, self._asking.ask),
                clients.tell,
                lambda: self._kept.push_back(step.out),
            ),
        )

    def begin(self) -> None:
        self._tree.begin()

    def status(self) -> StackStatus:
        return self._tree.status()

    def readers(self, topic: str) -> TopicReaders:
        return readers_here(self._sessions, topic)

    # -- publications --------------------------------------------------------------------------------------------------

    def _publish(self, session: ClientSession, message: Publish) -> None:
        if self._seen.is_new(message.bundle):
            self._flood(KeptItem(message.bundle, 0, session.name, message.prompt))
        else:  # it came by another way before, when its publisher was elsewhere
            self._sessions.known(session, message.bundle, everywhere=False)

    def _hear(self, peer: Peer, message: Flooded) -> None:
        if self._seen.is_new(message.bundle):
            self._flood(KeptItem(message.bundle, message.hops, peer.name, False))

    def _flood(self, item: KeptItem) -> None:
        onward = self._flooding.onward(item.bundle, item.source)
        message = Flooded(item.bundle, item.hops + 1)
        for name in onward.links:
            self._passing.pass_on(name, item, message)
        self._kept.place(item)
        self._sessions.address(item, item.bundle, onward.readers)
        self._sessions.show(item, self._step.out)

    # -- links ---------------------------------------------------------------------------------------------------------

    def _began(self, outcome: LinkBegan) -> None:
        self._asking.begin_link(outcome.name)

    def _ended(self, outcome: LinkEnded) -> None:
        self._passing.end(outcome.name)
        self._asking.end_link(outcome.name)
