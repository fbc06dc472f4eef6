"""Addresses as users give them."""

from resprout.core.errors import UsageError
from resprout.net.address import Address, parse_address


def address_of_peer(text: str) -> Address:
    """An address to connect to."""
    address = parse_address(text)
    if not address.port:
        raise UsageError(f"address {text!r}: port 0 means any; whom to connect to needs a number")
    return address
