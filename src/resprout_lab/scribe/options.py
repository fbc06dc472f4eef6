"""The options of `scribe`, of its ring and of its trees.

Seed 004 prints four of these: the number of bits of the ring, two backups, and the leader's two times. All others are
*chosen*; those of the ring are close to the paper's.
"""

from typing import Annotated, Final

import msgspec

from resprout.core.errors import UsageError
from resprout.replicas.messages import ReplicaOptions
from resprout_lab.blocks import Period

SUCCESSORS_SAID_MAX: Final = 64
"""In one message, whoever says it."""

_Positive = Annotated[int, msgspec.Meta(ge=1)]

BATCH_BYTES: Final = 1 << 16
"""Of decisions that a holder is told at a time: signs of life come behind them, and must not come too late."""

IDLE_BEATS: Final = 3
"""After so many signs of life without news, the log and the tree of a topic sleep: they cost nothing until somebody
publishes or joins, or a broker of theirs cannot be reached."""
REPORTS: Final = 16
"""So often brokers of a tree say how far they have come while as much is published as is kept."""


class RingOptions(msgspec.Struct, frozen=True, kw_only=True):
    successors: int = 4
    """Of each member. More: more neighbours on the ring may fail at once, and longer messages."""
    stabilise_us: int = 500_000
    """Between two questions to the successor, and between two fingers. Shorter: failures are mended sooner."""
    lookup_us: int = 1_000_000
    """A question that is not answered for so long is asked again: somebody on its way may have died."""
    lookup_tries: int = 8

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.successors > SUCCESSORS_SAID_MAX:
            raise UsageError(f"successors must be at most {SUCCESSORS_SAID_MAX}, not {self.successors}")


class TreeOptions(msgspec.Struct, frozen=True, kw_only=True):
    beat_us: int = 1_000_000
    """Between two signs of life of a root."""
    idle_beats: int = 0
    """After so many without a publication in between, a root gives no more of them until there is one; 0: never."""
    silent_us: int = 5_000_000
    """Who has not heard one for so long looks for another parent."""
    retry_us: int = 20_000
    """A broker that is not in the tree asks for a parent again after this, then after twice as long each time: ways
    and roots change within milliseconds while a ring forms, and nobody tells a broker that stepped aside."""
    join_us: int = 2_000_000
    """But it never waits longer than this."""
    report_bytes: int = 128 << 10
    """Of publications, between two reports of how far a member has come."""


class ScribeOptions(msgspec.Struct, frozen=True):
    backups: Annotated[int, msgspec.Meta(ge=0, le=6)] = 2
    """Of each owner of a topic: the next ones on the ring. Half of them may be down at a time."""
    noop_us: Period = 1_000_000
    """Between two signs of life of a leader, to those who hold the same topic."""
    suspect_us: Period = 2_000_000
    """A leader that they do not hear for so long, and up to twice that by chance, is replaced; any broker that is
    silent for so long is passed by, on the ring and in trees, until it is heard. More than two round trips between any
    brokers, or nobody leads for long."""
    successors: _Positive = 4
    """That a broker knows on the ring, its backups among them. More: more neighbours may fail at once before the ring
    is mended."""
    stabilise_us: Period = 500_000
    """Between two questions to the successor, and between two fingers."""
    lookup_us: Period = 1_000_000
    """Before the owner of a key is asked for again."""
    beat_us: Period = 1_000_000
    """Between two signs of life of a root, down its tree."""
    again_us: Period = 2_000_000
    """What a leader has not answered for so long is said again, and who leads is asked again."""
    keep_us: Period = 30_000_000
    """For so long publications are kept for those who missed them."""
    keep_bytes: Annotated[int, msgspec.Meta(ge=1, le=3 << 20)] = 2 << 20
    """Of each topic, and eight times as much of the last ten seconds, for clients between two brokers. Less is kept for
    those who missed it where more is published."""
    end_us: Period = 60_000_000
    """A topic that nobody read, published on or asked for in so long, and of which nothing is kept (`keep_us`), ends.
    Together with `keep_us` longer than any client is between two brokers, or its repeats are not known as such."""
    link_bytes: _Positive = 4 << 20
    """What may wait for room on one link; more is left out, and made good later."""
    buffer: _Positive = 10_000
    """Messages of one client that may wait to be placed, or of one source that may wait for readers here, before it is
    held back."""

    def __post_init__(self) -> None:
        if self.suspect_us <= self.noop_us:
            raise UsageError(f"suspect_us must be more than noop_us, {self.noop_us}, not {self.suspect_us}")
        if self.successors < self.backups:
            raise UsageError(f"successors must be at least as many as backups, {self.backups}, not {self.successors}")
        assert self.ring is not None, "UsageError for what does not go together"

    @property
    def faults(self) -> int:
        """Of those who hold a topic, so many may be down."""
        return self.backups // 2

    @property
    def ring(self) -> RingOptions:
        return RingOptions(successors=self.successors, stabilise_us=self.stabilise_us, lookup_us=self.lookup_us)

    @property
    def replicas(self) -> ReplicaOptions:
        return ReplicaOptions(
            heartbeat_us=self.noop_us, patience_us=self.suspect_us, idle_beats=IDLE_BEATS, batch_bytes_max=BATCH_BYTES
        )

    @property
    def trees(self) -> TreeOptions:
        return TreeOptions(
            beat_us=self.beat_us, idle_beats=IDLE_BEATS, silent_us=self.beat_us + 2 * self.suspect_us,
            join_us=self.again_us, report_bytes=max(1, self.keep_bytes // REPORTS),
        )  # fmt: skip
