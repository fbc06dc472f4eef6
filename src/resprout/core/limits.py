"""Every bound that a message must keep, by name. The wire refuses what exceeds them; users are told at the call.

Sizes are bytes of UTF-8 for text. A limit is the largest value allowed.
"""

from typing import Final

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
"""What testing a condition may cost for one message (`filters.price`): up to 1 ms."""

FRAME_BYTES: Final = 4 << 20
"""One frame on a connection; a header that claims more is refused before anything is read."""

FRAME_ITEMS: Final = 256
"""Messages in one frame: what a broker does in one go for one peer before it looks after the others."""

INTERNED_NAMES: Final = 65_536
"""Names that one connection remembers in each direction; later ones travel in full."""

REASON_BYTES: Final = 512
"""Text that explains a refusal."""
