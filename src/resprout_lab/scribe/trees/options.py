"""How patient members of a tree are. Seed 004 prints none of it: all is *chosen*."""

import msgspec


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
