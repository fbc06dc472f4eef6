"""Values from the network that are checked by hand: texts, and the columns of a bundle that a client sends.

Texts keep the rules of `core.names`; a peer that breaks them gets a `WireError`. A bundle's columns are checked by the
broker that takes it from a client. Brokers further on believe what a broker has checked and never look into the payload
column.
"""

import sys
from collections.abc import Callable
from typing import Annotated, Any, Final

from msgspec import Meta, MsgspecError
from msgspec.msgpack import Decoder

from resprout.core import limits, names
from resprout.core.bundle import Bundle, unpack_attributes
from resprout.core.errors import NameRefusedError, WireError
from resprout.core.names import check_attributes

KEY_TEXT_BYTES: Final = limits.TOPIC_BYTES + limits.KEY_BYTES
"""A key of another topic is written with that topic."""

_Payload = Annotated[bytes, Meta(max_length=limits.PAYLOAD_BYTES)]
_decode_payloads: Final = Decoder(Annotated[list[_Payload], Meta(max_length=limits.BUNDLE_MESSAGES)]).decode

# Rows that pass this decoder keep the limits whatever their characters are (at most four bytes each) and hold neither
# NaN nor an integer beyond 64 bits. The rare row that does not pass is looked at again with the exact rules.
_Name = Annotated[str, Meta(min_length=1, max_length=limits.ATTRIBUTE_NAME_BYTES // 4)]
_Text = Annotated[str, Meta(max_length=limits.ATTRIBUTE_TEXT_BYTES // 4)]
_Integer = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_Float = Annotated[float, Meta(ge=-sys.float_info.max)]
_Row = Annotated[dict[_Name, _Text | _Integer | _Float | bool], Meta(max_length=limits.ATTRIBUTES_PER_MESSAGE)]
_decode_plain_rows: Final = Decoder(Annotated[list[_Row], Meta(max_length=limits.BUNDLE_MESSAGES)]).decode


def checked_name(name: Any) -> str:
    """A broker's or client's name."""
    check_text(name, "a name", limits.NAME_BYTES)
    return _refused_by_the_wire(names.check_name, name)


def checked_topic(topic: Any) -> str:
    """A topic to publish on: no wildcards."""
    check_text(topic, "a topic", limits.TOPIC_BYTES)
    return _refused_by_the_wire(names.check_topic, topic)


def checked_key(key: Any) -> str:
    """A key, perhaps of another topic."""
    check_text(key, "a key", KEY_TEXT_BYTES)
    return _refused_by_the_wire(lambda text: names.check_keys([text])[0], key)


def check_text(text: Any, what: str, bytes_max: int) -> None:
    """Only type and size, and never quoting the text: what is refused for its size must not be repeated in a reason."""
    if type(text) is not str:
        raise WireError(f"{what} is a text")
    if len(text) * 4 > bytes_max and len(text.encode()) > bytes_max:
        raise WireError(f"{what} has more than {bytes_max} bytes")


def _refused_by_the_wire(check: Callable[[str], str], text: str) -> str:
    try:
        return check(text)
    except NameRefusedError as error:
        raise WireError(str(error)) from None


def check_columns(bundle: Bundle) -> None:
    """Raises WireError unless the columns hold exactly `count` payloads, and as many rows of attributes or none,
    all within the limits."""
    if len(bundle.payloads) + len(bundle.attributes) > limits.BUNDLE_BYTES:
        raise WireError(f"{bundle!r} has more than {limits.BUNDLE_BYTES} bytes")
    try:
        payloads = len(_decode_payloads(bundle.payloads))
    except MsgspecError as error:
        raise WireError(f"payload column of {bundle!r}: {error}") from None
    if payloads != bundle.count:
        raise WireError(f"payload column of {bundle!r} holds {payloads} messages")
    if bundle.attributes:
        _check_attribute_column(bundle)


def _check_attribute_column(bundle: Bundle) -> None:
    try:
        rows = _decode_plain_rows(bundle.attributes)
    except (MsgspecError, UnicodeDecodeError):
        _check_rows_exactly(bundle)
        return
    if len(rows) != bundle.count:
        raise WireError(f"attribute column of {bundle!r} holds {len(rows)} rows")
    for name in set().union(*rows):
        if "\0" in name:
            raise WireError(f"attribute column of {bundle!r}: the name {name!r} holds a null character")


def _check_rows_exactly(bundle: Bundle) -> None:
    for row in unpack_attributes(bundle):
        try:
            check_attributes(row)
        except NameRefusedError as error:
            raise WireError(f"attribute column of {bundle!r}: {str(error)[: limits.REASON_BYTES]}") from None
