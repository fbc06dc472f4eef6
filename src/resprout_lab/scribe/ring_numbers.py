"""Numbers on the ring of Chord: members, keys and distances; and fingers, members at doubling distances."""

from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha256
from typing import Final

from resprout.core.errors import PeerError
from resprout_lab.blocks.mesh import OverlayMember

BITS: Final = 256
SIZE: Final = 1 << BITS
KEY_BYTES: Final = BITS // 8


@lru_cache(maxsize=1 << 16)
def number_of(text: str) -> int:
    return int.from_bytes(sha256(text.encode()).digest(), "big")


def member_number(member: OverlayMember) -> int:
    """By where it listens, as in the seed; by its name, where names are enough to connect."""
    return number_of(member.address or member.name)


def distance(start: int, end: int) -> int:
    """From one to the other, the way the ring goes."""
    return (end - start) % SIZE


def is_between(start: int, number: int, end: int) -> bool:
    """After the start and before the end; if these are one, anywhere but there."""
    return 0 < distance(start, number) < (distance(start, end) or SIZE)


def is_owned(start: int, number: int, end: int) -> bool:
    """After the start, up to the end; if these are one, everything."""
    return number == end or is_between(start, number, end)


def to_key(number: int) -> bytes:
    return number.to_bytes(KEY_BYTES, "big")


def from_key(key: bytes) -> int:
    """PeerError unless it is one."""
    if len(key) != KEY_BYTES:
        raise PeerError(f"a key has {KEY_BYTES} bytes, not {len(key)}")
    return int.from_bytes(key, "big")


class Fingers:
    def __init__(self, number: int) -> None:
        self._number = number
        """Of whoever they belong to."""
        self._all: dict[int, OverlayMember] = {}
        """Finger i is the owner of the number 2^i behind."""
        self._next = BITS

    def __iter__(self) -> Iterator[OverlayMember]:
        return iter(self._all.values())

    def start(self, finger: int) -> int:
        return (self._number + (1 << finger)) % SIZE

    def next(self, successor: OverlayMember) -> int | None:
        """Whose turn it is to be looked up: the furthest first, and those that are the first successor never. None in a
        ring that has no others."""
        reach = distance(self._number, member_number(successor))
        self._next -= 1
        if self._next < 0 or 1 << self._next <= reach:
            for finger in [finger for finger in self._all if 1 << finger <= reach]:
                del self._all[finger]
            self._next = BITS - 1
        return self._next if 1 << self._next > reach else None

    def put(self, finger: int, member: OverlayMember | None) -> None:
        """None: there is nobody else that far."""
        if member is None:
            self._all.pop(finger, None)
        else:
            self._all[finger] = member

    def forget(self, name: str) -> None:
        for finger in [finger for finger, member in self._all.items() if member.name == name]:
            del self._all[finger]
