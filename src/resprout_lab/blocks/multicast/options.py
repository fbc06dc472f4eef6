"""What can be set about a causal multicast."""

from typing import Annotated

import msgspec

from resprout_lab.blocks.holdback import ITEMS_HELD_MAX
from resprout_lab.blocks.periods import Period


class MulticastOptions(msgspec.Struct, frozen=True):
    buffer: Annotated[int, msgspec.Meta(ge=1)] = 10_000
    """Messages of one neighbour or client that may wait here, for what they depend on, for readers or for room on
    links, before it is held back."""
    held_back: Annotated[int, msgspec.Meta(ge=1)] = ITEMS_HELD_MAX
    """Bundles that may wait for what they depend on, from all neighbours together. With one more, the broker begins
    anew."""
    suspect_us: Period = 4_000_000
    """How long a broker may be silent before it is passed over. A broker that was passed over and lives begins anew, so
    this must be longer than any pause that is no failure, and than links take to connect again after it."""
