"""Every bound that a message must keep, by name, and how much of a broker one identity may use.

The wire refuses what exceeds the bounds; users are told at the call. Sizes are bytes of UTF-8 for text. A limit is the
largest value allowed.

`ClientLimits` count per identity. A client that has proven no identity counts for itself, by its name.
"""

from typing import Final

import msgspec

from resprout.core.errors import UsageError

NAME_BYTES: Final = 64
"""A broker's or client's name."""

TOPIC_BYTES: Final = 512
TOPIC_LEVELS: Final = 32

KEY_BYTES: Final = 256
KEYS_PER_PUBLICATION: Final = 64

ATTRIBUTES_PER_MESSAGE: Final = 64
ATTRIBUTE_NAME_BYTES: Final = 128
ATTRIBUTE_TEXT_BYTES: Final = 1024

PAYLOAD_BYTES: Final = 1 << 20
"""One message's payload."""

BUNDLE_MESSAGES: Final = 1024
BUNDLE_BYTES: Final = PAYLOAD_BYTES + 4096
"""Both columns of a bundle together: at least one message of the largest size always fits."""

WHERE_BYTES: Final = 4096
WHERE_DEPTH: Final = 32
WHERE_STEPS: Final = 8_448
"""What testing a condition may cost for one message (`filters.where`): up to 1 ms."""

FRAME_BYTES: Final = 4 << 20
"""One frame on a connection; a header that claims more is refused before anything is read."""

FRAME_ITEMS: Final = 256
"""Messages in one frame: what a broker does in one go for one peer before it looks after the others."""

INTERNED_NAMES: Final = 65_536
"""Names that one connection remembers in each direction; later ones travel in full."""

REASON_BYTES: Final = 512
"""Text that explains a refusal."""


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
    """Steps (`filters.where`) that testing its conditions may take in a second: about 0.2 s of a processor."""
    identity_durables: int = 1_000
    """Durable subscriptions that its clients have begun at this broker, and that are held there."""
    durable_steps: int = 4_096
    """Steps that the conditions of these may take together for one message: nobody can be cut off for them."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < 1:
                raise UsageError(f"limit {name} must be 1 or more, not {getattr(self, name)}")


DEFAULT_LIMITS = ClientLimits()
