"""Ids that applications give to messages (`message_id`), by which a repeat is recognised.

An id is an attribute of the message. Two publications with the same topic and the same id are the same message for the
application, whoever published them. `edge.broker.repeats` drops the later one.
"""

from hashlib import sha256
from typing import Final

from resprout.core.bundle import Bundle, Origin, StowedBundle, unpack_attributes, whole
from resprout.core.errors import WireError
from resprout.core.limits import Attributes, AttributeValue
from resprout.core.timing import MESSAGE_ID

MESSAGE_ID_BYTES: Final = 256
"""Bytes of UTF-8 in an id. A longer one, which no honest client sends, counts as none."""
WINDOW_US: Final = 120_000_000
"""How long an id is remembered, unless the broker has another window (`message_id_us`)."""
ID_BYTES: Final = 16
"""Of a digest of a topic and an id."""
PUBLICATION_BYTES: Final = 8
"""Of a digest that tells a publication from others with the same id."""


def id_of(attributes: Attributes) -> str:
    """Return the id of a message; empty: it has none."""
    value = attributes.get(MESSAGE_ID)
    if type(value) is not str or len(value.encode("utf-8", "surrogatepass")) > MESSAGE_ID_BYTES:
        return ""
    return value


def rows_with_ids(bundle: Bundle) -> list[dict[str, AttributeValue]] | None:
    """The attributes of a bundle in which some messages may have an id; None of any other, and of one that cannot be
    read."""
    if not (bundle.has_ids if isinstance(bundle, StowedBundle) else MESSAGE_ID.encode() in bundle.attributes):
        return None
    try:
        return unpack_attributes(whole(bundle))
    except WireError:
        return None


def digest_of_id(topic: str, id: str) -> bytes:
    return sha256(f"{topic}\0{id}".encode("utf-8", "surrogatepass")).digest()[:ID_BYTES]


def digest_of_publication(origin: Origin, seq: int) -> bytes:
    return sha256(f"{origin}/{seq}".encode("utf-8", "surrogatepass")).digest()[:PUBLICATION_BYTES]
