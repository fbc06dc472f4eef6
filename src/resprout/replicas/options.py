"""How patient replicas are."""

import msgspec


class ReplicaOptions(msgspec.Struct, frozen=True, kw_only=True):
    heartbeat_us: int = 250_000
    """Between two signs of life of a leader; what was not answered is sent again at this pace."""
    patience_us: int = 1_000_000
    """A leader that is not heard for so long, and up to twice that by chance, is replaced; one that hears no majority
    for so long gives up. Several heartbeats and round trips, or leaders change without need."""
    idle_beats: int = 0
    """A leader that had nothing to decide for so many heartbeats, and heard all members, gives no more of them until
    something is to be decided: the group sleeps. 0: never. For owners with many groups, which learn by other means that
    a member cannot be reached, and wake the group then (`Replica.wake`)."""
    batch_bytes_max: int = 1 << 20
    """Of commands in one message, unless a single one is larger."""
    batch_entries_max: int = 128
