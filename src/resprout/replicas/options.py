"""How patient replicas are."""

import msgspec


class ReplicaOptions(msgspec.Struct, frozen=True, kw_only=True):
    heartbeat_us: int = 250_000
    """Between two signs of life of a leader; what was not answered is sent again at this pace."""
    patience_us: int = 1_000_000
    """A leader that is not heard for so long, and up to twice that by chance, is replaced; one that hears no majority
    for so long gives up. Several heartbeats and round trips, or leaders change without need."""
    batch_bytes_max: int = 1 << 20
    """Of commands in one message, unless a single one is larger."""
    batch_entries_max: int = 128
