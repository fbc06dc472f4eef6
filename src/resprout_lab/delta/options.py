"""What can be set about delta-fault-tolerant publish/subscribe."""

from typing import Annotated

import msgspec

from resprout_lab.blocks.limits import Period

DELTA_MAX = 8


class DeltaOptions(msgspec.Struct, frozen=True):
    delta: Annotated[int, msgspec.Meta(ge=0, le=DELTA_MAX)] = 1
    """Brokers that may be down at once. Everybody knows the tree within delta + 1 hops, and headers name as many."""
    window: Annotated[int, msgspec.Meta(ge=1)] = 64
    """Bundles of one publisher that may be under way unconfirmed. With 1, each waits for the one before."""
    buffer: Annotated[int, msgspec.Meta(ge=1)] = 10_000
    """Messages of one neighbour or client that may wait here, for confirmations, for readers or for room on links,
    before it is held back."""
    suspect_us: Period = 4_000_000
    """How long a broker may be silent before it is passed over. A broker that was passed over and lives begins anew, so
    this must be longer than any pause that is no failure, and than links take to connect again after it."""
