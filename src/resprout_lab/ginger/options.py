"""What can be set about Ginger, under the thesis' own names where it has them."""

from typing import Annotated

import msgspec


class GingerOptions(msgspec.Struct, frozen=True):
    total_degree: Annotated[int, msgspec.Meta(ge=1)] = 1_000
    """Neighbours that a broker accepts, its parent included, unless a request breaks the degree."""
    buffer: Annotated[int, msgspec.Meta(ge=1)] = 10_000
    """Messages of one neighbour or client that may be unstable here before it is held back. Nothing is ever evicted."""
    timer_us: Annotated[int, msgspec.Meta(ge=1_000)] = 2_000_000
    """How long a broker may be silent before it is declared dead, and how long an answer to a request may take."""
    max_hops: Annotated[int, msgspec.Meta(ge=1, le=64)] = 3
    """Ancestors that a broker knows: so many brokers above it may die at once, and it still finds a new parent."""
    ack_delay_us: Annotated[int, msgspec.Meta(ge=0)] = 10_000
    """How long a report that nobody waits for may wait for company."""
    client_timer_us: Annotated[int, msgspec.Meta(ge=0)] = 10_000_000
    """How long messages are kept for a client of a dead broker that does not turn up."""
    eventual_waits: bool = True
    """An eventual publication keeps its place behind what a lock holds of its publisher or link, which nobody is
    promised. False: it overtakes, as in the thesis."""
