"""One broker of `flood`: its options, its parts, and what it does with a publication. Everything else is shared."""

import random
from typing import Annotated

import msgspec

from resprout.core.bundle import Bundle
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.core.message_fields import BundleMessage
from resprout.core.seen import SeenRanges
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import Publish, Serving
from resprout.stacks.peers import Peer
from resprout.stacks.stack import BrokerSeat
from resprout_lab.blocks.recorded import Asking, RecordedSubscriptions
from resprout_lab.blocks.retention import KeptItem
from resprout_lab.blocks.serving import ServingShell
from resprout_lab.blocks.tree import LinkBegan, LinkEnded, PlainTree
from resprout_lab.flood.flooding import Flooding

GUARANTEES = (Guarantee.EVENTUAL,)
RECEIPTS = (ReceiptLevel.ACCEPTED, ReceiptLevel.SAFE)


class FloodOptions(msgspec.Struct, frozen=True):
    filtered: bool = False
    """A publication goes down a link only if somebody behind it wants it: then brokers tell each other what is wanted,
    and a subscription is confirmed when all have heard of it. False: everything goes everywhere."""
    buffer: Annotated[int, msgspec.Meta(ge=1)] = 10_000
    """Messages of one neighbour or client that may wait here, for readers or for room on links, before it is held
    back."""


class Flooded(BundleMessage, frozen=True, tag=180):
    """A publication, on to everybody but the one that says it."""

    bundle: Bundle
    hops: int


class FloodBroker(ServingShell):
    def __init__(self, seat: BrokerSeat, options: FloodOptions, rng: random.Random) -> None:
        wishes = RecordedSubscriptions()
        super().__init__(Serving("flood", GUARANTEES, 0, receipts=RECEIPTS), wishes, options.buffer)
        tree = PlainTree(seat, self._step, self._outbox)
        self._flooding = Flooding(wishes.table, options.filtered, tree.links)
        self._seen = SeenRanges()
        self._asking = Asking(self._step, self._sessions, wishes, self._outbox.send, asks=options.filtered)
        self._open(
            tree,
            {Flooded: self._hear, **self._asking.handlers},
            publish=self._publish,
            is_ready=lambda: tree.is_in,
            successors=lambda: tree.successors,
            outcomes={LinkBegan: self._began, LinkEnded: self._ended},
            at_end=((wishes.outbound, self._asking.ask),),
        )

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
        self._show_to(onward.readers, item)

    # -- links ---------------------------------------------------------------------------------------------------------

    def _began(self, outcome: LinkBegan) -> None:
        self._asking.begin_link(outcome.name)

    def _ended(self, outcome: LinkEnded) -> None:
        self._passing.end(outcome.name)
        self._asking.end_link(outcome.name)
