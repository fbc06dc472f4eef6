"""Members far away on the ring, each about twice as far as the one before."""

from collections.abc import Iterator

from resprout.overlay.wires import OverlayMember
from resprout_lab.scribe.chord.ring import BITS, SIZE, distance, member_number


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
