"""What can be set about localized causal multicast."""

from typing import Annotated

import msgspec

from resprout_lab.blocks.causal_order import ITEMS_HELD_MAX
from resprout_lab.blocks.limits import Period


class LocamuOptions(msgspec.Struct, frozen=True):
    f: Annotated[int, msgspec.Meta(ge=1, le=3)] = 1
    """Brokers that may be down at once on any path of 2f + 1. Everybody knows the tree within 2f + 1 hops and talks to
    those within f + 1; headers grow with the number of those."""
    buffer: Annotated[int, msgspec.Meta(ge=1)] = 10_000
    """Messages of one neighbour or client that may be kept here, for others within f + 1 hops that may lack them, for
    what they depend on, for readers or for room on links, before it is held back. So much can be published while a
    broker is away: nothing is dropped, everybody waits for it then."""
    held_back: Annotated[int, msgspec.Meta(ge=1)] = ITEMS_HELD_MAX
    """Bundles that may wait for what they depend on, from all neighbours together. One more is dropped, unless it is
    in order, and its sender begins anew a second later."""
    suspect_us: Period = 2_000_000
    """How long a broker may be silent before it is bypassed. It doubles for a broker that was suspected and lives.
    Shorter: fewer messages wait for a dead broker, and more are sent twice around a living one."""
    return_us: Period = 30_000_000
    """How long a broker that has started again keeps messages for clients of its earlier lives."""
