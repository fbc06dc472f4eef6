"""How patient members of a tree are. Seed 004 prints none of it: all is *chosen*."""

import msgspec


class TreeOptions(msgspec.Struct, frozen=True, kw_only=True):
    beat_us: int = 1_000_000
    """Between two signs of life of a root."""
    silent_us: int = 5_000_000
    """Who has not heard one for so long looks for another parent."""
    join_us: int = 2_000_000
    """A parent that has not answered for so long is asked again, or another one is."""
    report_bytes: int = 128 << 10
    """Of publications, between two reports of how far a member has come."""
