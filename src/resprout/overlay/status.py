"""What can be set about failure detection, and what it tells people."""

import msgspec

from resprout.core.errors import UsageError


class CouncilOptions(msgspec.Struct, frozen=True, kw_only=True):
    heartbeat_us: int = 100_000
    """Between two signs of life to the parent. Shorter: more messages, nothing else."""
    lease_us: int = 1_000_000
    """Silence after which a broker stops to count on its parent, and (a little later) a parent suspects its child.
    Several heartbeats plus the longest pause of a process that is to survive it, or healthy brokers are fenced."""

    def __post_init__(self) -> None:
        if self.heartbeat_us < 1:
            raise UsageError(f"heartbeat_us must be at least 1, not {self.heartbeat_us}")
        if self.lease_us < 3 * self.heartbeat_us:
            raise UsageError("lease_us must be at least three heartbeats: one late sign of life is no death")


class CouncilStatus(msgspec.Struct, frozen=True):
    parent: str | None
    leased: bool
    unheard: tuple[str, ...]
    """Neighbours that are not heard at the moment."""
    cut_off: tuple[str, ...]
    """More silent brokers in one piece than may crash: nobody is declared dead, all wait for the partition to heal."""
