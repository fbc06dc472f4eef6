"""A bundle's columns at the place where trust begins: the broker that takes it from a client.

Brokers further on believe what a broker has checked and never look into the payload column.
"""

import sys
from typing import Annotated, Final

from msgspec import Meta, MsgspecError
from msgspec.msgpack import Decoder

from resprout.core import limits
from resprout.core.bundle import Bundle, unpack_attributes
from resprout.core.errors import NameRefusedError, WireError
from resprout.core.names import check_attributes

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
