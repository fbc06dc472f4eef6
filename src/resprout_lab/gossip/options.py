"""The options of `gossip`. Seed 004 names the protocols and prints no parameter: all of them are *chosen*.

`ViewOptions` has those of HyParView, with the values of its paper for 10,000 members where it prints one.
"""

from typing import Annotated, Final

import msgspec

from resprout.core.errors import UsageError

TTL_MAX: Final = 32
"""Of any walk, whoever began it."""
SAMPLE_MAX: Final = 64
"""Members in one message."""

Positive = Annotated[int, msgspec.Meta(ge=1)]


class ViewOptions(msgspec.Struct, frozen=True, kw_only=True):
    active: int = 5
    """Neighbours at most. More: fewer hops and more copies of everything. With 2 the overlay is circles, and with 3 it
    is in parts now and then."""
    passive: int = 30
    """Others that are known at most."""
    join_walk: int = 6
    """Steps of the walk of a newcomer's name, and of a shuffle (ARWL)."""
    passive_walk: int = 3
    """Steps that are left of it where the newcomer is remembered (PRWL)."""
    shuffle_active: int = 3
    """Neighbours that a shuffle tells of (ka)."""
    shuffle_passive: int = 4
    """Others that it tells of (kp)."""
    shuffle_us: int = 2_000_000
    """Between two shuffles; the paper has rounds and no time."""
    answer_us: int = 2_000_000
    """For so long a member that was asked to be a neighbour may think about it; then the next one is asked."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.active < 2:
            raise UsageError(
                "active must be at least 2: with one neighbour each, members are in pairs and nothing else"
            )
        if not self.passive_walk <= self.join_walk <= TTL_MAX:
            raise UsageError(f"passive_walk must be at most join_walk, and that at most {TTL_MAX}")
        if 1 + self.shuffle_active + self.shuffle_passive > SAMPLE_MAX:
            raise UsageError(f"a shuffle tells of {SAMPLE_MAX} members at most, its sender among them")


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
