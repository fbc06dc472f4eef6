"""Where peers listen, by name: what a node was told at its start, and what it has heard since."""

from collections.abc import Iterator, Mapping
from typing import Final

from resprout.core.errors import UsageError
from resprout.core.names import check_name
from resprout.net.address import Address, parse_address

NAMES_MAX: Final = 100_000
ADDRESS_LETTERS_MAX: Final = 300
"""A host has at most 253."""


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
