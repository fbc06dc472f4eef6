"""How much of a broker one identity may use. A client that has proven nothing stands for itself, by its name."""

import msgspec

from resprout.core.errors import UsageError


class ClientLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Of one identity at one broker."""

    client_subscriptions: int = 100_000
    """Subscriptions of each of its clients."""
    identity_subscriptions: int = 100_000
    """Subscriptions of all its clients together."""
    identity_wildcards: int = 64
    """Different placements of wildcards among the filters of its subscriptions. `a/+/x` and `b/+/y` have the same one,
    `a/+/x` and `a/x/+` do not. A topic matches at most one filter of each, so this bounds what a new topic costs."""
    identity_condition_bytes: int = 1 << 20
    """Bytes of the conditions of all its subscriptions; each counts with 64 bytes more than its canonical text."""
    identity_steps: int = 2_000_000
    """Steps (`filters.price`) that testing its conditions may take in a second: about 0.2 s of a processor."""
    identity_durables: int = 1_000
    """Durable subscriptions that its clients have begun at this broker, and that are held there."""
    durable_steps: int = 4_096
    """Steps that the conditions of these may take together for one message: nobody can be cut off for them."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < 1:
                raise UsageError(f"limit {name} must be 1 or more, not {getattr(self, name)}")


DEFAULT_LIMITS = ClientLimits()
