"""Publications with barriers, and news of members.

The header of a publication names, for each target, the messages that must be delivered there before, as in the paper.

A header is made once, by the sender, and never changed. In a simulator one object serves all brokers. If all targets
wait for the same messages, their rows share one tuple. Properties of a header, such as its length, are computed once
for each distinct row and cached, because 511 targets times 511 dependencies are too many to examine at every broker.
"""

from collections.abc import Iterable
from functools import cached_property
from typing import Final

import msgspec

from resprout.core import limits
from resprout.core.contract import ProtocolMessage
from resprout.core.errors import PeerError
from resprout.wire.sizes import array_bytes, number_bytes, text_bytes
from resprout_lab.blocks.causal_order import COUNT_MAX
from resprout_lab.blocks.multicast.messages import MulticastMessage

Barrier = tuple[tuple[str, int], ...]
"""(member, number) of messages that must be delivered before, sorted by name."""

HEADER_BYTES_MAX: Final = limits.FRAME_BYTES - limits.BUNDLE_BYTES - (1 << 16)
"""Most bytes of an encoded header, so that it fits into a frame beside the largest bundle with its topic and keys."""
PAPER_TARGET_BYTES: Final = 8
PAPER_DEPENDENCY_BYTES: Final = 8


class Barriers(msgspec.Struct, frozen=True, array_like=True, dict=True):
    rows: tuple[tuple[str, Barrier], ...]
    """(target, its barrier), sorted by name."""
    others: tuple[tuple[str, Barrier], ...] = ()
    """(member, its barrier) for members that are no targets and have a barrier."""

    @classmethod
    def of(cls, targets: Iterable[str], barrier: Barrier) -> "Barriers":
        """Return barriers that are equal for all targets."""
        return cls(tuple([(target, barrier) for target in targets]))

    def of_target(self, member: str) -> Barrier:
        return self._by_target.get(member, ())

    @property
    def is_sound(self) -> bool:
        """Whether an honest peer may have sent it: all numbers are in range."""
        return self._numbers_are_sound

    @cached_property
    def paper_bytes(self) -> int:
        """Return the size by the paper: 8 bytes for each target and for each dependency of each row."""
        dependencies = sum(len(barrier) for _, barrier in (*self.rows, *self.others))
        return PAPER_TARGET_BYTES * len(self.rows) + PAPER_DEPENDENCY_BYTES * dependencies

    @cached_property
    def encoded_bytes(self) -> int:
        """Return the exact encoded size. `wire.sizes` relies on it, and verifies it from time to time."""
        sizes = {id(barrier): _barrier_bytes(barrier) for barrier in self._distinct}
        rows = (*self.rows, *self.others)
        names = sum(text_bytes(target) for target, _ in rows)
        bodies = sum(sizes[id(barrier)] + 1 for _, barrier in rows)
        return 1 + array_bytes(len(self.rows)) + array_bytes(len(self.others)) + bodies + names

    @cached_property
    def whole(self) -> Barrier:
        """All messages in any barrier."""
        if len(self._distinct) == 1:
            return self._distinct[0]
        whole: dict[str, int] = {}
        for barrier in self._distinct:
            for member, number in barrier:
                whole[member] = max(number, whole.get(member, 0))
        return tuple(sorted(whole.items()))

    @cached_property
    def _distinct(self) -> list[Barrier]:
        """Return the rows without repeated objects; equal rows may remain."""
        return list({id(barrier): barrier for _, barrier in (*self.rows, *self.others)}.values())

    @cached_property
    def _by_target(self) -> dict[str, Barrier]:
        return dict((*self.rows, *self.others))

    @cached_property
    def _numbers_are_sound(self) -> bool:
        return all(0 < number <= COUNT_MAX for barrier in self._distinct for _, number in barrier)


def _barrier_bytes(barrier: Barrier) -> int:
    return array_bytes(len(barrier)) + sum(1 + text_bytes(member) + number_bytes(number) for member, number in barrier)


EVERYBODY: Final = "#"
"""Name of the only group: a member numbers all its messages together, whatever the topic."""
GONE: Final = COUNT_MAX
_MEMBER_BYTES: Final = 16


class BarrierMulticast(MulticastMessage, frozen=True, tag=190):
    """A publication to the targets in its header: the members that subscribe to its topic."""

    number: int
    """Number of the message among all messages of its sender."""
    barriers: Barriers

    @property
    def cost(self) -> int:
        return self.bundle.cost + self.barriers.encoded_bytes + 2 * len(self.skipped)

    @property
    def paper_bytes(self) -> int:
        return self.barriers.paper_bytes

    @property
    def group(self) -> str:
        return EVERYBODY

    def checked_number(self) -> int:
        if not 0 < self.number <= COUNT_MAX or not self.barriers.is_sound:
            raise PeerError(f"{self.bundle!r} has numbers that cannot be")
        return self.number


class MemberKnown(msgspec.Struct, frozen=True, array_like=True):
    """A broker and the topic filters of its clients. It is a target of messages that one of the filters matches."""

    name: str
    life: int
    version: int
    """Version of this news; the higher one of a life is valid. `GONE`: the life is over."""
    filters: tuple[str, ...]

    @property
    def member(self) -> str:
        return f"{self.name}/{self.life}"

    @property
    def bulk(self) -> int:
        return len(self.name) + _MEMBER_BYTES + sum(len(one) + 2 for one in self.filters)


class MembersKnown(ProtocolMessage, frozen=True, tag=191):
    """Members that are new, or whose subscriptions have changed. A broker passes it on to neighbours that may not
    know."""

    members: tuple[MemberKnown, ...]

    @property
    def bulk(self) -> int:
        return sum(member.bulk for member in self.members)
