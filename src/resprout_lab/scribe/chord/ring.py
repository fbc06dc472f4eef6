"""Numbers on the ring."""

from functools import lru_cache
from hashlib import sha256
from typing import Final

from resprout.core.errors import PeerError
from resprout.overlay.wires import OverlayMember

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
