"""What can be set about flooding."""

from typing import Annotated

import msgspec


class FloodOptions(msgspec.Struct, frozen=True):
    filtered: bool = False
    """A publication goes down a link only if somebody behind it wants it: then brokers tell each other what is wanted,
    and a subscription is confirmed when all have heard of it. False: everything goes everywhere."""
    buffer: Annotated[int, msgspec.Meta(ge=1)] = 10_000
    """Messages of one neighbour or client that may wait here, for readers or for room on links, before it is held
    back."""
