"""Attributes that say when a message was published, from when on it is delivered, and until when; and its priority.

All times are microseconds since 1970. The clock of the publisher sets them. The clock of whoever hands out the
message decides: of a plain subscription, that of the subscriber's client; of a durable one, that of the broker which
holds it, and for the expiry that of the consumer, too.

A delayed message is `eventual`, because it has no order with anything; an ordered one is not held back. Retained
publications, and so the keys of buckets, are none of this: their expiry says how long they are kept.
"""

from typing import Final

from resprout.core.limits import Attributes

PUBLISHED: Final = "time.published"
DUE: Final = "time.due"
EXPIRES: Final = "mqtt.expires"
"""The attribute that expiring messages of MQTT clients have."""

PRIORITY: Final = "queue.priority"
"""Groups hand out messages with a higher one first, from 0, the usual one, to `PRIORITY_MAX`."""
PRIORITY_MAX: Final = 9

MESSAGE_ID: Final = "message.id"
"""The id that the application gave it (`core.message_ids`)."""

_MARKS: Final = (DUE.encode(), EXPIRES.encode(), PRIORITY.encode())


def is_timed(column: bytes) -> bool:
    """Return whether an attribute column may hold a message that is delayed, expires or has a priority."""
    return _MARKS[0] in column or _MARKS[1] in column or _MARKS[2] in column


def published_of(attributes: Attributes) -> int:
    """Return when a message was published; 0 if it does not say."""
    return _time_of(attributes, PUBLISHED)


def due_of(attributes: Attributes) -> int:
    """Return from when on a message is delivered; 0: at once."""
    return _time_of(attributes, DUE)


def expires_of(attributes: Attributes) -> int:
    """Return when a message expires; 0: never."""
    return _time_of(attributes, EXPIRES)


def priority_of(attributes: Attributes) -> int:
    value = attributes.get(PRIORITY)
    return min(value, PRIORITY_MAX) if type(value) is int and value > 0 else 0


def has_expired(attributes: Attributes, wall_us: int) -> bool:
    return 0 < _time_of(attributes, EXPIRES) <= wall_us


def _time_of(attributes: Attributes, name: str) -> int:
    value = attributes.get(name)
    return value if type(value) is int and value > 0 else 0
