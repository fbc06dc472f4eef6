"""One broker of `flood`: its options, its parts, and what it does with a publication. Everything else is shared.

`Flooding` sends a bundle on over every link but the one it came over, and to the clients that want it. In a tree that
reaches everybody, each once, in the order of the links; nobody has to know more than its own neighbours. A stack whose
tree changes under way, or has cycles while it does, drops repeats (`core.seen`) before it asks here.

With `filtered` a link gets a bundle only if somebody behind it asked: the table then has to hear from the neighbours
what is wanted there (`Subscriptions.add`), before it is promised to anybody.
"""

import random
from collections.abc import Collection
from typing import Annotated, NamedTuple

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
from resprout_lab.blocks.subscriptions import Matches, Subscriptions
from resprout_lab.blocks.tree import LinkBegan, LinkEnded, PlainTree


class Onward(NamedTuple):
    links: list[str]
    """Neighbours that get the whole bundle: it is never split between brokers."""
    readers: Matches
    """Local directions, and which of its messages they want."""


class Flooding:
    def __init__(self, table: Subscriptions, filtered: bool = False, neighbours: Collection[str] | None = None) -> None:
        """`neighbours`: where the table does not know them, because they are not asked for anything."""
        self._table = table
        self._filtered = filtered
        self._neighbours = table.neighbours if neighbours is None else neighbours

    def onward(self, bundle: Bundle, source: str | None) -> Onward:
        """Where it goes now. `source`: the neighbour that it came from; None, or a client: published here. Publishers
        read what they publish if they ask for it."""
        neighbours = self._neighbours
        matches = self._table.matches(bundle)
        links = [name for name in neighbours if name != source and (name in matches or not self._filtered)]
        return Onward(links, {name: offsets for name, offsets in matches.items() if name not in neighbours})


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
