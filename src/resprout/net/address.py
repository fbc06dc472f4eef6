"""Addresses of nodes: `HOST:PORT`, with IPv6 hosts in brackets.

`AddressBook` knows where peers listen, by name: what a node was told at its start, and what it has heard since.
`address_to_tell` is the address at which others reach a broker that listens on some address.
"""

import asyncio
import errno
import ipaddress
import os
import re
import socket
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from resprout.core.errors import UsageError
from resprout.core.names import check_name

DEFAULT_PORT = 7450

NAMES_MAX: Final = 100_000
ADDRESS_LETTERS_MAX: Final = 300
"""A host has at most 253."""

_EVERY_INTERFACE: Final = ("", "0.0.0.0", "::")


class Address(msgspec.Struct, frozen=True):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """`localhost:7450`, `[::1]:7450`, `:0` (every interface, any port), or a host alone with the default port."""
    host, port = _divide(text)
    if not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise UsageError(f"address {text!r}: the port must be a number from 0 to 65535")
    if any(letter.isspace() for letter in host):
        raise UsageError(f"address {text!r}: the host holds white space")
    return Address(host, int(port))


def is_loopback(address: Address) -> bool:
    """Whether only this machine can reach it. A host that cannot be found is reached by nobody."""
    if not address.host:
        return False
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return True
    return all(ipaddress.ip_address(str(place[0]).partition("%")[0]).is_loopback for *_, place in found)


def reason_of(error: OSError | UnicodeError) -> str:
    """Why a place cannot be reached or taken: the system's own words, without what asyncio puts around them."""
    if isinstance(error, UnicodeError):
        return "the host is not a name"
    if isinstance(error, TimeoutError) and not error.args:
        return "no answer in time"
    if error.errno is None and (first := re.search(r"\[Errno (\d+)\]", str(error))):  # several addresses were tried
        return os.strerror(int(first[1])).lower()
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    return (error.strerror or str(error)).lower()


def is_refusal(error: OSError | UnicodeError) -> bool:
    """Whether the host itself answered that nobody listens there: on each of its addresses, where it has several."""
    if not isinstance(error, OSError):
        return False
    if error.errno is not None:
        return error.errno == errno.ECONNREFUSED
    numbers = re.findall(r"\[Errno (\d+)\]", str(error))  # several addresses were tried
    return bool(numbers) and all(int(number) == errno.ECONNREFUSED for number in numbers)


def _divide(text: str) -> tuple[str, str]:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise UsageError(f"address {text!r}: write an IPv6 address as [::1]:{DEFAULT_PORT}")
        return host, rest[1:] or str(DEFAULT_PORT)
    if text.count(":") > 1:
        raise UsageError(f"address {text!r}: write an IPv6 address as [::1]:{DEFAULT_PORT}")
    host, _, port = text.partition(":")
    if not host and not port:
        raise UsageError(f"address {text!r}: write it as HOST:PORT")
    return host, port or str(DEFAULT_PORT)


class AddressBook:
    """Outlives a broker's lives: the next one knows whom the last one knew."""

    def __init__(self, known: Mapping[str, Address] | None = None, names_max: int = NAMES_MAX) -> None:
        self._places: dict[str, Address] = dict(known or {})
        self._names_max = names_max

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def find(self, name: str) -> Address | None:
        return self._places.get(name)

    def locate(self, name: str, text: str) -> None:
        """A later address replaces an earlier one. UsageError when it is none, or when the book is full."""
        check_name(name)
        if len(text) > ADDRESS_LETTERS_MAX:
            raise UsageError(f"the address of {name} has {len(text)} letters")
        address = parse_address(text)
        if not address.host or not address.port:
            raise UsageError(f"address {text!r}: where {name} listens takes a host and a port")
        if name not in self._places and len(self._places) >= self._names_max:
            raise UsageError(f"{self._names_max} addresses are known; that of {name} is not taken")
        self._places[name] = address


async def address_to_tell(listens: Address, advertise: Address | None) -> Address:
    """What was asked for; otherwise where it listens. On every interface that is nothing one can connect to: then the
    address of this machine's name. UsageError when its name has none."""
    if advertise is not None:
        return advertise
    if listens.host not in _EVERY_INTERFACE:
        return listens
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(socket.gethostname(), listens.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise UsageError(
            f"listening on every interface: say with --advertise HOST:{listens.port} where others reach this broker"
        ) from None
    return Address(str(found[0][4][0]), listens.port)
