"""What can be set about gossip. Seed 004 prints no parameter of its unstructured overlay: all of them are *chosen*,
those of the views by the paper on HyParView."""

from typing import Annotated

import msgspec

from resprout_lab.gossip.hyparview.options import ViewOptions

Positive = Annotated[int, msgspec.Meta(ge=1)]


class GossipOptions(msgspec.Struct, frozen=True):
    lazy: bool = False
    """Plumtree: a neighbour that brings copies only tells from then on what it has. Fewer copies; what a dead broker
    should have passed on comes later, by `graft_us`."""
    active: Positive = 5
    """Neighbours of a broker, at most; 2 or more."""
    passive: Positive = 30
    """Other brokers that it knows, at most."""
    join_walk: Positive = 6
    """Steps of the random walk of a newcomer's name, and of a shuffle (ARWL)."""
    passive_walk: Positive = 3
    """Steps that are left of it where the newcomer is remembered (PRWL)."""
    shuffle_active: Positive = 3
    """Neighbours that a shuffle tells of (ka)."""
    shuffle_passive: Positive = 4
    """Other brokers that it tells of (kp)."""
    shuffle_us: Positive = 2_000_000
    """Between two shuffles."""
    answer_us: Positive = 2_000_000
    """For so long a broker that was asked to be a neighbour may think about it; and so long a newcomer waits to hear
    what it is not owed, before it serves clients all the same."""
    silent_us: Positive = 1_000_000
    """A neighbour that is silent for so long is replaced. Shorter: fewer publications have to be made good; more
    neighbours are replaced that only paused."""
    announce_us: Positive = 20_000
    """For so long what lazy neighbours are told waits for company."""
    graft_us: Positive = 300_000
    """What somebody has and does not come is asked for after this. Shorter: more copies of what is on its way."""
    recover_us: Positive = 2_000_000
    """Between two comparisons, with a neighbour or another broker; and so long what that one has may take to come."""
    store_bytes: Positive = 16 << 20
    """What is kept for those that may lack it."""
    link_bytes: Positive = 4 << 20
    """What may wait for room on one link; more of what comes from neighbours is made good later."""
    buffer: Positive = 10_000
    """Messages of one neighbour or client that may wait here, for readers or, if it is a client, for room on links,
    before it is held back."""

    def __post_init__(self) -> None:
        assert self.views is not None, "UsageError for what does not go together"

    @property
    def views(self) -> ViewOptions:
        return ViewOptions(
            active=self.active, passive=self.passive, join_walk=self.join_walk, passive_walk=self.passive_walk,
            shuffle_active=self.shuffle_active, shuffle_passive=self.shuffle_passive, shuffle_us=self.shuffle_us,
            answer_us=self.answer_us,
        )  # fmt: skip
