"""The parameters of HyParView. Seed 004 names the protocol and prints none of them: these are *chosen*, those of the
paper for 10,000 members where it prints one."""

from typing import Final

import msgspec

from resprout.core.errors import UsageError

TTL_MAX: Final = 32
"""Of any walk, whoever began it."""
SAMPLE_MAX: Final = 64
"""Members in one message."""


class ViewOptions(msgspec.Struct, frozen=True, kw_only=True):
    active: int = 5
    """Neighbours at most. More: fewer hops and more copies of everything. With 2 the overlay is circles, and with 3 it
    is in parts now and then."""
    passive: int = 30
    """Others that are known at most."""
    join_walk: int = 6
    """Steps of the walk of a newcomer's name, and of a shuffle (ARWL)."""
    passive_walk: int = 3
    """Steps that are left of it where the newcomer is remembered (PRWL)."""
    shuffle_active: int = 3
    """Neighbours that a shuffle tells of (ka)."""
    shuffle_passive: int = 4
    """Others that it tells of (kp)."""
    shuffle_us: int = 2_000_000
    """Between two shuffles; the paper has rounds and no time."""
    answer_us: int = 2_000_000
    """For so long a member that was asked to be a neighbour may think about it; then the next one is asked."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.active < 2:
            raise UsageError(
                "active must be at least 2: with one neighbour each, members are in pairs and nothing else"
            )
        if not self.passive_walk <= self.join_walk <= TTL_MAX:
            raise UsageError(f"passive_walk must be at most join_walk, and that at most {TTL_MAX}")
        if 1 + self.shuffle_active + self.shuffle_passive > SAMPLE_MAX:
            raise UsageError(f"a shuffle tells of {SAMPLE_MAX} members at most, its sender among them")
